import pytest

from gpu_report.findings.derive import derive_findings
from gpu_report.findings.finding import Finding, Verdict
from gpu_report.writing.discussion_view import AnswerView, answers
from tests.unit.findings.editing import base

AXES = {"complexity": "size", "growth": "size"}


def overhead(experiment: str, key: str, verdict: Verdict = "yes") -> Finding:
    return Finding(
        id=f"{experiment}_overhead/{key}",
        experiment=experiment,
        question="Does it fall?",
        verdict=verdict,
        statement=f"{key} is {verdict}.",
        evidence=(),
        threshold="More is.",
    )


def about_sizes(*findings: Finding) -> AnswerView:
    (found,) = [view for view in answers(findings, AXES) if view.answer.question.key == "small_models"]
    return found


def test_an_answer_leads_with_its_verdicts_and_has_one_statement_and_all_sections() -> None:
    answer = about_sizes(overhead("complexity", "cnn"), overhead("growth", "unet"))

    assert answer.sentences == ["Fixed costs per step dominate the smallest models.", "cnn is yes."]
    assert [section.name for section in answer.sections] == ["complexity", "growth"]


def test_what_is_decided_comes_before_what_stays_open() -> None:
    answer = about_sizes(overhead("complexity", "a", "not resolved"), overhead("growth", "b", "no"))

    assert answer.sentences[1:] == ["b is no."]


def test_a_question_about_which_nothing_was_measured_is_left_out() -> None:
    assert answers([], AXES) == []
    assert answers([overhead("complexity", "a", "not measured")], AXES) == []


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "cuda")])
def test_an_answer_has_leading_sentences_and_the_statement_of_one_finding(devices: tuple[str, ...]) -> None:
    tables, study = base(devices)
    findings = derive_findings(tables, study.experiments)
    statements = {finding.statement for finding in findings}

    views = answers(findings, {experiment.name: experiment.axis for experiment in study.experiments})

    assert {len(statements & set(view.sentences)) for view in views} <= {0, 1}
    assert any(statements & set(view.sentences) for view in views)


def test_of_further_parts_those_are_left_out_that_nothing_decides() -> None:
    tables, study = base(("cpu",))
    findings = [
        each.model_copy(update={"verdict": "not resolved"}) for each in derive_findings(tables, study.experiments)
    ]

    views = answers(findings, {experiment.name: experiment.axis for experiment in study.experiments})

    assert all(len(view.sentences) <= 2 for view in views)
