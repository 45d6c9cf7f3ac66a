"""What the findings say together: answers about a subject, answers to the questions of the
discussion, the ranking of effects, and what to do.

Findings -> those about an experiment or a chapter, with alike ones put together
Findings -> those of the rules that a part of an answer names -> their balance -> its sentence
Experiments' tables -> the largest significant speedup along each ranked axis -> one sentence
Recommendations of the findings -> by symptom -> rows of a table
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from gpu_report.errors import ReportError
from gpu_report.findings import phrases
from gpu_report.findings.estimate import speedup
from gpu_report.findings.finding import STUDY, Finding, recommendations
from gpu_report.findings.phrases import CPU
from gpu_report.findings.rules import RULES
from gpu_report.findings.scope import DDP_OPTIONS, TRACE, TRANSFER, Group, experiment_scope
from gpu_report.glossary import Row
from gpu_report.study.study import Experiment
from gpu_report.tables.bundle import Tables, grouped
from gpu_report.words import listed

RuleName = tuple[str, str]
"""What a rule is about, such as an axis or a chapter, and its name."""

Balance = Literal["yes", "no", "mixed", "not resolved", "not measured"]
"""What several verdicts come to: `mixed` where some say yes and others no, `not resolved` where
none decides.
"""

BALANCES: Final[tuple[Balance, ...]] = ("yes", "no", "mixed", "not resolved", "not measured")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of an answer: the rules it rests on, each by what it is about and its name, and a
    sentence per balance.

    `mixed` is empty where the rules have one finding at most.
    """

    rules: tuple[RuleName, ...]
    yes: str
    no: str
    mixed: str = ""

    def lead(self, balance: Balance) -> str:
        """The sentence for what the verdicts come to; empty where the findings' own statements say
        that it is open.
        """
        return {"yes": self.yes, "no": self.no, "mixed": self.mixed}.get(balance, "")


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question and the parts of its answer; the first is the answer itself."""

    text: str
    parts: tuple[Part, ...]
    needs_gpu: bool = False


QUESTIONS: Final = (
    Question(
        text="What limits training?",
        parts=(
            Part(
                rules=((TRACE, "limits"),),
                yes="Most GPU configurations have one dominant limit.",
                no="Most GPU configurations have no single dominant limit.",
                mixed="On some GPUs most configurations have one dominant limit, on others they "
                "have none.",
            ),
            Part(
                rules=((TRACE, "cpu_limits"),),
                yes="Most CPU configurations have one dominant limit.",
                no="Most CPU configurations have no single dominant limit.",
            ),
        ),
    ),
    Question(
        text="Why do small models gain little on a GPU?",
        needs_gpu=True,
        parts=(
            Part(
                rules=(("size", "overhead"),),
                yes="Fixed costs per step dominate the smallest models.",
                no="Fixed costs per step do not explain it: they dominate no smallest model.",
                mixed="Fixed costs per step dominate some of the smallest models.",
            ),
        ),
    ),
    Question(
        text="How can GPU idle time be reduced?",
        needs_gpu=True,
        parts=(
            Part(
                rules=((TRACE, "accelerator_busy"),),
                yes="Some configurations leave the GPU idle for long.",
                no="No configuration leaves the GPU idle for long.",
            ),
            Part(
                rules=(("workers", "data_wait"),),
                yes="DataLoader workers reduce data wait.",
                no="DataLoader workers do not reduce data wait.",
                mixed="DataLoader workers reduce the data wait of some workloads only.",
            ),
            Part(
                rules=((TRACE, "launch_bound"),),
                yes="Some configurations are launch-bound: launching less often is what to try "
                "there.",
                no="No step is launch-bound.",
            ),
            Part(
                rules=((TRACE, "short_kernels"),),
                yes="In some configurations most kernels are shorter than their launch overhead.",
                no="In every configuration, most kernels outlast their launch overhead.",
            ),
            Part(
                rules=((TRACE, "synchronising_calls"),),
                yes="Some loops synchronize with the GPU in every step.",
                no="Apart from the copy of its batch, no loop synchronizes with the GPU in every "
                "step.",
            ),
        ),
    ),
    Question(
        text="When is host-device copying the bottleneck?",
        needs_gpu=True,
        parts=(
            Part(
                rules=((TRACE, "transfer_bound"),),
                yes="In some configurations.",
                no="In no configuration.",
            ),
            Part(
                rules=((TRACE, "pageable_copies"),),
                yes="In some steps, copies from or to pageable memory take long enough for pinned "
                "memory to help.",
                no="Copies from or to pageable memory take too little of every step for pinned "
                "memory to help.",
            ),
            Part(
                rules=((TRANSFER, "pinned"),),
                yes="Pinned memory makes large copies faster.",
                no="Pinned memory does not make large copies faster.",
                mixed="Pinned memory makes large copies faster in one direction and not in the "
                "other.",
            ),
        ),
    ),
)

RANKED_AXES: Final[Mapping[str, str]] = {
    "device": "device",
    "batch_size": "batch size",
    "size": "model size",
    "precision": "precision",
    "workers": "DataLoader workers",
    "optimization": "optimizations",
}

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
    measured = [
        finding
        for finding in findings
        if finding.experiment == subject
        and finding.verdict != "not measured"
        and (not rules or finding.rule in rules)
    ]
    alike = grouped(measured, lambda finding: (finding.question, answer_word(finding)))
    questions = list(dict.fromkeys(question for question, _ in alike))
    in_order = sorted(alike.items(), key=lambda item: questions.index(item[0][0]))
    together = []
    for (_, word), (first, *others) in in_order:
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
    by_rule = grouped(
        findings, lambda each: (axes.get(each.experiment, each.experiment), each.rule)
    )
    answers: list[Mapping[str, Any]] = []
    for question in QUESTIONS:
        parts = [
            (part, found, come_to)
            for part in question.parts
            if (found := [finding for rule in part.rules for finding in by_rule.get(rule, ())])
            and (come_to := balance(found)) != "not measured"
        ]
        # The first part that was measured, and of the others those that the data decide.
        shown = [*parts[:1], *(part for part in parts[1:] if part[-1] != "not resolved")]
        if not shown or (question.needs_gpu and not has_gpu):
            continue
        decisive = (finding for finding in shown[0][1] if finding.verdict != "not measured")
        statement = min(decisive, key=lambda finding: not finding.is_decided).statement
        first, *others = (part.lead(come_to) for part, _, come_to in shown)
        sections = dict.fromkeys(
            "reliability"
            if finding.experiment == STUDY
            else finding.experiment  # as the section's label names it
            for _, found, _ in shown
            for finding in found
        )
        answers.append(
            {
                "question": question.text,
                "statement": statement,
                "sentences": [*filter(None, (first, statement, *others))],
                "sections": [{"name": section} for section in sections if section not in left_out],
            }
        )
    return answers


def balance(findings: Sequence[Finding]) -> Balance:
    """What the verdicts come to together; nothing at all was not measured."""
    verdicts = {finding.verdict for finding in findings}
    if {"yes", "no"} <= verdicts:
        return "mixed"
    return next((one for one in BALANCES if one in verdicts), "not measured")


def rank_effects(tables: Tables, experiments: Sequence[Experiment]) -> str:
    """What changed the throughput most, by the largest significant speedup or slowdown over a
    baseline on each axis.

    Of the accelerator, where one was measured. Empty where no axis has a significant difference.
    """
    scopes = [
        experiment_scope(tables, one) for one in experiments if one.name in tables.experiments
    ]
    groups = [group for scope in scopes if scope.about in RANKED_AXES for group in scope.groups]
    accelerated = [group for group in groups if any(row["device"] != CPU for row in group.measured)]
    effects = [
        (size, words, group.axis)
        for group in accelerated or groups
        for size, words in _effects(group)
    ]
    by_axis = grouped(effects, lambda effect: effect[2]).values()
    largest = [max(alike, key=lambda effect: effect[0]) for alike in by_axis]
    ranked = [words for _, words, _ in sorted(largest, reverse=True)]
    return f"Throughput over that of the baseline: {'; '.join(ranked)}." if ranked else ""


def _effects(group: Group) -> Iterator[tuple[float, str]]:
    """How far from 1 each significant speedup of a group is, on the logarithm, and the speedup in
    words.
    """
    baseline = group.baseline
    if baseline is None:
        return
    for row in group.others:
        gain = speedup(row, baseline)
        if gain.against(1.0) != "unclear":
            yield (
                abs(math.log(gain.value)),
                (
                    f"{RANKED_AXES[group.axis]} {phrases.times(gain, short=True)}, {group.title}, "
                    f"{group.value_in_words(row)} against {group.value_in_words(baseline)}"
                ),
            )


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """What a user sees, the metric that shows it, and the rules whose recommendations treat it."""

    words: str
    metric: str
    rules: tuple[RuleName, ...]
    needs_gpu: bool = False


SYMPTOMS: Final = (
    Symptom(
        words="The loop waits for data",
        metric="data wait",
        rules=(("workers", "enough"), ("workers", "help"), (TRACE, "data_loader")),
    ),
    Symptom(
        words="Matrix products run without tensor cores",
        metric="time on tensor cores",
        needs_gpu=True,
        rules=(("precision", "best"), (TRACE, "tensor_cores")),
    ),
    Symptom(
        words="The GPU is idle between kernels",
        metric="kernel-active time",
        needs_gpu=True,
        rules=(
            ("optimization", "best"),
            *((TRACE, rule) for rule in ("launch_bound", "accelerator_busy")),
        ),
    ),
    Symptom(
        words="Kernels are shorter than their launch",
        metric="short kernels",
        needs_gpu=True,
        rules=((TRACE, "short_kernels"),),
    ),
    Symptom(
        words="Throughput rises with the batch size",
        metric="throughput by batch size",
        rules=(("batch_size", "smaller"),),
    ),
    Symptom(
        words="The target quality comes late",
        metric="time to target",
        rules=(("batch_size", "quality"),),
    ),
    Symptom(
        words="A small model takes as long as a larger one",
        metric="step time by model size",
        rules=(("size", "overhead"),),
    ),
    Symptom(
        words="Compiling takes longer than it saves",
        metric="break-even steps",
        rules=(("optimization", "compiling"),),
    ),
    Symptom(
        words="Memory runs out",
        metric="peak memory",
        rules=(("optimization", "saves"), (TRACE, "peak_memory")),
    ),
    Symptom(
        words="The step waits for copies",
        metric="exposed copies",
        rules=((TRACE, "pageable_copies"),),
    ),
    Symptom(
        words="The host waits for the GPU in every step",
        metric="synchronizing calls",
        rules=((TRACE, "synchronising_calls"),),
    ),
    Symptom(
        words="One GPU is not fast enough",
        metric="weak efficiency",
        needs_gpu=True,
        rules=(("parallelism", "pays"),),
    ),
    Symptom(
        words="Gradient communication delays the step",
        metric="exposed communication",
        rules=((DDP_OPTIONS, "setting"),),
    ),
    Symptom(
        words="Processes wait for each other",
        metric="communication",
        rules=((TRACE, "communication"),),
    ),
    Symptom(
        words="Small batches train faster on the CPU",
        metric="speedup",
        rules=(("device", "crossover"),),
    ),
)
"""In the order of the table where no gain was measured."""

_OTHER: Final = Symptom(words="Another value trains faster", metric="throughput", rules=())
_LEFT_OUT: Final = frozenset({("device", "faster")})
"""To train on a GPU at all is what the study begins with."""


def decisions(
    findings: Sequence[Finding],
    about: Mapping[str, str],
    *,
    workloads: Mapping[str, str],
    has_gpu: bool,
) -> list[Row]:
    """The recommendations by symptom, the greatest measured gain first.

    Where following one recommendation for a symptom gained something, those without a measured gain
    are left out, of several for one workload those of smaller gain, and those of traces if an
    experiment gained something with that workload.

    Args:
        findings: All of one machine.
        about: What the rows of each experiment are about, by its name; a chapter about the whole
            machine has none.
        workloads: The workload of each variant, by its name.
        has_gpu: Whether the machine measured on one; symptoms of a GPU are not named without.

    Returns:
        Rows with `group`, the symptom that all rows about it share; `symptom` and `metric`, empty
        but in the first of these; action; and gain with its interval (NaN where none was measured).
    """
    by_symptom: dict[Symptom, list[Finding]] = {}
    for finding in recommendations(findings):
        rule = about.get(finding.experiment, finding.experiment), finding.rule
        if rule not in _LEFT_OUT:
            symptom = next(
                (one for one in SYMPTOMS if rule in one.rules and (has_gpu or not one.needs_gpu)),
                _OTHER,
            )
            by_symptom.setdefault(symptom, []).append(finding)
    chosen = {symptom: _chosen(advised, workloads) for symptom, advised in by_symptom.items()}
    order = [*SYMPTOMS, _OTHER]
    rows: list[Row] = []
    for symptom in sorted(
        chosen, key=lambda symptom: (-(chosen[symptom][0].gain or 0.0), order.index(symptom))
    ):
        for index, finding in enumerate(chosen[symptom]):
            low, high = finding.gain_interval or (math.nan, math.nan)
            rows.append(
                {
                    "group": symptom.words,
                    "symptom": symptom.words if index == 0 else "",
                    "metric": symptom.metric if index == 0 else "",
                    "action": finding.recommendation.rstrip("."),
                    "gain": math.nan if finding.gain is None else finding.gain,
                    "gain_low": low,
                    "gain_high": high,
                }
            )
    return rows


def _chosen(advised: Sequence[Finding], workloads: Mapping[str, str]) -> Sequence[Finding]:
    """Of one symptom's ranked advice what to show: the best of each workload, an experiment's
    rather than a trace's.
    """
    gained = [one for one in advised if one.gain]

    def workload(finding: Finding) -> str:
        # The evidence of a trace's gain is last: its advice may be most urgent in another workload.
        decisive = reversed(finding.evidence) if finding.experiment == TRACE else finding.evidence
        return next((workloads[each.variant] for each in decisive if each.variant), finding.id)

    in_order = sorted(gained, key=lambda one: one.experiment == TRACE)
    best = [alike[0] for alike in grouped(in_order, workload).values()]
    return [one for one in gained if one in best] or advised
