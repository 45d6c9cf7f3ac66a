"""How often a slow rank is named from the traces of all ranks, and how often one of a clean run is.

`torchrun --nproc-per-node 2 -m benchmarks.slow_rank` trains U-Net by DistributedDataParallel and
profiles it again and again, as `gpu-report run` does: as many runs in which one rank, drawn at
random, is delayed in its forward pass by a tenth of the step as runs without a delay, in random
order. On CUDA the delay is a kernel that spins (`torch.cuda._sleep`), on the CPU a loop of the
host. It prints of each run which rank the others waited for, and the share of the median step that
they waited longer than it; from SLOW_FROM on, that rank is named.

All runs are by the same processes, one after the other, so that starting them is not part of it: a
rank that is slow for the whole life of its process, as by its place on the machine, is the same in
all of them. Start it several times to see more of that. What is planted is the mean of a whole
rank's slowness, not its kind: a rank that is slow now and then is another question.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.trainings import LSTM, SMALL_UNET, UNET, joined, measurement_of
from gpu_report.measure.profiling import Stepper, profile_training
from gpu_report.measure.run import (
    LEAST_WARM_UP_STEPS,
    MOST_LIGHT_PROFILES,
    MOST_WARM_UP_STEPS,
    trace_name,
)
from gpu_report.measure.training import Training, build_training, prepare
from gpu_report.measure.world import World, leave
from gpu_report.traces.grouping import Row
from gpu_report.traces.ranks import RANKS, SLOW_FROM, most_awaited, slow_rank, tabulate_ranks
from gpu_report.traces.tables import read_exchange
from gpu_report.workloads.protocol import load_workload

DELAY: Final = 0.1
"""Of the step without it."""

TIMED_STEPS: Final = 5
CALIBRATED_CYCLES: Final = 50_000_000
PATIENCE_S: Final = 300


_sleep: Final[Callable[[int], None]] = getattr(torch.cuda, "_sleep")  # noqa: B009 - it has no type


class Delay:
    """Keeps this rank busy before each forward pass of the model, for as long as `seconds` says."""

    def __init__(self, training: Training) -> None:
        self.seconds = 0.0
        self._wait: Callable[[float], None] = _spin
        if training.device.type == "cuda":
            cycles_per_s = _cycles_per_s()
            self._wait = lambda seconds: _sleep(round(seconds * cycles_per_s))
        # not of the wrapper, which exchanges buffers before it calls the model
        model = getattr(training.model, "module", training.model)
        model.register_forward_pre_hook(
            lambda _model, _inputs: self._wait(self.seconds) if self.seconds else None
        )


def _spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def _cycles_per_s() -> float:
    for _ in range(2):  # the first finds the clock low
        torch.cuda.synchronize()
        started = time.perf_counter()
        _sleep(CALIBRATED_CYCLES)
        torch.cuda.synchronize()
    return CALIBRATED_CYCLES / (time.perf_counter() - started)


def built(options: argparse.Namespace, world: World, device: torch.device) -> Training:
    fields: dict[str, Any] = {"unet": UNET if device.type == "cuda" else SMALL_UNET, "lstm": LSTM}[
        options.workload
    ]
    per_run = TIMED_STEPS + MOST_WARM_UP_STEPS + MOST_LIGHT_PROFILES * (1 + options.steps)
    asked = measurement_of(
        {
            **fields,
            "strategy": "ddp",
            "devices": world.size,
            "batch_size": fields["batch_size"] * world.size,
        },
        device=device.type,
        samples=512,
        steps_per_epoch=2 * LEAST_WARM_UP_STEPS + per_run,
    )
    workload = load_workload(asked.workload, size=asked.variant.size, seed=0)
    steps = asked.variant.steps_per_epoch
    training = build_training(
        workload, asked.variant, device=device, seed=0, steps_per_epoch=steps, world=world
    )
    prepare(training)
    training.model.train()
    return training


def step_s(training: Training) -> float:
    """Median time of a step, the greatest of all ranks."""
    stepper = Stepper(training, _ignore)
    times_ms = [stepper.train_once() for _ in range(LEAST_WARM_UP_STEPS + TIMED_STEPS)][
        LEAST_WARM_UP_STEPS:
    ]
    return training.world.agree(statistics.median(times_ms) / 1e3, max)


def _ignore(_epoch: int, _step: int) -> None:
    pass


def profiled(training: Training, folder: Path, steps: int) -> list[Row]:
    """The rows of RANKS of one run."""
    profile_training(
        training,
        steps=steps,
        timed_step_ms=1e3 * step_s(training),
        trace_folder=folder,
        run_id="slow_rank",
        on_step=_ignore,
    )
    exchanges = [read_exchange(folder / trace_name(rank)) for rank in range(training.world.size)]
    training.world.wait()  # the next run writes over the traces
    return tabulate_ranks(exchanges)[RANKS]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--workload", default="unet", choices=["unet", "lstm"])
    parser.add_argument("--runs", type=int, default=20, help="of each kind")
    parser.add_argument("--steps", type=int, default=9, help="profiled in each run")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    world, device = joined("slow_rank", options.device, patience_s=PATIENCE_S)
    chosen = random.Random(options.seed)  # the same in every rank
    runs = [chosen.randrange(world.size) for _ in range(options.runs)] + [None] * options.runs
    chosen.shuffle(runs)
    with tempfile.TemporaryDirectory() as own_folder:
        folder = Path(world.gather(own_folder)[0])
        training = built(options, world, device)
        delay = Delay(training)
        planted_s = DELAY * step_s(training)
        named: list[int | None] = []
        for number, slow in enumerate(runs, start=1):
            started = time.perf_counter()
            delay.seconds = planted_s if slow == world.rank else 0.0
            rows = profiled(training, folder, options.steps)
            named.append(slow_rank(rows))
            awaited, least = most_awaited(rows) or (None, 0.0)
            if world.rank == 0:
                print(
                    f"{number:3} planted {_name(slow)} named {_name(named[-1])} most awaited "
                    f"{_name(awaited)} by {least:6.1%}, {time.perf_counter() - started:.1f} s",
                    flush=True,
                )
    if world.rank == 0:
        pairs = list(zip(runs, named, strict=True))
        right = sum(planted == found for planted, found in pairs if planted is not None)
        accused = sum(found is not None for planted, found in pairs if planted is None)
        print(
            f"{world.size} ranks on {options.device}, {1e3 * planted_s:.2f} ms planted, named "
            f"from {SLOW_FROM:.0%} on"
        )
        print(f"the slow rank was named in {right} of {options.runs} runs")
        print(f"a rank was named in {accused} of {options.runs} clean runs")
    world.wait()
    leave(world)


def _name(rank: int | None) -> str:
    return "none" if rank is None else f"   {rank}"


if __name__ == "__main__":
    main()
