"""What the findings say, for the templates: answers about a subject, and answers to the questions
of the discussion.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from gpu_report.errors import ReportError
from gpu_report.findings.discussion import Answer, discuss
from gpu_report.findings.estimate import listed
from gpu_report.findings.finding import STUDY, Finding
from gpu_report.findings.rules import RULES

_ANSWERS: Final = {"yes": "Yes.", "no": "No.", "not resolved": "Not resolved."}
_ASKS_YES_OR_NO: Final = frozenset({"Are", "Can", "Did", "Do", "Does", "Has", "Is", "Was", "Were"})
"""First words of questions; which, what or how many is answered by the statement."""


def answered(findings: Iterable[Finding], subject: str, rules: Sequence[str]) -> list[Finding]:
    """Those about one experiment or chapter that had anything to decide by; findings.csv has the
    others too.

    Where several have the same question and answer, the first stands for all: its statement ends
    with the subjects of the others, or has their statements too where no word is the answer.

    Args:
        findings: All of the machine.
        subject: The experiment or chapter.
        rules: Those whose answers a section has room for; without any, all.

    Raises:
        ReportError: a name is no rule's.
    """
    known = {rule.name for rule in RULES}
    unknown = [name for name in rules if name not in known]
    if unknown:
        raise ReportError(
            f"there is no rule {unknown[0]!r} to answer by; use one of {', '.join(sorted(known))}"
        )
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if (
            finding.experiment == subject
            and finding.verdict != "not measured"
            and (not rules or finding.rule in rules)
        ):
            alike.setdefault((finding.question, answer_word(finding)), []).append(finding)
    questions = list(dict.fromkeys(question for question, _ in alike))
    in_order = sorted(alike.items(), key=lambda item: questions.index(item[0][0]))
    return [_together(same, word) for (_, word), same in in_order]


def _together(same: Sequence[Finding], word: str) -> Finding:
    first, *others = same
    if not word:
        statement = " ".join(finding.statement for finding in same)
    else:
        subjects = list(dict.fromkeys(finding.subject for finding in others if finding.subject))
        statement = first.statement + (
            f" The same answer holds for {listed(subjects)}." if subjects else ""
        )
    return first.model_copy(update={"statement": statement})


def answer_word(finding: Finding) -> str:
    """The answer in a word; empty where the question asks for more than yes or no, and the
    statement says it.
    """
    is_said = finding.is_decided and finding.question.partition(" ")[0] not in _ASKS_YES_OR_NO
    return "" if is_said else _ANSWERS.get(finding.verdict, "")


def discussed(
    findings: Sequence[Finding],
    axes: Mapping[str, str],
    *,
    has_gpu: bool = True,
    left_out: Collection[str] = (),
) -> list[Mapping[str, Any]]:
    """The questions of the discussion about which anything was measured, as one machine's findings
    answer them.

    Args:
        findings: All of the machine.
        axes: The axis of each experiment, by name.
        has_gpu: Whether the machine measured on one; questions about a GPU are not asked without.
        left_out: Sections that the document does not have.

    Returns:
        For each its `question`, the `statement` that decides it, the `sentences` that answer it,
        and the `sections` with the findings behind these.
    """
    return [
        _discussed(answer, left_out)
        for answer in discuss(findings, axes)
        if (has_gpu or not answer.question.needs_gpu)
        and any(part.balance != "not measured" for part in answer.parts)
    ]


def _discussed(answer: Answer, left_out: Collection[str]) -> Mapping[str, Any]:
    """The first part of the answer that was measured, and of the others those that the data
    decide.
    """
    first, *rest = [part for part in answer.parts if part.balance != "not measured"]
    others = [part for part in rest if part.balance != "not resolved"]
    statement = first.measured[0].statement
    sections = dict.fromkeys(
        "reliability"
        if finding.experiment == STUDY
        else finding.experiment  # as the section's label names it
        for part in (first, *others)
        for finding in part.findings
    )
    return {
        "question": answer.question.text,
        "statement": statement,
        "sentences": [*filter(None, (first.lead, statement, *(part.lead for part in others)))],
        "sections": [{"name": section} for section in sections if section not in left_out],
    }
