"""The questions that the discussion answers, each with the rules that answer it and a sentence for what they come to.

Question -> Part (rules, in order) -> a leading sentence per balance of their verdicts; no sentence is true by default
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from gpu_report.findings.scope import EFFICIENCY, TRACE, TRANSFER

Balance = Literal["yes", "no", "mixed", "not resolved", "not measured"]
"""What several verdicts come to: `mixed` where some say yes and others no, `not resolved` where none decides."""

BALANCES: Final[tuple[Balance, ...]] = ("yes", "no", "mixed", "not resolved", "not measured")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of an answer: the rules it rests on, each by what it is about and its name, and a sentence per balance."""

    rules: tuple[tuple[str, str], ...]
    leads: Mapping[Balance, str]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question and the parts of its answer, in the order in which they are told; the first is the answer itself."""

    key: str
    text: str
    parts: tuple[Part, ...]


def _part(*rules: tuple[str, str], yes: str, no: str, unresolved: str, not_measured: str, mixed: str = "") -> Part:
    """`mixed` is empty where the rules have one finding at most."""
    return Part(
        rules=rules,
        leads={
            "yes": yes,
            "no": no,
            "mixed": mixed,
            "not resolved": unresolved,
            "not measured": not_measured,
        },
    )


QUESTIONS: Final = (
    Question(
        key="limits",
        text="What limits training on an accelerator?",
        parts=(
            _part(
                (TRACE, "limits"),
                yes="Most trainings on an accelerator that can be judged have one limit that can be named.",
                no="No single limit can be named for most trainings on an accelerator: several parts share the step.",
                mixed="On some accelerators one limit can be named for most trainings, on others several parts share"
                " the step.",
                unresolved="What limits training on an accelerator is not resolved, because no trace tells it"
                " reliably.",
                not_measured="What limits training on an accelerator was not measured.",
            ),
            _part(
                (EFFICIENCY, "bound"),
                yes="Held against what the hardware reaches, a ceiling bounds some workloads.",
                no="Held against what the hardware reaches, no ceiling bounds a workload.",
                mixed="Held against what the hardware reaches, a ceiling bounds workloads on some devices only.",
                unresolved="Whether a ceiling of the hardware bounds a workload is not resolved.",
                not_measured="How near the trainings come to the ceilings of the hardware was not measured.",
            ),
            _part(
                (TRACE, "cpu_limits"),
                yes="Most trainings on the CPU that can be judged have one limit that can be named.",
                no="On the CPU no single limit can be named for most trainings.",
                unresolved="What limits training on the CPU is not resolved, because no trace tells it reliably.",
                not_measured="What limits training on the CPU was not measured.",
            ),
        ),
    ),
    Question(
        key="small_models",
        text="Why do small models gain little on a GPU?",
        parts=(
            _part(
                ("size", "small_gain"),
                yes="Small models gained less than large ones wherever the data decide it.",
                no="They do not gain little: small models gained more than large ones wherever the data decide it.",
                mixed="Small models of some workloads gained less than large ones, those of others more.",
                unresolved="Whether small models gain less than large ones is not resolved.",
                not_measured="What small models gain from an accelerator was not measured.",
            ),
            _part(
                ("size", "overhead"),
                yes="Costs that do not grow with the model bound the smallest ones wherever the data decide it.",
                no="Costs that do not grow with the model do not explain it: they bound no smallest model.",
                mixed="Costs that do not grow with the model bound the smallest ones in some places and not in others.",
                unresolved="Whether costs that do not grow with the model bound the smallest ones is not resolved.",
                not_measured="Costs that do not grow with the model were not measured.",
            ),
            _part(
                ("size", "peak_use"),
                yes="The smallest models leave more of the device's peak unused than the largest.",
                no="The smallest models leave no more of the device's peak unused than the largest.",
                mixed="The smallest models of some workloads leave more of the device's peak unused than the largest,"
                " those of others do not.",
                unresolved="Whether the smallest models leave more of the device's peak unused is not resolved.",
                not_measured="How much of the device's peak small models use was not measured.",
            ),
            _part(
                (TRACE, "short_kernels"),
                yes="There are trainings in which most pieces of work are too short to outlast their launch.",
                no="In every training whose trace tells it, most pieces of work outlast their launch.",
                unresolved="Whether most pieces of work outlast their launch is not resolved.",
                not_measured="Whether pieces of work outlast their launch was not measured.",
            ),
        ),
    ),
    Question(
        key="idle_time",
        text="How can the accelerator's idle time be cut?",
        parts=(
            _part(
                (TRACE, "accelerator_busy"),
                yes="There is idle time to cut: in some trainings the accelerator has too little to do.",
                no="There is little idle time to cut in the trainings whose traces tell it.",
                unresolved="How much idle time there is to cut is not resolved.",
                not_measured="How much of the time an accelerator is idle was not measured.",
            ),
            _part(
                ("workers", "data_wait"),
                yes="DataLoader workers cut the wait for data wherever the data decide it.",
                no="DataLoader workers do not cut the wait for data wherever the data decide it.",
                mixed="DataLoader workers cut the wait for data of some workloads and not of others.",
                unresolved="Whether DataLoader workers cut the wait for data is not resolved.",
                not_measured="What DataLoader workers bring was not measured.",
            ),
            _part(
                (TRACE, "launch_bound"),
                yes="In some trainings the accelerator waits for the next launch, so that launching less often is"
                " what to try there.",
                no="Launching work holds no step up whose trace tells it, so that launching less often cuts little.",
                unresolved="Whether the accelerator waits for the next launch is not resolved.",
                not_measured="Whether the accelerator waits for the next launch was not measured.",
            ),
            _part(
                (TRACE, "synchronising_calls"),
                yes="Some loops wait for the accelerator in every step, which costs the host its lead.",
                no="No loop whose trace tells it waits for the accelerator in every step.",
                unresolved="Whether loops wait for the accelerator in every step is not resolved.",
                not_measured="Whether loops wait for the accelerator in every step was not measured.",
            ),
            _part(
                ("workers", "busier"),
                ("optimization", "busier"),
                yes="Kernels were active for more of the step in what trains fastest, wherever traces tell.",
                no="Kernels were active for no more of the step in what trains fastest.",
                mixed="Kernels were active for more of the step in what trains fastest in some places alone.",
                unresolved="Whether kernels are active for more of the step in what trains fastest is not resolved.",
                not_measured="Whether kernels are active for more of the step in what trains fastest was not measured.",
            ),
        ),
    ),
    Question(
        key="batch_and_quality",
        text="Does a larger batch cost quality?",
        parts=(
            _part(
                ("batch_size", "quality"),
                yes="Larger batches cost quality wherever the data decide it.",
                no="Larger batches cost no quality wherever the data decide it.",
                mixed="Larger batches cost quality for some workloads and not for others.",
                unresolved="Whether larger batches cost quality is not resolved.",
                not_measured="What larger batches cost in quality was not measured.",
            ),
            _part(
                ("batch_size", "smaller"),
                yes="A smaller batch is within 5 % of the highest throughput.",
                no="No smaller batch comes within 5 % of the highest throughput.",
                mixed="A smaller batch is within 5 % of the highest throughput for some workloads only.",
                unresolved="Whether a smaller batch comes within 5 % of the highest throughput is not resolved.",
                not_measured="Which batch has the highest throughput was not measured.",
            ),
        ),
    ),
    Question(
        key="transfer",
        text="When is host-device copying the bottleneck?",
        parts=(
            _part(
                (TRACE, "transfer_bound"),
                yes="There are trainings in which it is.",
                no="In no training whose trace tells it.",
                unresolved="Whether it is in any training is not resolved.",
                not_measured="Whether it is in any training was not measured.",
            ),
            _part(
                (TRACE, "pageable_copies"),
                yes="Copies from or to pageable memory take enough of some steps that pinning it is worth the trouble.",
                no="Copies from or to pageable memory take too little of the steps whose traces tell it for"
                " pinning to be worth the trouble.",
                unresolved="Whether pinning memory is worth the trouble is not resolved.",
                not_measured="What copies from or to pageable memory take of a step was not measured.",
            ),
            _part(
                (TRANSFER, "small_copies"),
                yes="The link itself is wasted by small copies.",
                no="The link itself is used well even by small copies.",
                mixed="The link is wasted by small copies in one direction and not in the other.",
                unresolved="Whether small copies waste the link is not resolved.",
                not_measured="How fast the link is was not measured.",
            ),
            _part(
                (TRANSFER, "pinned"),
                yes="Pinned memory makes large copies faster wherever the data decide it.",
                no="Pinned memory makes large copies no faster wherever the data decide it.",
                mixed="Pinned memory makes large copies faster in one direction and not in the other.",
                unresolved="Whether pinned memory makes large copies faster is not resolved.",
                not_measured="Copies from pinned memory were not measured.",
            ),
        ),
    ),
)
