import pytest

from gpu_report.findings.answers import BALANCES, QUESTIONS, Balance, Part, balance, discussed
from gpu_report.findings.finding import Finding, Verdict
from gpu_report.findings.rules import RULES, derive_findings
from tests.unit.findings.editing import base, make_finding

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
