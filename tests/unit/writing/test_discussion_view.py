import pytest

from gpu_report.findings.derive import derive_findings
from gpu_report.findings.finding import Finding, Verdict
from gpu_report.writing.discussion_view import AnswerView, answers
from tests.report.synthetic import render_devices
from tests.unit.findings.editing import base

AXES = {"batch_size": "batch_size", "frontier": "batch_size"}


def quality(experiment: str, key: str, verdict: Verdict = "yes") -> Finding:
    return Finding(
        id=f"{experiment}_quality/{key}",
        experiment=experiment,
        question="Does it fall?",
        verdict=verdict,
        statement=f"{key} is {verdict}.",
        evidence=(),
        threshold="More is.",
    )


def about_batches(*findings: Finding) -> AnswerView:
    (found,) = [view for view in answers("laptop", findings, AXES) if view.answer.question.key == "batch_and_quality"]
    return found


def test_an_answer_leads_with_its_verdicts_and_has_one_statement_and_all_sections() -> None:
    (part,) = about_batches(quality("batch_size", "cnn"), quality("frontier", "unet")).parts

    assert part.lead == "Larger batches cost quality wherever the data decide it."
    assert part.statements == ["cnn is yes."]
    assert [section.name for section in part.sections] == ["batch_size", "frontier"]


def test_what_is_decided_comes_before_what_stays_open() -> None:
    (part,) = about_batches(quality("batch_size", "a", "not resolved"), quality("frontier", "b", "no")).parts

    assert part.statements == ["b is no."]


def test_where_yes_and_no_are_found_the_first_of_each_stands() -> None:
    (part,) = about_batches(
        quality("batch_size", "a"), quality("batch_size", "b"), quality("frontier", "c", "no")
    ).parts

    assert part.statements == ["a is yes.", "c is no."]


def test_the_reason_stands_where_nothing_was_measured() -> None:
    same = quality("batch_size", "a", "not measured")

    (part,) = about_batches(same, same.model_copy(update={"id": "batch_size_quality/b"})).parts

    assert part.statements == ["a is not measured."]
    assert part.lead == "What larger batches cost in quality was not measured."


def test_of_parts_that_no_rule_was_asked_about_only_the_answer_itself_is_told() -> None:
    views = answers("laptop", [], AXES)

    assert [len(view.parts) for view in views] == [1] * len(views)
    assert all(view.parts[0].lead and not view.parts[0].statements for view in views)


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "cuda")])
def test_every_statement_of_the_discussion_is_that_of_a_finding(devices: tuple[str, ...]) -> None:
    tables, study = base(devices)
    findings = derive_findings(tables, study.experiments)
    views = answers("laptop", findings, {experiment.name: experiment.axis for experiment in study.experiments})
    told = {statement for view in views for part in view.parts for statement in part.statements}

    assert told
    assert told <= {finding.statement for finding in findings}


def test_of_further_parts_those_are_left_out_that_nothing_decides() -> None:
    tables, study = base(("cpu",))
    findings = [
        each.model_copy(update={"verdict": "not resolved"}) for each in derive_findings(tables, study.experiments)
    ]

    views = answers("laptop", findings, {experiment.name: experiment.axis for experiment in study.experiments})

    assert [len(view.parts) for view in views] == [1] * len(views)


def test_one_machine_has_its_questions_as_subsections() -> None:
    text = render_devices("cpu", "cuda")["sections/discussion.tex"]

    assert text.count(r"\gpurepsubsection{") == 5
    assert "not measured" not in text.split("Does a larger batch cost quality?")[1].split("subsection")[0]
