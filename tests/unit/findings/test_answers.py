from collections.abc import Mapping
from typing import Any

import pytest

from gpu_report.errors import ReportError
from gpu_report.findings.answers import answer_word, answered, discussed
from gpu_report.findings.derive import derive_findings
from gpu_report.findings.finding import Finding, Verdict
from tests.unit.findings.editing import base, make_finding

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


def test_a_question_that_can_be_answered_in_a_word_is_and_others_are_by_the_statement() -> None:
    said = {
        verdict: answer_word(make_finding(verdict=verdict))
        for verdict in ("yes", "no", "not resolved")
    }

    assert said == {"yes": "Yes.", "no": "No.", "not resolved": "Not resolved."}
    assert answer_word(make_finding(question="Which is faster?")) == ""
    assert (
        answer_word(make_finding(question="Which is faster?", verdict="not resolved"))
        == "Not resolved."
    )


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


def test_an_answer_that_several_subjects_share_is_given_once_with_their_names() -> None:
    findings = [
        make_finding(subject="U-Net", statement="U-Net is faster."),
        make_finding(subject="the LSTM", statement="The LSTM is slower.", verdict="no"),
        make_finding(subject="ResNet-18", statement="ResNet-18 is faster."),
    ]

    assert [(each.verdict, each.statement) for each in answered(findings, "device", [])] == [
        ("yes", "U-Net is faster. The same answer holds for ResNet-18."),
        ("no", "The LSTM is slower."),
    ]


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


def test_of_further_parts_those_are_left_out_that_nothing_decides() -> None:
    tables, study = base(("cpu", "cuda"))
    axes = {experiment.name: experiment.axis for experiment in study.experiments}
    findings = derive_findings(tables, study.experiments)
    undecided = [each.model_copy(update={"verdict": "not resolved"}) for each in findings]

    assert any(len(each["sentences"]) > 2 for each in discussed(findings, axes))
    assert all(len(each["sentences"]) <= 2 for each in discussed(undecided, axes))
