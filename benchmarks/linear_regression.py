"""The loops of linear regression: time for all epochs and for one, against the eager baseline, and
the error of each.

points -> float64 reference -> each loop: check, warm up, time, count its kernels -> table
"""

import argparse
import statistics
import time
from collections.abc import Iterator

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from gpu_report.study.options import NO_OPTIONS, OPTIONS
from gpu_report.workloads.linear_regression import LinearRegression
from gpu_report.workloads.linear_regression.building import NoCompilerError
from gpu_report.workloads.linear_regression.loops import LOOPS, Problem, Train
from gpu_report.workloads.linear_regression.reference import relative_error, train_by_sums

COPIED_FLOATS = 2**28
BYTES_A_POINT = 8
HEADS = {
    "all epochs": 14,
    "an epoch": 12,
    "readings": 10,
    "kernels": 9,
    "against eager": 15,
    "error": 10,
}
NO_KERNELS = ("Memcpy", "Memset")


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed_s(train: Train, *, device: str) -> float:
    """One training from the beginning to the end, the points on the device already."""
    synchronize(device)
    begun = time.perf_counter()
    train()
    synchronize(device)
    return time.perf_counter() - begun


def copied_bytes_per_s(device: str, *, repetitions: int) -> float:
    """Bytes read and written a second by a copy of a gibibyte in the device's memory."""
    source, target = (
        torch.ones(COPIED_FLOATS, device=device),
        torch.empty(COPIED_FLOATS, device=device),
    )
    taken_s = []
    for _ in range(repetitions + 1):
        synchronize(device)
        begun = time.perf_counter()
        target.copy_(source)
        synchronize(device)
        taken_s.append(time.perf_counter() - begun)
    return 2 * 4 * COPIED_FLOATS / statistics.median(taken_s[1:])


def kernels_an_epoch(train: Train, *, epochs: int) -> float:
    """Kernels that run on the GPU, counted in a trace of one training."""
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True
    ) as trace:
        train()
        torch.cuda.synchronize()
    on_device = [event.name for event in trace.events() if event.device_type == DeviceType.CUDA]
    return sum(not name.startswith(NO_KERNELS) for name in on_device) / epochs


def lines(problem: Problem, *, device: str, repetitions: int) -> Iterator[str]:
    reference = train_by_sums(problem)
    copied = copied_bytes_per_s(device, repetitions=repetitions)
    reading_s = BYTES_A_POINT * problem.x.numel() / copied
    yield (
        f"{problem.x.numel():,} points, {problem.epochs} epochs, {device}, median of "
        f"{repetitions}; a copy moves {copied / 1e12:.2f} TB/s, so that reading all points once "
        f"takes {1e6 * reading_s:.1f} us"
    )
    yield f"{'loop':<38}" + "".join(head.rjust(width) for head, width in HEADS.items())
    eager_s = None
    for name, loop in LOOPS.items():
        if device not in loop.device_types:
            continue
        title = "eager baseline" if name == NO_OPTIONS else OPTIONS[name].title
        try:
            train = loop.prepare(problem)
        except NoCompilerError as reason:
            yield f"{title:<38}skipped: {reason}"
            continue
        error = relative_error(train(), reference)
        timed_s(train, device=device)
        median_s = statistics.median(timed_s(train, device=device) for _ in range(repetitions))
        kernels = (
            f"{kernels_an_epoch(train, epochs=problem.epochs):.3g}" if device == "cuda" else "-"
        )
        eager_s = eager_s or median_s
        epoch_s = median_s / problem.epochs
        yield (
            f"{title:<38}{1e3 * median_s:>11.3f} ms{1e6 * epoch_s:>9.2f} "
            f"us{epoch_s / reading_s:>10.3g}{kernels:>9}{eager_s / median_s:>14.1f}x{error:>10.1e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, nargs="+", default=[4_000_000])
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    for points in arguments.points:
        x, y = LinearRegression(size="default", seed=0).draw(points, "train")
        problem = Problem(x=x.squeeze(1).to(arguments.device), y=y.squeeze(1).to(arguments.device))
        print(
            "\n".join(lines(problem, device=arguments.device, repetitions=arguments.repetitions)),
            flush=True,
        )


if __name__ == "__main__":
    main()
