import pytest

from gpu_report.findings.finding import Finding
from gpu_report.writing.finding_view import FindingView, UnknownRuleError, answered


def finding(**changes: object) -> Finding:
    asked = Finding(
        id="device_faster/cnn",
        experiment="device",
        question="Is it faster?",
        verdict="yes",
        statement="One is.",
        evidence=(),
        threshold="More is.",
    )
    return asked.model_copy(update=changes)


def test_a_question_that_can_be_answered_in_a_word_is_and_others_are_by_the_statement() -> None:
    said = {verdict: FindingView(finding=finding(verdict=verdict)).answer for verdict in ("yes", "no", "not resolved")}

    assert said == {"yes": "Yes.", "no": "No.", "not resolved": "Not resolved."}
    assert FindingView(finding=finding(question="Which is faster?")).answer == ""
    assert FindingView(finding=finding(question="Which is faster?", verdict="not resolved")).answer == "Not resolved."


def test_what_was_not_measured_is_no_answer() -> None:
    findings = [finding(verdict="not measured"), finding(statement="Two are."), finding(experiment="precision")]

    assert [view.statement for view in answered(findings, "device", [])] == ["Two are."]


def test_a_section_answers_the_rules_that_it_names() -> None:
    rules = ("faster", "convolutions", "consistency")
    findings = [finding(id=f"device_{rule}", statement=rule, question=f"Is it {rule}?") for rule in rules]

    assert [view.statement for view in answered(findings, "device", ["consistency", "faster"])] == [
        "faster",
        "consistency",
    ]
    with pytest.raises(UnknownRuleError, match="there is no rule 'quicker'"):
        answered(findings, "device", ["quicker"])


def test_an_answer_that_several_subjects_share_is_given_once_with_their_names() -> None:
    findings = [
        finding(subject="U-Net", statement="U-Net is faster."),
        finding(subject="the LSTM", statement="The LSTM is slower.", verdict="no"),
        finding(subject="ResNet-18", statement="ResNet-18 is faster."),
    ]

    said = [(view.answer, view.statement) for view in answered(findings, "device", [])]

    assert said == [
        ("Yes.", "U-Net is faster. The same answer holds for ResNet-18."),
        ("No.", "The LSTM is slower."),
    ]


def test_a_question_that_no_word_answers_has_every_statement() -> None:
    findings = [finding(question="Which is faster?", statement=f"{name} is.") for name in ("One", "Another")]

    assert [view.statement for view in answered(findings, "device", [])] == ["One is. Another is."]


def test_a_recommendation_names_the_section_that_its_finding_stands_in() -> None:
    sections = [FindingView(finding=finding(experiment=name)).section for name in ("device", "study")]

    assert sections == ["device", "reliability"]
