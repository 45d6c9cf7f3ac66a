"""Whether a slowdown of 5 % is told, and none is told where there is none, by the statistics of the report itself.

`python -m benchmarks.planted_slowdown --device cuda --processes 5` (or cpu); `--precision` and `--options` train a rung
of the ladder instead of the plain loop. Groups of fresh processes train the same LSTM; every other group trains it with
work added that is calibrated to 5 % of a step. A group is compared with its neighbour of the other kind and with the
next of its own kind: told different is what has the whole interval of the ratio of throughputs on one side of 1, as in
the report's findings.

Chance alone tells two equal groups apart in one comparison of twenty: some pairs of the same come out as different.
"""

import argparse
import tempfile
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import torch

from benchmarks.slowed_lstm import SlowedLSTM
from gpu_report.measure.messages import TimedRun
from gpu_report.measure.processes import carry_out_in_fresh_process
from gpu_report.measure.run import Run
from gpu_report.measure.threads import training_threads
from gpu_report.measure.training import build_training, prepare, train_epoch
from gpu_report.measure.variant_run import ignore_progress
from gpu_report.study import Measurement, Protocol, Workload
from gpu_report.tables.statistics import BySeed, Summary, ratio
from gpu_report.variant import Variant

PLANTED: Final = 0.05
BATCH_SIZE: Final = 64
FIRST_REPEATS: Final = 100
CALIBRATION_EPOCHS: Final = 6
CALIBRATION_ROUNDS: Final = 8
CLOSE_ENOUGH: Final = 0.004


def samples_of(steps: int) -> dict[str, int]:
    return {"train_samples": steps * BATCH_SIZE, "test_samples": BATCH_SIZE}


def calibrate(variant: Variant, *, steps: int) -> int:
    """How many more losses make a step 5 % longer, found by trying.

    Where the host runs ahead of the device, the first few cost nothing, so twice as many need not cost twice as much.
    """
    torch.set_num_threads(training_threads())
    repeats = FIRST_REPEATS
    for _ in range(CALIBRATION_ROUNDS):
        plain_s, slowed_s = _least_epochs_s(variant, steps=steps, repeats=(0, repeats))
        share = slowed_s / plain_s - 1
        print(f"calibration: {repeats} more losses make an epoch {share:.1%} longer", flush=True)
        if abs(share - PLANTED) < CLOSE_ENOUGH:
            break
        repeats = max(1, round(repeats * min(max(PLANTED / max(share, 0.001), 0.25), 4)))
    return repeats


def _least_epochs_s(variant: Variant, *, steps: int, repeats: tuple[int, ...]) -> list[float]:
    """The least of some epochs with each number of repeats, in turns: without what disturbed the others."""
    workloads = [SlowedLSTM(size="default", seed=0, repeats=each, **samples_of(steps)) for each in repeats]
    trainings = [
        build_training(workload, variant, device=torch.device(variant.device), seed=0, steps_per_epoch=None)
        for workload in workloads
    ]
    for training in trainings:
        prepare(training)
    rounds = [
        [float(train_epoch(training, epoch=0, on_step=lambda *_: None)[0]["wall_time_s"]) for training in trainings]
        for _ in range(1 + CALIBRATION_EPOCHS)
    ]
    return [min(times_s) for times_s in zip(*rounds[1:], strict=True)]


def throughputs(variant: Variant, *, steps: int, repeats: int, processes: int, folder: Path) -> BySeed:
    """Samples per second of a group, one value per fresh process by its seed, as the report's tables have them."""
    settings = {**samples_of(steps), "repeats": repeats}
    workload = Workload(name="slowed", class_path="benchmarks.slowed_lstm:SlowedLSTM", settings=settings)
    measurement = Measurement(
        variant=variant, workload=workload, protocol=Protocol(repetitions=processes, profile_steps=1)
    )
    run = Run(
        measurement=measurement,
        machine="benchmark",
        index=0,
        threads=training_threads(),
        trace_folder=folder,
        cache_folder=folder,
    )
    values: dict[int, float] = {}
    for index in range(processes):
        end = carry_out_in_fresh_process(replace(run, index=index), ignore_progress).end
        if not isinstance(end, TimedRun):
            raise SystemExit(f"a training did not come to its end: {end}")
        values[end.repetition.seed] = end.repetition.throughput_per_s
    return values


def show(title: str, ratios: list[Summary]) -> None:
    slower, faster = sum(ratio.low > 1 for ratio in ratios), sum(ratio.high < 1 for ratio in ratios)
    values = sorted(ratio.value for ratio in ratios)
    print(
        f"{title}: {slower} of {len(ratios)} told slower, {faster} told faster; "
        f"ratios {values[0]:.3f} to {values[-1]:.3f}, median {values[len(values) // 2]:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--options", default="none")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--processes", type=int, default=5, help="fresh processes of each side")
    parser.add_argument("--steps", type=int, default=10, help="of an epoch; 3 epochs, the first as warm-up")
    parser.add_argument("--repeats", type=int, help="plant so many more losses, instead of calibrating")
    arguments = parser.parse_args()
    variant = Variant(
        workload="slowed",
        device=arguments.device,
        precision=arguments.precision,
        options=arguments.options,
        batch_size=BATCH_SIZE,
        epochs=3,
    )
    repeats = arguments.repeats or calibrate(variant, steps=arguments.steps)
    print(f"planted: {repeats} more losses in every step", flush=True)
    plain, slowed = [], []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(arguments.pairs + 1):
            group = partial(
                throughputs, variant, steps=arguments.steps, processes=arguments.processes, folder=Path(folder)
            )
            plain.append(group(repeats=0))
            if pair < arguments.pairs:
                slowed.append(group(repeats=repeats))
    show("with 5 % more work", [ratio(*pair) for pair in zip(plain, slowed, strict=False)])
    show("against itself    ", [ratio(*pair) for pair in pairwise(plain)])


if __name__ == "__main__":
    main()
