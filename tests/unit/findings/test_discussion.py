import pytest

from gpu_report.findings.answers import (
    BALANCES,
    QUESTIONS,
    Balance,
    Part,
    balance,
    discussed,
    rank_effects,
)
from gpu_report.findings.derive import derive_findings
from gpu_report.findings.finding import Finding, Verdict
from gpu_report.findings.rules import RULES
from tests.unit.findings.editing import Edit, base, edited, figure, make_finding

PARTS = [part for question in QUESTIONS for part in question.parts]


def finding(part: Part, verdict: Verdict, *, key: str = "one") -> Finding:
    about, rule = part.rules[0]
    statement = f"It is {verdict}."
    return make_finding(
        id=f"{about}_{rule}/{key}", experiment=about, verdict=verdict, statement=statement
    )


def given(balance: Balance) -> list[Verdict]:
    """Verdicts that come to this."""
    return ["yes", "no"] if balance == "mixed" else [balance]


def test_the_answers_of_a_rule_that_is_declared_are_worded_differently_for_each_balance() -> None:
    declared = {(rule.about, rule.name) for rule in RULES}
    for part in PARTS:
        worded = [lead for balance in BALANCES if (lead := part.lead(balance))]

        assert len(set(worded)) == len(worded) >= 2
        assert all(lead.endswith(".") for lead in worded)
        assert {*part.rules} <= declared


def test_a_part_without_words_for_mixed_verdicts_rests_on_one_finding() -> None:
    tables, study = base(("cpu", "cuda"))
    axes = {experiment.name: experiment.axis for experiment in study.experiments}
    found = [
        (axes.get(each.experiment, each.experiment), each.rule)
        for each in derive_findings(tables, study.experiments)
    ]

    assert all(sum(map(found.count, part.rules)) <= 1 for part in PARTS if not part.mixed)


@pytest.mark.parametrize("come_to", ["yes", "no", "mixed", "not resolved", "not measured"])
def test_a_part_is_led_by_what_its_findings_come_to(come_to: Balance) -> None:
    for part in PARTS:
        findings = [
            finding(part, verdict, key=verdict.replace(" ", "_")) for verdict in given(come_to)
        ]

        sentences = [each for answer in discussed(findings, {}) for each in answer["sentences"]]

        lead = part.lead(come_to)
        assert sentences[: bool(lead)] == ([lead] if lead else []), part.rules
        assert bool(sentences) == (come_to != "not measured")
    assert balance([]) == "not measured"


def test_a_machine_without_an_accelerator_says_of_none_what_it_does() -> None:
    tables, study = base(("cpu",))
    axes = {experiment.name: experiment.axis for experiment in study.experiments}

    found = discussed(derive_findings(tables, study.experiments), axes, has_gpu=False)

    assert [answer["question"] for answer in found] == [QUESTIONS[0].text]


def test_an_experiment_answers_by_its_axis_whatever_it_is_called() -> None:
    part = next(part for part in PARTS if part.rules == (("size", "overhead"),))
    named = finding(part, "yes").model_copy(
        update={"id": "growth_overhead/cnn", "experiment": "growth"}
    )

    (answer,) = discussed([named], {"growth": "size"})

    assert answer["sentences"][0] == part.yes
    assert discussed([named], {"growth": "batch_size"}) == []


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
    assert rank_effects(base(("cpu",))[0], []) == ""
