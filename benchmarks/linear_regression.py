"""The rungs of linear regression: time for all epochs, time an epoch, against the plain loop, and the error of each.

points -> float64 reference -> each rung: check, warm up, time, in turn -> table
"""

import argparse
import statistics
import time
from collections.abc import Iterator

import torch

from gpu_report.kernels.building import NoCompilerError
from gpu_report.kernels.points import make_problem
from gpu_report.kernels.reference import relative_error, train_in_float64
from gpu_report.kernels.rungs import RUNGS, Problem, Train


def timed_s(train: Train, *, device: str) -> float:
    """One training from the beginning to the end, the points on the device already."""
    if device == "cuda":
        torch.cuda.synchronize()
    begun = time.perf_counter()
    train()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begun


def lines(problem: Problem, *, device: str, repetitions: int) -> Iterator[str]:
    reference = train_in_float64(problem)
    yield f"{problem.x.numel():,} points, {problem.epochs} epochs, {device}, median of {repetitions}"
    yield f"{'rung':<38}{'all epochs':>14}{'an epoch':>12}{'against eager':>15}{'error':>10}"
    plain_s = None
    for rung in RUNGS.values():
        if device not in rung.device_types:
            continue
        try:
            train = rung.prepare(problem)
        except NoCompilerError as reason:
            yield f"{rung.title:<38}skipped: {reason}"
            continue
        error = relative_error(train(), reference)
        timed_s(train, device=device)
        median_s = statistics.median(timed_s(train, device=device) for _ in range(repetitions))
        plain_s = plain_s or median_s
        yield (
            f"{rung.title:<38}{1e3 * median_s:>11.3f} ms{1e6 * median_s / problem.epochs:>9.2f} us"
            f"{plain_s / median_s:>14.1f}x{error:>10.1e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, nargs="+", default=[4_000_000])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    for points in arguments.points:
        problem = make_problem(points, device=arguments.device)
        print("\n".join(lines(problem, device=arguments.device, repetitions=arguments.repetitions)), flush=True)


if __name__ == "__main__":
    main()
