from typing import Any

import pytest

from gpu_report.findings.finding import Finding
from gpu_report.findings.rules.trace import RULES
from gpu_report.findings.scope import TRACE, chapter_scopes, key_of
from gpu_report.tables.traces import STEP_PARTS
from gpu_report.traces.advice import ALL_ADVICE, Advice
from tests.unit.findings.editing import Case, Edit, base, cases, edited, figure

ASKED = [rule for rule in ALL_ADVICE if rule.name != "allocator"]
"""The report does not ask about the allocator: bundles published before do not tell."""

BY_NAME = {rule.name: rule for rule in ASKED}
BEYOND = {
    rule.name: 0.5 * rule.threshold if rule.is_floor else 1.5 * rule.threshold for rule in ASKED
}
RESIDENT, SLOWED = "unet-128px-cuda-b16-w0-fp32-e2x4-resident", "lstm-cuda-b64-w0-fp32-e3x10"
EXCHANGING = (
    Edit(table="step_shares", where={}, cells={"communication_share": 0.01}),
    Edit(table="variants", where={}, cells={"devices": 2}),
)
OF_ANOTHER_RULE = Edit(table="trace_advice", where={}, cells={"rule": "another"})
ANSWERED = Edit(table="trace_unanswered", where={}, cells={"rule": "another"})
OF_DEVICE = [rule for rule in ASKED if rule.name not in ("data loader", "communication")]


def findings(devices: tuple[str, ...], rule: Advice, *edits: Edit) -> list[Finding]:
    tables, _ = base(devices)
    for edit in edits:
        tables = edited(tables, edit)
    (scope,) = (scope for scope in chapter_scopes(tables) if scope.name == TRACE)
    return [
        found for one in RULES if one.name == key_of(rule.name) for found in one.findings(scope)
    ]


def finding_of(rule: Advice) -> str:
    return f"trace_{key_of(rule.name)}"


def given(rule: Advice, **cells: Any) -> Edit:
    """That every reliable trace has the rule's advice; with what else the cells say."""
    return Edit(
        table="trace_advice",
        where={},
        cells={"rule": rule.name, "value": BEYOND[rule.name], **cells},
    )


def untold(rule: Advice, **cells: Any) -> Edit:
    """That the traces that leave any rule open leave this one open."""
    return Edit(table="trace_unanswered", where={}, cells={"rule": rule.name, **cells})


def of_slowed_ones_alone(rule: Advice) -> list[Edit]:
    """That none but the LSTM on CUDA was profiled, which cannot tell the rule, as the reason
    says.
    """
    gone = [*({"workload": name} for name in ("unet", "cnn", "image_files")), {"device": "cpu"}]
    lost = [Edit(table="step_shares", where=where, cells={"variant": "gone"}) for where in gone]
    return [*lost, untold(rule, variant=SLOWED)]


TRACE_CASES = [
    case
    for rule in ASKED
    for case in cases(
        finding_of(rule),
        yes=[*EXCHANGING, given(rule, finding="It was so.")],
        no=[*EXCHANGING, OF_ANOTHER_RULE, ANSWERED],
        unresolved=[*EXCHANGING, *of_slowed_ones_alone(rule)],
    )
]


def test_the_line_and_its_reason_are_those_of_the_advice_and_no_other_trace_may_be_open() -> None:
    for rule in ASKED:
        finding = finding_of(rule)
        told = Case(finding=finding, verdict="yes", edits=[*EXCHANGING, given(rule)]).derive()
        edits = [*EXCHANGING, OF_ANOTHER_RULE, untold(rule, variant=RESIDENT)]
        left_open = Case(finding=finding, verdict="not resolved", edits=edits).derive()

        limit = f"{100 * rule.threshold:g} %" if rule.unit == "1" else f"{rule.threshold:g}"
        side = "below" if rule.is_floor else "at least"
        assert f"{side} {limit}. {rule.reason}" in told.threshold
        assert told.recommendation.startswith(rule.remedy.rstrip("."))
        assert left_open.verdict == "not resolved"
        assert "cannot show it" in left_open.statement


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("accelerator busy", "data loader"),
        ("accelerator busy", "launch-bound"),
        ("short kernels", "launch-bound"),
    ],
)
def test_what_a_rule_about_the_cause_recommends_is_not_recommended_again(
    name: str, cause: str
) -> None:
    rule = BY_NAME[name]
    cells = {"rule": cause, "value": BEYOND[cause]}
    of_cause = Edit(table="trace_advice", where={"variant": RESIDENT}, cells=cells)

    alone, beside = (
        Case(finding=finding_of(rule), verdict="yes", edits=[given(rule), *further]).derive()
        for further in ((), (of_cause,))
    )

    assert alone.recommendation.startswith(rule.remedy.rstrip("."))
    assert (beside.verdict, beside.recommendation) == ("yes", "")


def test_a_gain_that_is_not_significant_is_none() -> None:
    unclear = {"throughput_per_s_low": 1.0, "throughput_per_s_high": 1000.0}
    edits = [
        given(BY_NAME["tensor cores"]),
        Edit(table="variants", where={"device": "cuda"}, cells=unclear),
        Edit(table="precision", where={}, cells={"speedup_p": 0.5}),
    ]

    assert Case(finding="trace_tensor_cores", verdict="yes", edits=edits).derive().gain is None


def test_traces_that_do_not_show_are_counted_apart_and_their_advice_does_not_count() -> None:
    rule = BY_NAME["launch-bound"]
    of_doubted = Edit(table="trace_advice", where={"variant": RESIDENT}, cells={"variant": SLOWED})

    found = Case(finding=finding_of(rule), verdict="yes", edits=[given(rule), of_doubted]).derive()

    assert found.statement.endswith("One more trace cannot show it.")
    assert SLOWED not in {evidence.variant for evidence in found.evidence}


def test_without_an_accelerator_nothing_is_asked_about_one() -> None:
    (scope,) = (scope for scope in chapter_scopes(base(("cpu",))[0]) if scope.name == TRACE)
    names = {key_of(rule.name) for rule in OF_DEVICE} | {"limits", "transfer_bound"}

    assert names <= {rule.name for rule in RULES}
    assert not [found for one in RULES if one.name in names for found in one.findings(scope)]


def test_kernels_of_a_cuda_graph_are_not_asked_about_their_launches() -> None:
    rule = BY_NAME["short kernels"]
    captured = Edit(
        table="variants", where={"variant": RESIDENT}, cells={"options": "resident+graphs"}
    )
    edits = [OF_ANOTHER_RULE, untold(rule, variant=RESIDENT), captured]

    assert Case(finding=finding_of(rule), verdict="no", edits=edits).derive().verdict == "no"


LIMITS, ON_CPU, COPYING = "trace_limits/cuda", "trace_cpu_limits/cpu", "trace_transfer_bound"
MISSING = float("nan")


def steps(
    *,
    kernels: float = 0.0,
    copies: float = 0.0,
    exchange: float = 0.0,
    wait: float = 0.0,
    **where: str,
) -> list[Edit]:
    """What a profiled step of the variants on the accelerator went into; the rest is the host's."""
    shares = {
        **dict.fromkeys((f"{part}_share" for part in STEP_PARTS), 0.0),
        "kernel_share": kernels,
        "memcpy_share": copies,
        "exposed_copy_share": copies,
        "communication_share": exchange,
        "loader_share": wait,
        "other_share": 1 - kernels - copies - exchange - wait,
    }
    return [Edit(table="step_shares", where={"device": "cuda", **where}, cells=shares)]


def steps_on_cpu(**parts: float) -> list[Edit]:
    """What a profiled step of the variants on the CPU went into."""
    shares = {**dict.fromkeys(STEP_PARTS, 0.0), **parts}
    cells = {f"{part}_share": share for part, share in shares.items()}
    return [Edit(table="step_shares", where={"device": "cpu"}, cells=cells)]


def ceiling(achieved_of_roof: float, roof: str = "compute") -> Edit:
    cells = {
        **figure("achieved_flops_per_s", 1e12 * achieved_of_roof, 1e9),
        "roof_flops_per_s": 1e12,
        "roof": roof,
    }
    return Edit(table="efficiency", where={"variant": RESIDENT}, cells=cells)


EVEN = steps(kernels=0.3, copies=0.2, wait=0.2)
NOTHING_TOLD = steps(kernels=MISSING)
ON_CPU_EVEN = steps_on_cpu(operator=0.4, other=0.3, loader=0.3)
LIMITS_CASES = [
    *cases(LIMITS, yes=steps(kernels=0.9), no=EVEN, unresolved=NOTHING_TOLD),
    *cases(
        ON_CPU,
        yes=steps_on_cpu(operator=0.9, other=0.1),
        no=ON_CPU_EVEN,
        unresolved=steps_on_cpu(operator=MISSING),
    ),
    *cases(
        COPYING,
        yes=[*steps(copies=0.05), *steps(copies=0.3, variant=RESIDENT)],
        no=steps(copies=0.1),
        unresolved=steps(copies=MISSING),
    ),
]


def found(finding: str, *edits: Edit) -> Finding:
    return Case(finding=finding, verdict="yes", edits=edits).derive()


def limit_of_variant(
    *edits: Edit, variant: str = RESIDENT, finding: str = LIMITS
) -> tuple[str, str, str]:
    """The label of its evidence, the number without interval, and the table."""
    (one,) = [part for part in found(finding, *edits).evidence if part.variant == variant]
    return one.label, one.value.partition(" (")[0], one.table


@pytest.mark.parametrize(
    ("parts", "limit", "share"),
    [
        ({"kernels": 0.7, "copies": 0.1}, "kernels", "70.0"),
        ({"copies": 0.7, "kernels": 0.1}, "copies", "70.0"),
        ({"exchange": 0.7, "kernels": 0.1}, "communication between processes", "70.0"),
        ({"wait": 0.7, "kernels": 0.2}, "waiting for data", "70.0"),
        ({"wait": 0.1, "kernels": 0.1, "copies": 0.1}, "launching", "70.0"),
        ({"kernels": 0.5, "wait": 0.3}, "largest part, no limit: kernels", "50.0"),
    ],
)
def test_the_part_that_takes_more_than_half_of_a_step_limits_it(
    parts: Any, limit: str, share: str
) -> None:
    label, value, table = limit_of_variant(*steps(**parts))

    assert label == (limit if "no limit" in limit else f"limit: {limit}")
    assert table == "step_shares"
    assert value.startswith(share)


@pytest.mark.parametrize(("roof", "words"), [("compute", "arithmetic"), ("memory", "memory")])
def test_a_ceiling_that_timed_runs_came_near_limits_whatever_the_trace_says(
    roof: str, words: str
) -> None:
    label, value, table = limit_of_variant(ceiling(0.8, roof), *NOTHING_TOLD)

    assert label == f"limit: {words}"
    assert table == "efficiency"
    assert value.startswith("80.0")
    assert limit_of_variant(ceiling(0.3, roof), *NOTHING_TOLD)[2] == "trace_doubts"
    beyond = limit_of_variant(ceiling(1.2, roof), *steps(kernels=0.9))
    assert beyond[2] == "step_shares"


def test_a_trace_whose_steps_are_invalidated_is_named_with_the_check_and_decides_nothing() -> None:
    cells = {"check": "durations", "spoils": "steps"}
    spoiled = Edit(table="trace_doubts", where={"variant": SLOWED}, cells=cells)
    gone = steps(kernels=MISSING, variant=SLOWED)

    assert limit_of_variant(spoiled, *gone, variant=SLOWED) == (
        "limit missing in the trace",
        "it failed the check 'durations'",
        "trace_doubts",
    )
    assert found(LIMITS, spoiled, *gone).statement.endswith("One more trace cannot show it.")


CASES = [*TRACE_CASES, *LIMITS_CASES]
