"""How often the table of idle times names the cause that was planted in a training.

`python -m benchmarks.idle_causes` trains models of random width and depth on a GPU, each with one
cause of idle time planted in its step, records three steps with torch.profiler, and reads the
cause of the longest idle time from the trace. A training with its work on two streams has none:
there it is right where a device that is busy on either is not called idle.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

from gpu_report.traces.analysis import analyse
from gpu_report.traces.idle import IDLE
from gpu_report.traces.steps import STEPS

CLASSES: Final = 10
WARM_UP_STEPS: Final = 4
PROFILED_STEPS: Final = 3
MOST_IDLE: Final = 0.1
"""Share of the step up to which a device that always has work is called idle at most."""

Step = Callable[[Tensor, Tensor], None]


class SlowSamples(Dataset[tuple[Tensor, Tensor]]):
    """Random samples, each of which takes this long to bring."""

    def __init__(self, width: int, count: int, seconds: float) -> None:
        self._width, self._count, self._seconds = width, count, seconds

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(self._seconds)
        return torch.randn(self._width), torch.tensor(index % CLASSES)


def model_of(chance: random.Random) -> tuple[nn.Module, int]:
    """A network and the width of its input."""
    width = chance.choice((2048, 4096))
    layers = [
        layer for _ in range(chance.randint(4, 8)) for layer in (nn.Linear(width, width), nn.ReLU())
    ]
    return nn.Sequential(*layers, nn.Linear(width, CLASSES)).cuda(), width


def plain_step(model: nn.Module) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(inputs: Tensor, target: Tensor) -> None:
        cross_entropy(model(inputs), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return step


def trace_of(step: Step, batches: Iterator[tuple[Tensor, Tensor]]) -> Path:
    """Record some steps; the file is the caller's to delete."""
    file = Path(tempfile.mkdtemp(), "rank0.pt.trace.json")
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=0, warmup=WARM_UP_STEPS, active=PROFILED_STEPS),
        on_trace_ready=lambda found: found.export_chrome_trace(str(file)),
    ) as profiler:
        for _ in range(WARM_UP_STEPS + PROFILED_STEPS):
            step(*next(batches))
            profiler.step()
    return file


def repeated(batch: tuple[Tensor, Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield batch


def planted(cause: str, chance: random.Random) -> Path:
    """The trace of a training with this cause."""
    model, width = model_of(chance)
    samples = chance.choice((512, 1024, 2048))
    step = plain_step(model)
    on_host = torch.randn(samples, width), torch.randint(0, CLASSES, (samples,))
    on_device = on_host[0].cuda(), on_host[1].cuda()
    pause_s = chance.uniform(0.01, 0.03)

    def sleeps(inputs: Tensor, target: Tensor) -> None:
        hidden = model[:2](inputs)  # type: ignore[index]
        torch.cuda.current_stream()
        time.sleep(pause_s)
        cross_entropy(model[2:](hidden), target).backward()  # type: ignore[index]

    def reads_values(inputs: Tensor, target: Tensor) -> None:
        step(inputs, target)
        for parameter in model.parameters():
            parameter.sum().item()

    def copies_pageable(inputs: Tensor, target: Tensor) -> None:
        step(inputs.to("cuda"), target.to("cuda"))

    def empties_cache(inputs: Tensor, target: Tensor) -> None:
        step(inputs, target)
        torch.cuda.empty_cache()

    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    left, right = (torch.randn(6144, 6144, device="cuda") for _ in range(2))

    def on_two_streams(_: Tensor, __: Tensor) -> None:
        for stream in (torch.cuda.current_stream(), side) * 20:
            with torch.cuda.stream(stream):
                torch.mm(left, right)

    if cause == "loader":
        slow = SlowSamples(width, 64 * 10, pause_s / 64)
        loader = iter(DataLoader(slow, batch_size=64))
        return trace_of(lambda inputs, target: step(inputs.cuda(), target.cuda()), loader)
    steps: dict[str, tuple[Step, tuple[Tensor, Tensor]]] = {
        "host": (sleeps, on_device),
        "synchronisation": (reads_values, on_device),
        "synchronisation by a copy": (copies_pageable, on_host),
        "allocator": (empties_cache, on_device),
        "none, on two streams": (on_two_streams, on_device),
    }
    chosen, batch = steps[cause]
    return trace_of(chosen, repeated(batch))


CAUSES: Final = (
    "host",
    "synchronisation",
    "synchronisation by a copy",
    "allocator",
    "loader",
    "none, on two streams",
)


def main() -> None:
    """Print a line for each training, and how many were right."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trainings", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    right = 0
    for number in range(given.trainings):
        cause = CAUSES[number % len(CAUSES)]
        file = planted(cause, chance)
        found = analyse(file).rows
        times_ms: dict[str, float] = {}
        for row in found[IDLE]:
            times_ms[row["cause"]] = times_ms.get(row["cause"], 0.0) + row["total_ms"]
        named = max(times_ms, key=times_ms.__getitem__, default="none")
        idle = sum(times_ms.values()) / sum(row["wall_ms"] for row in found[STEPS])
        is_right = idle <= MOST_IDLE if cause.startswith("none") else cause.startswith(named)
        right += is_right
        print(
            f"{'right' if is_right else 'WRONG':6} planted: {cause:28} named: {named:18} "
            f"idle {idle:6.1%}",
            flush=True,
        )
        file.unlink()
        file.parent.rmdir()
        torch.cuda.empty_cache()
    print(f"{right} of {given.trainings} are right, on {torch.cuda.get_device_name()}")


if __name__ == "__main__":
    main()
