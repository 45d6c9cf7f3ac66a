import pytest

from gpu_report.findings.derive import derive_findings
from gpu_report.findings.discussion import (
    BALANCES,
    QUESTIONS,
    Answer,
    Balance,
    Part,
    balance,
    discuss,
    rank_effects,
)
from gpu_report.findings.finding import Finding, Verdict
from gpu_report.findings.rules import RULES
from tests.unit.findings.editing import Edit, base, edited, figure

PARTS = [part for question in QUESTIONS for part in question.parts]


def finding(part: Part, verdict: Verdict, *, key: str = "one") -> Finding:
    about, rule = part.rules[0]
    return Finding(
        id=f"{about}_{rule}/{key}",
        experiment=about,
        question="Is it?",
        verdict=verdict,
        statement=f"It is {verdict}.",
        evidence=(),
        threshold="More is.",
    )


def given(balance: Balance) -> list[Verdict]:
    """Verdicts that come to this."""
    return ["yes", "no"] if balance == "mixed" else [balance]


def answers(devices: tuple[str, ...]) -> dict[str, Answer]:
    """Of the tables of a study, by question."""
    tables, study = base(devices)
    axes = {experiment.name: experiment.axis for experiment in study.experiments}
    found = discuss(derive_findings(tables, study.experiments), axes)
    return {answer.question.key: answer for answer in found}


def test_the_answers_to_a_question_are_worded_differently_for_each_balance() -> None:
    for part in PARTS:
        worded = [lead for balance in BALANCES if (lead := part.lead(balance))]

        assert len(set(worded)) == len(worded) >= 3
        assert all(lead.endswith(".") for lead in worded)


def test_a_part_without_words_for_mixed_verdicts_rests_on_one_finding() -> None:
    found = answers(("cpu", "cuda"))
    parts = [
        one
        for answer in found.values()
        for one in zip(answer.question.parts, answer.parts, strict=True)
    ]

    assert all(len(answered.findings) <= 1 for part, answered in parts if not part.mixed)


def test_every_rule_that_answers_is_declared() -> None:
    declared = {(rule.about, rule.name) for rule in RULES}

    assert {rule for part in PARTS for rule in part.rules} <= declared


@pytest.mark.parametrize("part", PARTS, ids=lambda part: " ".join(part.rules[0]))
@pytest.mark.parametrize("come_to", ["yes", "no", "mixed", "not resolved", "not measured"])
def test_a_part_is_led_by_what_its_findings_come_to(part: Part, come_to: Balance) -> None:
    findings = [finding(part, verdict, key=verdict.replace(" ", "_")) for verdict in given(come_to)]

    (found,) = [one for answer in discuss(findings, {}) for one in answer.parts if one.findings]

    assert (found.balance, found.lead) == (come_to, part.lead(come_to))


def test_open_verdicts_leave_the_decided_ones_to_decide_and_come_after_them() -> None:
    part = PARTS[0]
    findings = [
        finding(part, verdict, key=verdict.replace(" ", "_")) for verdict in ("not resolved", "yes")
    ]

    found = discuss(findings, {})[0].parts[0]

    assert found.balance == "yes"
    assert [one.verdict for one in found.measured] == ["yes", "not resolved"]


def test_nothing_measured_comes_to_nothing_measured() -> None:
    assert balance([]) == "not measured"
    assert {answer.balance for answer in discuss([], {})} == {"not measured"}


def test_a_machine_without_an_accelerator_says_of_none_what_it_does() -> None:
    found = answers(("cpu",))

    assert {answer.balance for key, answer in found.items() if key != "small_models"} == {
        "not measured"
    }
    on_cpu = found["limits"].parts[1]
    assert on_cpu.findings


def test_an_experiment_answers_by_its_axis_whatever_it_is_called() -> None:
    part = next(part for part in PARTS if part.rules == (("size", "overhead"),))
    named = finding(part, "yes").model_copy(
        update={"id": "growth_overhead/cnn", "experiment": "growth"}
    )

    found = {answer.question.key: answer for answer in discuss([named], {"growth": "size"})}

    assert found["small_models"].balance == "yes"
    assert {answer.balance for answer in discuss([named], {"growth": "batch_size"})} == {
        "not measured"
    }


def gained(table: str, where: dict[str, object], speedup: float) -> Edit:
    return Edit(table=table, where=where, cells=figure("speedup", speedup))


def test_what_was_varied_is_ranked_by_its_measured_effect_on_the_accelerator() -> None:
    tables, study = base(("cpu", "cuda"))
    for edit in (
        *(
            gained(table, {}, 1.0)
            for table in ("batch_size", "frontier", "complexity", "precision", "workers")
        ),
        gained("batch_size", {"batch_size": 256}, 5.0),
        gained("complexity", {"device": "cuda", "size": "large"}, 1 / 9),
        gained("complexity", {"device": "cpu", "size": "large"}, 1 / 20),
        gained("precision", {"precision": "bf16"}, 2.0),
    ):
        tables = edited(tables, edit)

    ranked = rank_effects(tables, study.experiments)

    order = ["model size 0.11", "batch size 5.0", "precision 2.0"]
    assert [ranked.index(effect) for effect in order] == sorted(
        ranked.index(effect) for effect in order
    )
    assert "0.05" not in ranked  # what the size changes on the CPU
    assert "against the CPU" in ranked
    assert "DataLoader workers" not in ranked


def test_nothing_measured_ranks_nothing() -> None:
    assert rank_effects(base(("cpu",))[0], []) == ""
