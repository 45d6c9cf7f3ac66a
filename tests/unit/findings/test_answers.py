from collections.abc import Mapping
from typing import Any

import pytest

from gpu_report.errors import ReportError
from gpu_report.findings.answers import answered, discussed
from gpu_report.findings.finding import Finding, Verdict
from tests.unit.findings.editing import make_finding

AXES = {"complexity": "size", "growth": "size"}


def overhead(experiment: str, key: str, verdict: Verdict = "yes") -> Finding:
    statement = f"{key} is {verdict}."
    return make_finding(
        id=f"{experiment}_overhead/{key}",
        experiment=experiment,
        verdict=verdict,
        statement=statement,
    )


def about_sizes(*findings: Finding) -> Mapping[str, Any]:
    (found,) = [each for each in discussed(findings, AXES) if "small" in each["question"]]
    return found


def test_what_was_not_measured_is_no_answer() -> None:
    findings = [
        make_finding(verdict="not measured"),
        make_finding(statement="Two are."),
        make_finding(experiment="precision"),
    ]

    assert [each.statement for each in answered(findings, "device", [])] == ["Two are."]


def test_a_section_answers_the_rules_that_it_names() -> None:
    rules = ("faster", "convolutions", "consistency")
    findings = [
        make_finding(id=f"device_{rule}", statement=rule, question=f"Is it {rule}?")
        for rule in rules
    ]

    assert [each.statement for each in answered(findings, "device", ["consistency", "faster"])] == [
        "faster",
        "consistency",
    ]
    with pytest.raises(ReportError, match="there is no rule 'quicker'"):
        answered(findings, "device", ["quicker"])


def test_an_answer_leads_with_its_verdicts_and_has_one_decided_statement_and_all_sections() -> None:
    answer = about_sizes(overhead("complexity", "a", "not resolved"), overhead("growth", "b", "no"))

    assert answer["sentences"][1:] == ["b is no."]
    assert [section["name"] for section in answer["sections"]] == ["complexity", "growth"]
    assert discussed([], AXES) == []
    assert discussed([overhead("complexity", "a", "not measured")], AXES) == []


def test_the_answer_itself_stays_where_it_is_not_resolved() -> None:
    def about_copies(rule: str, verdict: Verdict) -> Finding:
        return make_finding(
            id=f"trace_{rule}",
            experiment="trace",
            verdict=verdict,
            statement=f"{rule} is {verdict}.",
        )

    asked = [about_copies("transfer_bound", "not resolved"), about_copies("pageable_copies", "yes")]

    (answer,) = discussed(asked, AXES)

    assert answer["statement"] == answer["sentences"][0] == "transfer_bound is not resolved."
    assert len(answer["sentences"]) == 2
