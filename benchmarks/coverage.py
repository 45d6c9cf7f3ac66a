"""Coverage of the report's 95 % intervals, checked on recorded processes.

`python -m benchmarks.coverage record unet-cuda --into FILE.json` trains a configuration in 40 fresh
processes, and in 12 each (`--planted`) with a slowdown of 2, 5 and 10 % planted, in turns so that a
machine that drifts slows all of them. A slowdown is a spin of known length in every step, on the
device's own clock; timing spins alone checks its length, and the planted processes check that a
step takes so much longer. `python -m benchmarks.coverage FILE.json ...` draws groups of 5 from the
recorded processes 10,000 times, with replacement (`--into TABLE.csv` writes the table that the
report quotes):

- coverage: how often the group's 95 % interval holds the mean of all recorded processes; also of
  all groups of 5 processes in a row, since a machine may drift,
- A/A: how often two groups of the same configuration come out as different,
- planted: how often a group of processes, each slowed by exactly so much, is found to be slower
  than another.

Ratios are taken by Welch's t, and also in pairs, as the report takes configurations with the same
seeds.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, Final

import pandas as pd

from gpu_report.measure.processes import carry_out_in_fresh_process
from gpu_report.measure.run import Run, TimedRun
from gpu_report.measure.threads import training_threads
from gpu_report.measure.variant_run import ignore_progress
from gpu_report.records.record import Repetition
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant
from gpu_report.tables.statistics import ratio, summarise

PROCESSES: Final = 40
PLANTED_PROCESSES: Final = 12
PLANTED: Final = (0.02, 0.05, 0.10)
GROUP: Final = 5
DRAWS: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """What is trained, close to how the study trains it, with the class that can spin."""

    class_name: str
    settings: Mapping[str, Any]
    variant: Mapping[str, Any]


CONFIGURATIONS: Final[Mapping[str, Configuration]] = {
    "unet-cuda": Configuration(
        class_name="SpinningUNet",
        settings={"train_samples": 500, "test_samples": 16},
        variant={"size": "128px", "device": "cuda", "batch_size": 16, "epochs": 2},
    ),
    "lstm-cuda-graphs": Configuration(
        class_name="SpinningLSTM",
        settings={"train_samples": 2000, "test_samples": 64},
        variant={
            "device": "cuda",
            "batch_size": 64,
            "epochs": 2,
            "precision": "tf32",
            "options": "resident+graphs",
        },
    ),
    "cnn-cpu": Configuration(
        class_name="SpinningCNN",
        settings={"train_samples": 2048, "test_samples": 64},
        variant={
            "size": "medium",
            "device": "cpu",
            "batch_size": 64,
            "epochs": 2,
            "steps_per_epoch": 10,
        },
    ),
    "lstm-cpu": Configuration(
        class_name="SpinningLSTM",
        settings={"train_samples": 2000, "test_samples": 64},
        variant={"device": "cpu", "batch_size": 64, "epochs": 2, "steps_per_epoch": 4},
    ),
}


def record(name: str, into: Path, *, processes: int, planted_processes: int) -> None:
    """Samples per second of each process, without and with each slowdown, and how long the spins
    were.

    The file is written anew after each round, and one that is there is gone on with.

    Raises:
        SystemExit: a training did not come to its end.
    """
    recorded = (
        json.loads(into.read_text("utf-8"))
        if into.exists()
        else _planned(name, pilot_index=processes)
    )
    found: dict[str, list[float]] = recorded["samples_per_s"]
    planted = [share for _ in range(planted_processes) for share in PLANTED]
    for index in range(len(found["0"]), processes):
        for share in map(str, (0, *planted[_slice(index, processes, len(planted))])):
            repetition = _train(name, index=index, spin_us=recorded["spin_us"].get(share, 0.0))
            found[share].append(repetition.throughput_per_s)
        done = f"{name}: process {index + 1} of {processes}"
        print(f"{done}: {found['0'][-1]:.1f} samples/s", file=sys.stderr, flush=True)
        into.write_text(json.dumps(recorded) + "\n", "utf-8")


def _planned(name: str, *, pilot_index: int) -> dict[str, Any]:
    """What is to be recorded, with no process yet; a pilot process measures how long a step is."""
    pilot = _train(name, index=pilot_index, spin_us=0.0)
    step_us = 1e6 * statistics.median(
        epoch.wall_time_s / len(epoch.step_times_ms) for epoch in pilot.timed_epochs
    )
    device = str(CONFIGURATIONS[name].variant["device"])
    spins_us = {str(share): share * step_us for share in PLANTED}
    return {
        "name": name,
        "samples_per_s": {"0": [], **{share: [] for share in spins_us}},
        "step_us": step_us,
        "spin_us": spins_us,
        "timed_spin_us": {
            share: _timed_in_fresh_process(device, length_us)
            for share, length_us in spins_us.items()
        },
    }


def _slice(index: int, rounds: int, items: int) -> slice:
    """Which of the items belong to a round, so that all are spread over the rounds."""
    return slice(index * items // rounds, (index + 1) * items // rounds)


def _train(name: str, *, index: int, spin_us: float) -> Repetition:
    chosen = CONFIGURATIONS[name]
    workload = Workload(
        name="spinning",
        class_path=f"benchmarks.spinning:{chosen.class_name}",
        settings={**chosen.settings, "spin_us": spin_us},
    )
    variant = Variant(workload="spinning", **chosen.variant)
    protocol = Protocol(repetitions=2 * PROCESSES, profile_steps=1)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(
            measurement=Measurement(variant=variant, workload=workload, protocol=protocol),
            machine="benchmark",
            index=index,
            threads=training_threads(variant.device_type),
            trace_folder=Path(folder),
            cache_folder=Path(folder),
        )
        end = carry_out_in_fresh_process(run, ignore_progress).end
    if not isinstance(end, TimedRun):
        raise SystemExit(f"a training did not come to its end: {end}")
    return end.repetition


def _timed_in_fresh_process(device: str, length_us: float) -> float:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_timed, (device, length_us))


def _timed(device: str, length_us: float) -> float:
    import torch

    from benchmarks.spinning import time_spins

    return time_spins(torch.device(device), length_us)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the recorded processes of one configuration show; shares are of draws."""

    configuration: str
    device: str
    processes: int
    group: int
    samples_per_s: float
    spread: float
    """Standard deviation of the logarithms of the processes' samples per second."""
    coverage: float
    coverage_in_a_row: float
    """Of groups of processes that ran one after the other, which share what drifts."""
    different: float
    """Share of draws in which Welch's t finds two groups of the same configuration different."""
    different_in_pairs: float
    """The same by the paired t."""
    slower: Mapping[str, float]
    """Share of draws in which Welch's t finds the planted slowdown."""
    slower_in_pairs: Mapping[str, float]
    """The same by the paired t, by which the report compares configurations."""

    def as_row(self) -> dict[str, str | int | float]:
        """One row of the table that the report quotes."""
        row: dict[str, str | int | float] = {}
        for name, value in asdict(self).items():
            if isinstance(value, Mapping):
                row |= {f"{name}_{share}": found for share, found in value.items()}
            else:
                row[name] = value
        return row


def show(recorded: Mapping[str, Any], *, draws: int = DRAWS) -> Shown:
    """Draw groups from the recorded processes of one configuration."""
    random = Random(0)
    samples_per_s: Mapping[str, list[float]] = recorded["samples_per_s"]
    plain = samples_per_s["0"]
    planted = {
        share: [value / (1 + float(share)) for value in plain] for share in recorded["spin_us"]
    }
    mean = statistics.geometric_mean(plain)

    def coverage_of(groups: Sequence[Sequence[float]]) -> float:
        return statistics.fmean(found.low <= mean <= found.high for found in map(summarise, groups))

    return Shown(
        configuration=recorded["name"],
        device=str(CONFIGURATIONS[recorded["name"]].variant["device"]),
        processes=len(plain),
        group=GROUP,
        samples_per_s=mean,
        spread=statistics.stdev(map(math.log, plain)),
        coverage=coverage_of([random.choices(plain, k=GROUP) for _ in range(draws)]),
        coverage_in_a_row=coverage_of(
            [plain[at : at + GROUP] for at in range(len(plain) - GROUP + 1)]
        ),
        different=sum(_found_slower(random, plain, plain, draws, paired=False)),
        different_in_pairs=sum(_found_slower(random, plain, plain, draws, paired=True)),
        slower={
            share: _found_slower(random, plain, slowed, draws)[0]
            for share, slowed in planted.items()
        },
        slower_in_pairs={
            share: _found_slower(random, plain, slowed, draws, paired=True)[0]
            for share, slowed in planted.items()
        },
    )


def lines(recorded: Mapping[str, Any], shown: Shown) -> list[str]:
    """What one configuration shows, in words."""
    printed = [
        f"{shown.configuration}: {shown.processes} processes, {shown.samples_per_s:.1f} "
        f"samples/s, standard deviation {shown.spread:.1%} of it",
        f"  coverage of the 95 % interval of {GROUP} processes: {shown.coverage:.1%}; of {GROUP} "
        f"in a row {shown.coverage_in_a_row:.1%}",
        f"  A/A found different by Welch: {shown.different:.1%}; in pairs "
        f"{shown.different_in_pairs:.1%}",
    ]
    for share, found in shown.slower.items():
        spin_us, timed_us, slowed = (
            recorded[name][share] for name in ("spin_us", "timed_spin_us", "samples_per_s")
        )
        slowdown = shown.samples_per_s / statistics.geometric_mean(slowed) - 1
        printed += [
            f"  planted {float(share):.0%}: found slower {found:.1%}; in pairs "
            f"{shown.slower_in_pairs[share]:.1%}",
            f"    a spin of {spin_us:.1f} us a step, timed {timed_us:.1f} us; the mean of "
            f"{len(slowed)} processes with it took {slowdown:+.1%}",
        ]
    return printed


def _found_slower(
    random: Random,
    plain: Sequence[float],
    other: Sequence[float],
    draws: int,
    *,
    paired: bool = False,
) -> tuple[float, float]:
    """Shares of draws in which a group of the other is found to be slower, and faster, than a group
    of the plain.
    """
    ratios = [
        ratio(
            _by_seed(random.choices(plain, k=GROUP)),
            _by_seed(random.choices(other, k=GROUP)),
            paired=paired,
        )
        for _ in range(draws)
    ]
    return sum(each.low > 1 for each in ratios) / draws, sum(
        each.high < 1 for each in ratios
    ) / draws


def _by_seed(values: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(values))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="+", metavar="record NAME | FILE.json", help="see above")
    parser.add_argument(
        "--into", type=Path, help="where to write what was recorded, or a table of what files show"
    )
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument(
        "--planted", type=int, default=PLANTED_PROCESSES, help="processes with each slowdown"
    )
    arguments = parser.parse_args()
    if arguments.what[0] != "record":
        rows = []
        for path in arguments.what:
            recorded = json.loads(Path(path).read_text("utf-8"))
            shown = show(recorded)
            rows.append(shown.as_row())
            print("\n".join(lines(recorded, shown)), flush=True)
        if arguments.into:
            pd.DataFrame(rows).to_csv(arguments.into, index=False, float_format="%.4g")
        return 0
    if (
        len(arguments.what) != 2
        or arguments.what[1] not in CONFIGURATIONS
        or arguments.into is None
    ):
        parser.error(f"record takes one of {', '.join(CONFIGURATIONS)}, and --into FILE.json")
    record(
        arguments.what[1],
        arguments.into,
        processes=arguments.processes,
        planted_processes=arguments.planted,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
