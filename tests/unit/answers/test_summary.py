import pytest

from gpu_report.answers.finding import Finding, Verdict
from gpu_report.answers.questions import QUESTIONS, derive_findings
from gpu_report.answers.summary import ACROSS_EXPERIMENTS, SYMPTOMS, across_experiments, answered
from gpu_report.errors import ReportError
from tests.unit.answers.editing import base, make_finding

AXES = {"complexity": "size", "growth": "size"}


def overhead(experiment: str, key: str, verdict: Verdict = "yes") -> Finding:
    return make_finding(
        id=f"{experiment}_overhead/{key}",
        experiment=experiment,
        verdict=verdict,
        statement=f"{key} is {verdict}.",
    )


def test_what_was_not_measured_is_no_answer() -> None:
    findings = [
        make_finding(verdict="not measured"),
        make_finding(statement="Two are."),
        make_finding(experiment="precision"),
    ]

    assert [each.statement for each in answered(findings, "device", [])] == ["Two are."]


def test_a_section_answers_the_questions_that_it_names_or_all_if_none_of_them_is_asked() -> None:
    names = ("faster", "crossover", "consistency")
    findings = [
        make_finding(id=f"device_{name}", statement=name, question=f"Is it {name}?")
        for name in names
    ]

    assert [each.statement for each in answered(findings, "device", ["consistency", "faster"])] == [
        "faster",
        "consistency",
    ]
    of_other_axes = answered(findings, "device", ["smaller", "best"])
    assert [each.statement for each in of_other_axes] == [*names]
    with pytest.raises(ReportError, match="there is no question 'quicker'"):
        answered(findings, "device", ["quicker"])


def test_a_question_across_experiments_is_answered_by_a_decided_finding_where_there_is_one() -> (
    None
):
    findings = [overhead("complexity", "a", "too close to call"), overhead("growth", "b", "no")]

    (answer,) = across_experiments(findings, AXES)

    assert "small models" in answer["question"]
    assert answer["statements"] == ["b is no."]
    assert answer["sections"] == [{"name": "growth"}]
    assert across_experiments(findings, AXES, left_out=["growth"])[0]["sections"] == []
    assert across_experiments([overhead("complexity", "a", "not measured")], AXES) == []


def test_the_answer_itself_is_given_even_where_it_is_too_close_to_call() -> None:
    findings = [
        make_finding(id=f"trace_{name}", experiment="trace", verdict=verdict, statement=name)
        for name, verdict in [
            ("transfer_bound", "too close to call"),
            ("pageable_copies", "too close to call"),
        ]
    ]

    (answer,) = across_experiments(findings, AXES)

    assert answer["statements"] == ["transfer_bound"]


def test_a_machine_without_a_gpu_answers_nothing_about_one() -> None:
    tables, study = base(("cpu",))
    axes = {experiment.name: experiment.axis for experiment in study.experiments}

    found = across_experiments(derive_findings(tables, study.experiments), axes)

    assert [text for answer in found for text in answer["statements"] if "GPU" in text] == []


def test_every_question_that_an_answer_or_a_symptom_rests_on_is_declared() -> None:
    named = [
        *(name for names in ACROSS_EXPERIMENTS.values() for name in names),
        *(name for symptom in SYMPTOMS for name in symptom.questions),
    ]
    for about, name in named:
        assert any(each.name == name and about in each.about for each in QUESTIONS), (about, name)
