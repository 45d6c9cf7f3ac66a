"""Quality flags of a measurement, each a short mark with its threshold and reason; the report
prints them.

Record, Summary of its throughput, Today -> marks such as `high variance`, `projected`
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from gpu_report.printing.number_format import count
from gpu_report.records.provenance import code_digest, measures_alike, workload_digest
from gpu_report.records.record import OTHER_JOBS, OTHER_JOBS_ALLOWED, Load, Record
from gpu_report.study.study import PROTOCOL_VERSION, Study, Workload
from gpu_report.tables.processes import (
    class_of,
    is_projected,
    other_software,
    protocol_version,
    same_class,
    same_threads,
    values_of,
)
from gpu_report.tables.sessions import ONE_SESSION, Sessions
from gpu_report.tables.statistics import Summary

NOISY_RELATIVE_WIDTH: Final = 0.20
"""An interval wider than a fifth of the mean hides differences that readers would act on, such as
one of 10 %.
"""

FOREIGN_CPU_SHARE: Final = 0.10
"""Above a tenth of all cores, others take time that the training would have used; an idle system
uses 1 or 2 %.
"""

HEAVY_LOAD: Final = 0.20
"""Above a fifth, others of either kind interrupt one of the threads that share each operation of a
training on the CPU, and the rest wait: steps took up to a hundred times as long.
"""

STEAL_SHARE: Final = 0.05
"""Above a twentieth, the hypervisor's other guests slow the training visibly, and by another amount
tomorrow.
"""

THROTTLED_SHARE: Final = 0.01
"""Heat and a failing power supply lower clocks by a lot, and differently in every run, so a few
samples are enough.
"""

POWER_CAPPED_SHARE: Final = 0.50
"""Short peaks reach the power limit in any demanding training; held there for most of the time,
clocks are lower.
"""

CLOCK_DRIFT: Final = 0.05
"""Trainings bound by arithmetic follow the clock: beyond a twentieth, processes did not run on the
same device.
"""

HOST_JITTER: Final = 0.05
"""A captured step varies by half a per cent from epoch to epoch; beyond a twentieth, the host
decides how fast the GPU is fed, and more processes do not average it out.
"""

SEPARATOR: Final = ";"
UNKNOWN_SPREAD: Final = "unknown session spread"

_SLOWDOWNS: Final = frozenset(
    {"SwThermalSlowdown", "HwThermalSlowdown", "HwPowerBrakeSlowdown", "HwSlowdown"}
)
"""NVML's names for what lowers clocks because of heat, or because the hardware protects itself."""


def _percent(fraction: float) -> str:
    return count(100 * fraction, "%").plain()


MEANINGS: Final[Mapping[str, str]] = {
    "single": "one process only, so the spread between processes is not known",
    "high variance": "the throughput's interval over processes is wider than "
    f"{_percent(NOISY_RELATIVE_WIDTH)} of its mean",
    "unsettled": "in a process, no epoch met the rule by which warm-up ends",
    "host jitter": "on the GPU, the throughput varies from epoch to epoch of a process by a "
    f"standard deviation of more than {_percent(HOST_JITTER)}",
    "background load": "in a process, other programs used more than "
    f"{_percent(FOREIGN_CPU_SHARE)} of the CPU time",
    "CPU steal": f"in a process, the hypervisor took more than {_percent(STEAL_SHARE)} of the "
    "machine's CPU time",
    "heavy load": "on the CPU, and in a process, others used more than "
    f"{_percent(HEAVY_LOAD)} of the CPU time, which can make a step take many times as long",
    "throttled": "in a process, heat or the hardware's own protection lowered the GPU's clocks in "
    "more than "
    f"{_percent(THROTTLED_SHARE)} of the samples",
    "power capped": "in a process, the power limit lowered the GPU's clocks in more than "
    f"{_percent(POWER_CAPPED_SHARE)} of the samples, as is usual under full load",
    "clock drift": "the GPU's median clocks in the processes are more than "
    f"{_percent(CLOCK_DRIFT)} apart",
    "shared device": "in a process, other programs used the GPU too",
    "shared node": "Slurm may have run other jobs on the node",
    "diverged": "a loss was not finite",
    "projected": "epochs were not the whole training set; the time of a whole epoch is projected "
    "from them",
    "earlier code": "measured by an earlier version of the measuring code than others",
    "other protocol": "measured by another protocol version than others, or than its baseline",
    "other class": "trained another version of your class than the one of today, or than the "
    "baseline",
    "other settings": "measured with other workload settings than the study asks for",
    "other software": "measured with a different version of PyTorch, Python, NumPy, CUDA, cuDNN "
    "or the driver than what it is compared with",
    "other threads": "trained with a different thread setting than what it is compared with",
    "other session": "measured in a different session than what it is compared with; the "
    "interval includes the spread between sessions",
    UNKNOWN_SPREAD: "measured in a different session than what it is compared with; the "
    "spread between sessions is not known",
}
"""Every mark with what it says, in the order they are given."""


FLAG_SIZE: Final = 2.0
"""Factor by which a flag of WIDENS_TIMES widens the interval of a time to either side.

Other programs, heat or a warm-up that did not settle change times by less than that, but for a
heavy load.
"""

WIDENS_TIMES: Final[Mapping[str, str]] = {
    "unsettled": "the throughput still changed after the warm-up",
    "background load": "other programs took processor time",
    "CPU steal": "the hypervisor took processor time",
    "throttled": "heat or hardware protection slowed the GPU down",
    "shared device": "other programs used the GPU too",
    UNKNOWN_SPREAD: "no sentinel shows how far sessions differ",
}
"""Marks with which a time, or an energy, decides only what is farther from a limit than FLAG_SIZE,
in words.

`high variance`, `host jitter` and `clock drift` are none of them: the spread between processes that
they show is in the interval already, and a wide one decides what it can. Nor is `power capped`,
which is how a device works under full load.
"""

WEAKENS_TIMES: Final[Mapping[str, str]] = {
    **WIDENS_TIMES,
    "heavy load": "others used much of the CPU",
    "other threads": "the numbers of threads differ",
}
"""These, and the marks with which a time supports no conclusion."""

INVALIDATES_ALL: Final[Mapping[str, str]] = {
    "other protocol": "another protocol version was used",
    "other class": "your class has changed",
    "other settings": "the workload's settings are not those of the study",
}
"""Marks with which no figure of a variant supports a conclusion, in words."""

WEAKENING: Final[Mapping[str, str]] = {**WEAKENS_TIMES, **INVALIDATES_ALL}
"""Marks with which a time supports a weaker conclusion or none; figures draw it hollow."""

FLAGS_OF_SPEED: Final = frozenset({*WEAKENING, "high variance", "host jitter", "clock drift"})
"""Quality flags of a speed that is a poor example, although its interval may be sound."""


@dataclass(frozen=True, kw_only=True)
class Today:
    """What measures today: its protocol's version, the digest of its code, and the workloads of the
    study, by name.

    A record of another workload is not compared with what is asked for today. `workload_digests`
    are those of users' own workloads, by class path.
    """

    code_digest: str
    protocol_version: int = PROTOCOL_VERSION
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    workload_digests: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, study: Study, variants: Iterable[str]) -> "Today":
        """The code in hand, and what the study asks of these variants."""
        workloads = {
            each.name: each for each in (study.measurement(slug).workload for slug in variants)
        }
        digests = {
            workload.class_path: workload_digest(workload.class_path)
            for workload in workloads.values()
        }
        return cls(
            code_digest=code_digest(),
            workloads=workloads,
            workload_digests={path: digest for path, digest in digests.items() if digest},
        )

    def or_newest(self, records: Iterable[Record]) -> "Today":
        """This, where its code measured one of the records; else what measured the newest, and
        likewise of each user's class: what they have in common does not flag each.
        """
        measured = sorted(records, key=lambda record: record.provenance.began)
        classes = [class_of(each) for each in measured]
        of_classes = dict(classes) | dict(self.workload_digests.items() & {*classes})
        today = replace(self, workload_digests=of_classes)
        if not measured or any(
            measures_alike(each.provenance.code_digest, self.code_digest) for each in measured
        ):
            return today
        return replace(
            today,
            code_digest=measured[-1].provenance.code_digest,
            protocol_version=protocol_version(measured[-1]),
        )


def marks_of(
    record: Record,
    throughput: Summary,
    today: Today,
    *,
    reference: Record | None = None,
    sessions: Sessions = ONE_SESSION,
) -> list[str]:
    """The marks of a record, in the order of MEANINGS; those about numbers only where there are
    numbers.

    `reference` is what it is compared with; None where it stands alone.
    """
    asked = today.workloads.get(record.as_variant().workload)
    is_other_protocol = protocol_version(record) != today.protocol_version
    found = {
        "earlier code": not measures_alike(record.provenance.code_digest, today.code_digest),
        "other protocol": is_other_protocol,
        "other class": not is_same_class(record, today),
        "other settings": asked is not None and record.measurement.get("workload") != asdict(asked),
        **dict.fromkeys(marks_of_numbers(record, throughput), True),
    }
    if reference is not None:
        is_apart = sessions.differ(record, reference)
        is_spread_known = is_apart and sessions.between(record, reference) is not None
        found |= {
            "other protocol": is_other_protocol
            or protocol_version(record) != protocol_version(reference),
            "other class": found["other class"] or not same_class(record, reference),
            "other software": any(other_software(record, reference)),
            "other threads": not same_threads(record, reference),
            "other session": is_spread_known,
            UNKNOWN_SPREAD: is_apart and not is_spread_known,
        }
    return [mark for mark in MEANINGS if found.get(mark)]


def marks_of_numbers(record: Record, throughput: Summary) -> list[str]:
    """Those of the numbers alone, whatever they are compared with; none where there are no
    numbers.
    """
    if record.status != "ok":
        return []
    repetitions, clocks = record.repetitions, values_of(record, "sm_clock_mhz")
    on_cpu = record.as_variant().device_type == "cpu"
    loads = [repetition.load for repetition in repetitions]
    telemetry = [repetition.telemetry for repetition in repetitions if repetition.telemetry]
    reasons = [reason for each in telemetry for reason in each.throttle_reasons.items()]
    speeds = [
        [epoch.samples / epoch.wall_time_s for epoch in repetition.timed_epochs]
        for repetition in repetitions
    ]
    # Relative standard deviations between the timed epochs of each process.
    jitters = [statistics.stdev(each) / statistics.fmean(each) for each in speeds if len(each) > 1]
    epochs = [epoch for repetition in repetitions for epoch in repetition.epochs]
    found = {
        "single": throughput.count == 1,
        "high variance": throughput.high - throughput.low > NOISY_RELATIVE_WIDTH * throughput.value,
        "unsettled": not all(repetition.settled for repetition in repetitions),
        "host jitter": not on_cpu and bool(jitters) and statistics.median(jitters) > HOST_JITTER,
        "throttled": any(name in _SLOWDOWNS and share > THROTTLED_SHARE for name, share in reasons),
        "power capped": any(
            name == "SwPowerCap" and share > POWER_CAPPED_SHARE for name, share in reasons
        ),
        "clock drift": bool(clocks) and max(clocks) - min(clocks) > CLOCK_DRIFT * max(clocks),
        "shared device": any(each.other_processes > 0 for each in telemetry),
        "shared node": record.environment.get(OTHER_JOBS) == OTHER_JOBS_ALLOWED,
        # A sum is finite only where each loss is.
        "diverged": not all(
            math.isfinite(sum(epoch.train_losses, start=epoch.test_loss or 0.0)) for epoch in epochs
        ),
        "projected": is_projected(record),
        **dict.fromkeys(load_marks(loads), True),
    }
    if on_cpu and _taken(loads) > HEAVY_LOAD:
        found |= {"heavy load": True, "background load": False, "CPU steal": False}
    return [mark for mark in MEANINGS if found.get(mark)]


def marks_in(text: str) -> list[str]:
    """The marks in a cell of the column `marks`, each once, in their order."""
    return list(dict.fromkeys(mark.strip() for mark in text.split(SEPARATOR) if mark.strip()))


def is_same_code(record: Record, today: Today) -> bool:
    """Whether today's code, and that of a user's class, is what measured."""
    same_code = measures_alike(record.provenance.code_digest, today.code_digest)
    return same_code and is_same_class(record, today)


def is_same_class(record: Record, today: Today) -> bool:
    """Whether a user's class is today what was trained."""
    path, digest = class_of(record)
    return digest == today.workload_digests.get(path, "")


def load_marks(loads: Sequence[Load]) -> Iterator[str]:
    """Those that follow from what others used of the cores, in any of the processes."""
    if any(
        load.foreign_cpu_share is not None and load.foreign_cpu_share > FOREIGN_CPU_SHARE
        for load in loads
    ):
        yield "background load"
    if any(load.steal_share is not None and load.steal_share > STEAL_SHARE for load in loads):
        yield "CPU steal"


def load_in_words(loads: Sequence[Load]) -> str:
    """What others took of the CPU at most, as a sentence; empty where no mark follows from it."""
    return f"others used {_percent(_taken(loads))} of the CPU time" if [*load_marks(loads)] else ""


def _taken(loads: Sequence[Load]) -> float:
    return max(
        (sum(filter(None, (load.foreign_cpu_share, load.steal_share))) for load in loads),
        default=0.0,
    )
