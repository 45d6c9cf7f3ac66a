from typing import Any

import pytest

from gpu_report.findings.finding import Finding
from gpu_report.findings.rules.trace import RULES
from gpu_report.findings.scope import TRACE, chapter_scopes, key_of
from gpu_report.traces.advice import RULES as ADVISING
from gpu_report.traces.advice import Rule
from tests.unit.findings.editing import Case, Edit, base, edited

BY_NAME = {rule.name: rule for rule in ADVISING}
BEYOND = {rule.name: 0.5 * rule.threshold if rule.is_floor else 1.5 * rule.threshold for rule in ADVISING}
RESIDENT, SLOWED = "unet-128px-cuda-b16-w0-fp32-e2x4-resident", "lstm-cuda-b64-w0-fp32-e3x10"
EXCHANGING = Edit(table="step_shares", where={}, cells={"communication_share": 0.01})
OF_ANOTHER_RULE = Edit(table="trace_advice", where={}, cells={"rule": "another"})
OF_DEVICE = [rule for rule in ADVISING if rule.name not in ("data loader", "communication")]


def findings(devices: tuple[str, ...], rule: Rule, *edits: Edit) -> list[Finding]:
    tables, _ = base(devices)
    for edit in edits:
        tables = edited(tables, edit)
    (scope,) = (scope for scope in chapter_scopes(tables) if scope.name == TRACE)
    return [found for one in RULES if one.name == key_of(rule.name) for found in one.findings(scope)]


def finding_of(rule: Rule) -> str:
    return f"trace_{key_of(rule.name)}"


def given(rule: Rule, **cells: Any) -> Edit:
    """That every reliable trace has the rule's advice; with what else the cells say."""
    return Edit(table="trace_advice", where={}, cells={"rule": rule.name, "value": BEYOND[rule.name], **cells})


def untold(rule: Rule, **cells: Any) -> Edit:
    """That the traces that leave any rule open leave this one open."""
    return Edit(table="trace_unanswered", where={}, cells={"rule": rule.name, **cells})


def of_slowed_ones_alone(rule: Rule) -> list[Edit]:
    """That none but the LSTM on CUDA was profiled, which cannot tell the rule, as the reason says."""
    gone = [{"workload": name} for name in ("unet", "cnn", "image_files")]
    return [
        *(Edit(table="step_shares", where=where, cells={"variant": "gone"}) for where in [*gone, {"device": "cpu"}]),
        untold(rule, variant=SLOWED),
    ]


CASES = [
    *(
        Case(finding=finding_of(rule), verdict="yes", edits=[EXCHANGING, given(rule, finding="It was so.")])
        for rule in ADVISING
    ),
    *(Case(finding=finding_of(rule), verdict="no", edits=[EXCHANGING, OF_ANOTHER_RULE]) for rule in ADVISING),
    *(
        Case(
            finding=finding_of(rule),
            verdict="not resolved",
            edits=[EXCHANGING, *of_slowed_ones_alone(rule)],
        )
        for rule in ADVISING
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_traces_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_every_rule_of_the_advice_is_asked_once() -> None:
    assert [rule.name for rule in RULES][-len(ADVISING) :] == [key_of(rule.name) for rule in ADVISING]


@pytest.mark.parametrize("rule", ADVISING, ids=lambda rule: rule.name)
def test_the_line_and_its_reason_are_those_of_the_advice(rule: Rule) -> None:
    found = Case(finding=finding_of(rule), verdict="yes", edits=[EXCHANGING, given(rule)]).derive()

    limit = f"{100 * rule.threshold:g} %" if rule.unit == "1" else f"{rule.threshold:g}"
    assert f"{'below' if rule.is_floor else 'at least'} {limit}. {rule.reason}" in found.threshold
    assert found.recommendation.endswith(rule.advice)


@pytest.mark.parametrize(
    ("rule", "cause"),
    [("accelerator busy", "data loader"), ("accelerator busy", "launch-bound"), ("short kernels", "launch-bound")],
)
def test_what_a_rule_about_the_cause_recommends_is_not_recommended_again(rule: str, cause: str) -> None:
    of_cause = Edit(table="trace_advice", where={"variant": RESIDENT}, cells={"rule": cause, "value": BEYOND[cause]})
    alone = Case(finding=finding_of(BY_NAME[rule]), verdict="yes", edits=[given(BY_NAME[rule])]).derive()
    beside = Case(finding=finding_of(BY_NAME[rule]), verdict="yes", edits=[given(BY_NAME[rule]), of_cause]).derive()

    assert alone.recommendation == BY_NAME[rule].advice
    assert (beside.verdict, beside.recommendation) == ("yes", "")


def test_the_most_extreme_trace_is_named_with_what_was_found_there_and_the_place() -> None:
    rule = BY_NAME["data loader"]
    worst = {"value": 0.9, "finding": "The loop waited in 90 % of the time.", "place": "train.py(3): load"}
    edits = [given(rule, value=0.1), Edit(table="trace_advice", where={"variant": RESIDENT}, cells=worst)]

    found = Case(finding="trace_data_loader", verdict="yes", edits=edits).derive()

    assert "most of all in U-Net 128px on CUDA (batch size 16, data on the device): the loop waited" in found.statement
    assert "in 90 % of the time (train.py(3): load)." in found.statement
    assert (found.evidence[0].variant, found.evidence[0].value) == (RESIDENT, "90.0 %")
    assert {evidence.table for evidence in found.evidence} == {"trace_advice"}


def test_where_less_is_worse_the_least_is_named() -> None:
    rule = BY_NAME["accelerator busy"]
    edits = [given(rule, value=0.4), Edit(table="trace_advice", where={"variant": RESIDENT}, cells={"value": 0.1})]

    found = Case(finding="trace_accelerator_busy", verdict="yes", edits=edits).derive()

    assert found.evidence[0].variant == RESIDENT


def test_traces_that_do_not_tell_are_counted_apart_and_their_advice_does_not_count() -> None:
    rule = BY_NAME["launch-bound"]
    of_doubted = Edit(table="trace_advice", where={"variant": RESIDENT}, cells={"variant": SLOWED})

    found = Case(finding=finding_of(rule), verdict="yes", edits=[given(rule), of_doubted]).derive()

    assert found.statement.endswith("One more trace does not tell it reliably.")
    assert SLOWED not in {evidence.variant for evidence in found.evidence}


def test_where_no_trace_tells_the_reason_is_given() -> None:
    rule = BY_NAME["launch-bound"]

    found = Case(finding=finding_of(rule), verdict="not resolved", edits=of_slowed_ones_alone(rule)).derive()

    assert "that of bidirectional LSTM on CUDA (batch size 64) does not, since a profiled step took" in found.statement
    assert not found.recommendation


def test_a_trace_that_tells_nothing_of_a_device_is_not_counted_among_those_to_which_a_rule_does_not_apply() -> None:
    rule = BY_NAME["peak memory"]
    lacking = untold(rule, variant=RESIDENT, reason="it has no memory of an accelerator")

    counted = Case(finding=finding_of(rule), verdict="no", edits=[OF_ANOTHER_RULE]).derive()
    found = Case(finding=finding_of(rule), verdict="no", edits=[OF_ANOTHER_RULE, lacking]).derive()

    assert found.statement != counted.statement
    assert found.statement.endswith("One more trace does not tell it reliably.")


@pytest.mark.parametrize("rule", OF_DEVICE, ids=lambda rule: rule.name)
def test_without_an_accelerator_nothing_is_asked_about_one(rule: Rule) -> None:
    assert not findings(("cpu",), rule)


def test_the_exchange_of_processes_is_asked_about_only_where_there_is_one() -> None:
    assert not findings(("cpu", "cuda"), BY_NAME["communication"])
    assert findings(("cpu", "cuda"), BY_NAME["communication"], EXCHANGING)
