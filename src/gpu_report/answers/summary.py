"""What the findings say together: answers about a subject, questions across the experiments, and
what to do.

Findings -> those about an experiment or a chapter, with alike ones put together
Findings -> those that a question across the experiments rests on -> their statements
Recommendations of the findings -> by symptom -> rows of a table
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from gpu_report.answers.finding import Finding, recommendations
from gpu_report.answers.questions import QUESTIONS
from gpu_report.answers.scope import DDP_OPTIONS, TRACE
from gpu_report.errors import ReportError
from gpu_report.glossary import Row
from gpu_report.tables.bundle import grouped
from gpu_report.words import listed

QuestionName = tuple[str, str]
"""What a question is about, such as an axis or a chapter, and its name."""

ACROSS_EXPERIMENTS: Final[Mapping[str, tuple[QuestionName, ...]]] = {
    "Why do small models gain little on a GPU?": (("size", "overhead"),),
    "Where is the GPU idle, and what helps?": (
        ("workers", "help"),
        (TRACE, "idle"),
        (TRACE, "synchronising_calls"),
    ),
    "Does a larger batch cost quality?": (("batch_size", "quality"),),
    "When is copying the bottleneck?": (
        (TRACE, "transfer_bound"),
        (TRACE, "pageable_copies"),
    ),
}
"""What a reader asks of the whole study, and the questions whose findings answer it, the first of
which is the answer itself.
"""

_ANSWERS: Final = {"yes": "Yes.", "no": "No.", "too close to call": "Too close to call."}
_ASKS_YES_OR_NO: Final = frozenset({"Are", "Can", "Did", "Do", "Does", "Has", "Is", "Was", "Were"})
"""First words of questions; which, what or how many is answered by the statement."""


def answered(findings: Iterable[Finding], subject: str, names: Sequence[str]) -> list[Finding]:
    """Those about one experiment or chapter that had anything to decide by; findings.csv has the
    others too.

    Where several have the same question and answer, the first stands for all: its statement ends
    with the subjects of the others, or has their statements too where no word is the answer.

    Args:
        findings: All of the machine.
        subject: The experiment or chapter.
        names: Those questions whose answers a section has room for; all if there are none, or if
            none of these is asked here, as in a section copied from that of another axis.

    Raises:
        ReportError: a name is no question's.
    """
    known = {question.name for question in QUESTIONS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ReportError(
            f"there is no question {unknown[0]!r} to answer; use one of {', '.join(sorted(known))}"
        )
    about = [finding for finding in findings if finding.experiment == subject]
    chosen = [finding for finding in about if finding.name in names] or about
    measured = [finding for finding in chosen if finding.verdict != "not measured"]
    together = []
    by_question = grouped(measured, lambda finding: finding.question).values()
    alike = chain.from_iterable(grouped(each, answer_word).items() for each in by_question)
    for word, (first, *others) in alike:
        subjects = list(dict.fromkeys(finding.subject for finding in others if finding.subject))
        statement = first.statement
        if not word:
            statement = " ".join(finding.statement for finding in (first, *others))
        elif subjects:
            statement += f" The same answer holds for {listed(subjects)}."
        together.append(first.model_copy(update={"statement": statement}))
    return together


def answer_word(finding: Finding) -> str:
    """The answer in a word; empty where the question asks for more than yes or no, and the
    statement says it.
    """
    is_said = finding.is_decided and finding.question.partition(" ")[0] not in _ASKS_YES_OR_NO
    return "" if is_said else _ANSWERS.get(finding.verdict, "")


def across_experiments(
    findings: Sequence[Finding],
    axes: Mapping[str, str],
    *,
    has_gpu: bool = True,
    left_out: Collection[str] = (),
) -> list[Mapping[str, Any]]:
    """The questions across the experiments that anything was measured for.

    Args:
        findings: All of the machine.
        axes: The axis of each experiment, by name.
        has_gpu: Whether the machine measured on one; questions about a GPU are not asked without.
        left_out: Sections that the document does not have.

    Returns:
        For each its `question`; the `statements` that answer it, one of each question it rests on,
        the first whether or not it is decided; and the `sections` that have them.
    """
    by_name = grouped(
        (finding for finding in findings if finding.verdict != "not measured"),
        lambda finding: (axes.get(finding.experiment, finding.experiment), finding.name),
    )
    answers: list[Mapping[str, Any]] = []
    for question, names in ACROSS_EXPERIMENTS.items():
        decisive = [
            min(by_name[name], key=lambda finding: not finding.is_decided)
            for name in names
            if name in by_name
        ]
        shown = [*decisive[:1], *(each for each in decisive[1:] if each.is_decided)]
        sections = dict.fromkeys(finding.experiment for finding in shown)
        if shown and (has_gpu or "GPU" not in question):
            answers.append(
                {
                    "question": question,
                    "statements": [finding.statement for finding in shown],
                    "sections": [{"name": name} for name in sections if name not in left_out],
                }
            )
    return answers


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """What a user sees, and the questions whose advice treats it."""

    words: str
    questions: tuple[QuestionName, ...]
    needs_gpu: bool = False


SYMPTOMS: Final = (
    Symptom(
        words="The loop waits for data",
        questions=(("workers", "enough"), ("workers", "help"), (TRACE, "data_loader")),
    ),
    Symptom(
        words="Matrix products run without tensor cores",
        needs_gpu=True,
        questions=(("precision", "best"), (TRACE, "tensor_cores")),
    ),
    Symptom(
        words="The GPU is idle between kernels",
        needs_gpu=True,
        questions=((TRACE, "launch_bound"),),
    ),
    Symptom(
        words="Throughput rises with the batch size",
        questions=(("batch_size", "smaller"),),
    ),
    Symptom(
        words="The target quality comes late",
        questions=(("batch_size", "quality"),),
    ),
    Symptom(
        words="A small model takes as long as a larger one",
        questions=(("size", "overhead"),),
    ),
    Symptom(
        words="Memory runs out",
        questions=(("optimization", "saves"), (TRACE, "peak_memory")),
    ),
    Symptom(
        words="The step waits for copies",
        questions=((TRACE, "pageable_copies"),),
    ),
    Symptom(
        words="The host waits for the GPU in every step",
        questions=((TRACE, "synchronising_calls"),),
    ),
    Symptom(
        words="One GPU is not fast enough",
        needs_gpu=True,
        questions=(("parallelism", "pays"),),
    ),
    Symptom(
        words="Gradient communication delays the step",
        questions=((DDP_OPTIONS, "setting"),),
    ),
    Symptom(
        words="Processes wait for each other",
        questions=((TRACE, "communication"),),
    ),
    Symptom(
        words="Small batches train faster on the CPU",
        questions=(("device", "crossover"),),
    ),
)
"""In the order of the table where no gain was measured."""

_OTHER: Final = Symptom(words="Another configuration trains faster", questions=())
_LEFT_OUT: Final = frozenset({("device", "faster")})
"""To train on a GPU at all is what the study begins with."""


def decisions(
    findings: Sequence[Finding],
    about: Mapping[str, str],
    *,
    workloads: Mapping[str, str],
    has_gpu: bool,
) -> list[Row]:
    """The recommendations by symptom, the greatest sure gain first.

    Where following one recommendation for a symptom gained something, those without a measured gain
    are left out, and of several for one workload all but those of the question that the symptom
    names first, of which the greatest sure gain is left.

    Args:
        findings: All of one machine.
        about: What the rows of each experiment are about, by its name; a chapter about the whole
            machine has none.
        workloads: The workload of each variant, by its name.
        has_gpu: Whether the machine measured on one; symptoms of a GPU are not named without.

    Returns:
        Rows with `group`, the symptom that all rows about it share; `symptom`, empty but in
        the first of these; action; and gain with its interval (NaN where none was measured).
    """
    by_symptom: dict[Symptom, list[Finding]] = {}
    for finding in recommendations(findings):
        name = about.get(finding.experiment, finding.experiment), finding.name
        if name not in _LEFT_OUT:
            symptom = next(
                (
                    one
                    for one in SYMPTOMS
                    if name in one.questions and (has_gpu or not one.needs_gpu)
                ),
                _OTHER,
            )
            by_symptom.setdefault(symptom, []).append(finding)
    chosen = {
        symptom: _chosen(symptom, advised, workloads) for symptom, advised in by_symptom.items()
    }
    order = [*SYMPTOMS, _OTHER]
    rows: list[Row] = []
    for symptom in sorted(
        chosen, key=lambda symptom: (-chosen[symptom][0].sure_gain, order.index(symptom))
    ):
        for finding in chosen[symptom]:
            low, high = finding.gain_interval or (math.nan, math.nan)
            is_first = not rows or rows[-1]["group"] != symptom.words
            rows.append(
                {
                    "group": symptom.words,
                    "symptom": symptom.words if is_first else "",
                    "action": finding.recommendation.rstrip("."),
                    "gain": math.nan if finding.gain is None else finding.gain,
                    "gain_low": low,
                    "gain_high": high,
                }
            )
    return rows


def _chosen(
    symptom: Symptom, advised: Sequence[Finding], workloads: Mapping[str, str]
) -> Sequence[Finding]:
    """Of a symptom's ranked advice what to show: the best of each workload, that of an earlier
    question of the symptom's rather than of a later one, and of an experiment rather than a trace.
    """
    gained = [one for one in advised if one.gain]

    def workload(finding: Finding) -> str:
        # The evidence of a trace's gain is last: its advice may be most urgent in another workload.
        decisive = reversed(finding.evidence) if finding.experiment == TRACE else finding.evidence
        return next((workloads[each.variant] for each in decisive if each.variant), finding.id)

    names = [name for _, name in symptom.questions]
    in_order = sorted(
        gained, key=lambda one: names.index(one.name) if names else one.experiment == TRACE
    )
    best = [alike[0] for alike in grouped(in_order, workload).values()]
    return [one for one in gained if one in best] or advised
