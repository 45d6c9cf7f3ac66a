"""The questions of the discussion and their answers, made of the verdicts of declared findings; the ranking of effects.

Findings -> those of the rules that a part of an answer names -> their balance -> the sentence declared for it
Experiments' tables -> the largest significant speedup along each ranked axis -> one sentence
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gpu_report.findings import phrases
from gpu_report.findings.estimate import speedup
from gpu_report.findings.finding import Finding
from gpu_report.findings.phrases import CPU
from gpu_report.findings.scope import EFFICIENCY, TRACE, TRANSFER, Group, experiment_scope
from gpu_report.study import Experiment
from gpu_report.tables.bundle import Tables

Balance = Literal["yes", "no", "mixed", "not resolved", "not measured"]
"""What several verdicts come to: `mixed` where some say yes and others no, `not resolved` where none decides."""

BALANCES: Final[tuple[Balance, ...]] = ("yes", "no", "mixed", "not resolved", "not measured")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of an answer: the rules it rests on, each by what it is about and its name, and a sentence per balance.

    `mixed` is empty where the rules have one finding at most.
    """

    rules: tuple[tuple[str, str], ...]
    yes: str
    no: str
    mixed: str = ""

    def lead(self, balance: Balance) -> str:
        """The sentence for what the verdicts come to."""
        leads: dict[Balance, str] = {
            "yes": self.yes,
            "no": self.no,
            "mixed": self.mixed,
            "not resolved": "The data do not resolve this.",
            "not measured": "This was not measured.",
        }
        return leads[balance]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question and the parts of its answer; the first is the answer itself."""

    key: str
    text: str
    parts: tuple[Part, ...]


QUESTIONS: Final = (
    Question(
        key="limits",
        text="What limits training on an accelerator?",
        parts=(
            Part(
                rules=((TRACE, "limits"),),
                yes="Most trainings on an accelerator that can be judged have one limit that can be named.",
                no="No single limit can be named for most trainings on an accelerator: several parts share the step.",
                mixed="On some accelerators one limit can be named for most trainings, on others several parts share"
                " the step.",
            ),
            Part(
                rules=((EFFICIENCY, "bound"),),
                yes="Held against what the hardware reaches, a ceiling bounds some workloads.",
                no="Held against what the hardware reaches, no ceiling bounds a workload.",
                mixed="Held against what the hardware reaches, a ceiling bounds workloads on some devices only.",
            ),
            Part(
                rules=((TRACE, "cpu_limits"),),
                yes="Most trainings on the CPU that can be judged have one limit that can be named.",
                no="On the CPU no single limit can be named for most trainings.",
            ),
        ),
    ),
    Question(
        key="small_models",
        text="Why do small models gain little on a GPU?",
        parts=(
            Part(
                rules=(("size", "small_gain"),),
                yes="Small models gained less than large ones wherever the data decide it.",
                no="They do not gain little: small models gained more than large ones wherever the data decide it.",
                mixed="Small models of some workloads gained less than large ones, those of others more.",
            ),
            Part(
                rules=(("size", "overhead"),),
                yes="Costs that do not grow with the model bound the smallest ones wherever the data decide it.",
                no="Costs that do not grow with the model do not explain it: they bound no smallest model.",
                mixed="Costs that do not grow with the model bound the smallest ones in some places and not in others.",
            ),
            Part(
                rules=(("size", "peak_use"),),
                yes="The smallest models leave more of the device's peak unused than the largest.",
                no="The smallest models leave no more of the device's peak unused than the largest.",
                mixed="The smallest models of some workloads leave more of the device's peak unused than the largest,"
                " those of others do not.",
            ),
            Part(
                rules=((TRACE, "short_kernels"),),
                yes="There are trainings in which most pieces of work are too short to outlast their launch.",
                no="In every training whose trace tells it, most pieces of work outlast their launch.",
            ),
        ),
    ),
    Question(
        key="idle_time",
        text="How can the accelerator's idle time be cut?",
        parts=(
            Part(
                rules=((TRACE, "accelerator_busy"),),
                yes="There is idle time to cut: in some trainings the accelerator has too little to do.",
                no="There is little idle time to cut in the trainings whose traces tell it.",
            ),
            Part(
                rules=(("workers", "data_wait"),),
                yes="DataLoader workers cut the wait for data wherever the data decide it.",
                no="DataLoader workers do not cut the wait for data wherever the data decide it.",
                mixed="DataLoader workers cut the wait for data of some workloads and not of others.",
            ),
            Part(
                rules=((TRACE, "launch_bound"),),
                yes="In some trainings the accelerator waits for the next launch, so that launching less often is"
                " what to try there.",
                no="Launching work holds no step up whose trace tells it, so that launching less often cuts little.",
            ),
            Part(
                rules=((TRACE, "synchronising_calls"),),
                yes="Some loops wait for the accelerator in every step, which costs the host its lead.",
                no="No loop whose trace tells it waits for the accelerator in every step.",
            ),
            Part(
                rules=(("workers", "busier"), ("optimization", "busier")),
                yes="Kernels were active for more of the step in what trains fastest, wherever traces tell.",
                no="Kernels were active for no more of the step in what trains fastest.",
                mixed="Kernels were active for more of the step in what trains fastest in some places alone.",
            ),
        ),
    ),
    Question(
        key="batch_and_quality",
        text="Does a larger batch cost quality?",
        parts=(
            Part(
                rules=(("batch_size", "quality"),),
                yes="Larger batches cost quality wherever the data decide it.",
                no="Larger batches cost no quality wherever the data decide it.",
                mixed="Larger batches cost quality for some workloads and not for others.",
            ),
            Part(
                rules=(("batch_size", "smaller"),),
                yes="A smaller batch is within 5 % of the highest throughput.",
                no="No smaller batch comes within 5 % of the highest throughput.",
                mixed="A smaller batch is within 5 % of the highest throughput for some workloads only.",
            ),
        ),
    ),
    Question(
        key="transfer",
        text="When is host-device copying the bottleneck?",
        parts=(
            Part(
                rules=((TRACE, "transfer_bound"),),
                yes="There are trainings in which it is.",
                no="In no training whose trace tells it.",
            ),
            Part(
                rules=((TRACE, "pageable_copies"),),
                yes="Copies from or to pageable memory take enough of some steps that pinning it is worth the trouble.",
                no="Copies from or to pageable memory take too little of the steps whose traces tell it for"
                " pinning to be worth the trouble.",
            ),
            Part(
                rules=((TRANSFER, "small_copies"),),
                yes="The link itself is wasted by small copies.",
                no="The link itself is used well even by small copies.",
                mixed="The link is wasted by small copies in one direction and not in the other.",
            ),
            Part(
                rules=((TRANSFER, "pinned"),),
                yes="Pinned memory makes large copies faster wherever the data decide it.",
                no="Pinned memory makes large copies no faster wherever the data decide it.",
                mixed="Pinned memory makes large copies faster in one direction and not in the other.",
            ),
        ),
    ),
)

RANKED_AXES: Final[Mapping[str, str]] = {
    "batch_size": "batch size",
    "size": "model size",
    "precision": "precision",
    "workers": "DataLoader workers",
}


@dataclass(frozen=True, kw_only=True)
class PartAnswer:
    """What the findings say to one part; `findings` are those of its rules, in the order of the study."""

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
    """What changed the throughput most, by the largest significant speedup or slowdown over a baseline on each axis.

    Of the accelerator, where one was measured. Empty where no axis has a significant difference.
    """
    scopes = [experiment_scope(tables, one) for one in experiments if one.name in tables.experiments]
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
    """How far from 1 each significant speedup of a group is, on the logarithm, and the speedup in words."""
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
