"""The questions of the discussion and their answers, made of the verdicts of declared findings; the
ranking of effects.

Findings -> those of the rules that a part of an answer names -> their balance -> the sentence
declared for it Experiments' tables -> the largest significant speedup along each ranked axis -> one
sentence
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gpu_report.findings import phrases
from gpu_report.findings.estimate import speedup
from gpu_report.findings.finding import Finding
from gpu_report.findings.phrases import CPU
from gpu_report.findings.scope import TRACE, TRANSFER, Group, experiment_scope
from gpu_report.study.study import Experiment
from gpu_report.tables.bundle import Tables

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

    rules: tuple[tuple[str, str], ...]
    yes: str
    no: str
    mixed: str = ""

    def lead(self, balance: Balance) -> str:
        """The sentence for what the verdicts come to; empty where the findings' own statements say
        that it is open.
        """
        leads: dict[Balance, str] = {
            "yes": self.yes,
            "no": self.no,
            "mixed": self.mixed,
            "not resolved": "",
            "not measured": "This was not measured.",
        }
        return leads[balance]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question and the parts of its answer; the first is the answer itself."""

    key: str
    text: str
    parts: tuple[Part, ...]
    needs_gpu: bool = False


QUESTIONS: Final = (
    Question(
        key="limits",
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
        key="small_models",
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
        key="idle_time",
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
        key="transfer",
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


@dataclass(frozen=True, kw_only=True)
class PartAnswer:
    """What the findings say to one part; `findings` are those of its rules, in the order of the
    study.
    """

    balance: Balance
    lead: str
    findings: tuple[Finding, ...]

    @property
    def measured(self) -> list[Finding]:
        """Those that had anything to decide by, the decided first."""
        found = [finding for finding in self.findings if finding.verdict != "not measured"]
        return sorted(found, key=lambda finding: finding.verdict == "not resolved")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of one machine to one question."""

    question: Question
    parts: tuple[PartAnswer, ...]

    @property
    def balance(self) -> Balance:
        """The verdicts on the question itself."""
        return self.parts[0].balance


def discuss(findings: Sequence[Finding], axes: Mapping[str, str]) -> list[Answer]:
    """The answers of one machine's findings, in the order of the questions.

    Args:
        findings: All of the machine.
        axes: The axis of each experiment by its name; a chapter about the whole machine has none.
    """
    by_rule: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        about = axes.get(finding.experiment, finding.experiment)
        by_rule.setdefault((about, finding.rule), []).append(finding)
    return [
        Answer(question=question, parts=tuple(_answer(part, by_rule) for part in question.parts))
        for question in QUESTIONS
    ]


def balance(findings: Sequence[Finding]) -> Balance:
    """What the verdicts come to together; nothing at all was not measured."""
    verdicts = {finding.verdict for finding in findings}
    if {"yes", "no"} <= verdicts:
        return "mixed"
    return next((one for one in BALANCES if one in verdicts), "not measured")


def _answer(part: Part, by_rule: Mapping[tuple[str, str], Sequence[Finding]]) -> PartAnswer:
    found = [finding for rule in part.rules for finding in by_rule.get(rule, ())]
    come_to = balance(found)
    return PartAnswer(balance=come_to, lead=part.lead(come_to), findings=tuple(found))


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
    largest: dict[str, tuple[float, str]] = {}
    for group in accelerated or groups:
        for size, words in _effects(group):
            if size > largest.get(group.axis, (0.0, ""))[0]:
                largest[group.axis] = size, words
    if not largest:
        return ""
    *_, ranked = zip(*sorted(largest.values(), reverse=True), strict=True)
    return f"Throughput over that of the baseline: {'; '.join(ranked)}."


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
