"""How much longer a step takes in `with gpu_report.step():`, beside `gpu-report watch` at 1 Hz.

`gpu-report watch --interval 1 -- python -m benchmarks.watch_overhead --rounds 300 --seconds 0.3`
trains a small CNN in stretches with and without step(), in the order ABBA; in those without, the
watcher is stopped. It prints the ratio of the time of a step, by the wall clock and by this
process's CPU time, with 95 % intervals over the pairs, and what step() takes around nothing. Timed
steps carry no profiler, so none is started here. With `--batch-size 1024` a GPU sets the pace, and
not the host that launches its kernels.
"""

import argparse
import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import gpu_report
from gpu_report.printing.number_format import duration, ratio
from gpu_report.tables.statistics import summarise
from gpu_report.user_training.step_counts import COUNTS_FILE

EMPTY_STEPS: Final = 100_000


def training_step(device: torch.device, batch_size: int) -> Callable[[], None]:
    width = nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()
    model = nn.Sequential(*width, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).to(
        device
    )
    optimizer = torch.optim.AdamW(model.parameters())
    images = torch.randn(batch_size, 3, 32, 32, device=device)
    labels = torch.zeros(batch_size, dtype=torch.long, device=device)

    def train() -> None:
        cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return train


def stretch(
    train: Callable[[], None], device: torch.device, seconds: float, *, is_watched: bool
) -> tuple[float, float]:
    """Seconds of a step, by the wall clock and by CPU time."""
    if COUNTS_FILE in os.environ:
        os.kill(os.getppid(), signal.SIGCONT if is_watched else signal.SIGSTOP)
    steps, began_s, began_cpu_s = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began_s < seconds:
        with gpu_report.step(samples=1) if is_watched else nullcontext():
            train()
        steps += 1
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return (time.perf_counter() - began_s) / steps, (time.process_time() - began_cpu_s) / steps


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=20, help="of four stretches each")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each stretch")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.set_num_threads(1)
    train = training_step(device, arguments.batch_size)
    with gpu_report.watch(profile=False):
        stretch(train, device, 5.0, is_watched=True)
        wall, cpu, plain_s = [], [], []
        try:
            for _ in range(arguments.rounds):
                order = (True, False, False, True)
                found = [
                    stretch(train, device, arguments.seconds, is_watched=watched)
                    for watched in order
                ]
                for watched, plain in ((found[0], found[1]), (found[3], found[2])):
                    wall.append(watched[0] / plain[0])
                    cpu.append(watched[1] / plain[1])
                    plain_s.append(plain[0])
        finally:
            if COUNTS_FILE in os.environ:
                os.kill(os.getppid(), signal.SIGCONT)
    with gpu_report.watch(profile=False):
        began_s = time.perf_counter()
        for _ in range(EMPTY_STEPS):
            with gpu_report.step(samples=1):
                pass
        empty_s = (time.perf_counter() - began_s) / EMPTY_STEPS
    print(
        f"{duration(summarise(plain_s).value).plain()} a step on {device}, {len(wall)} pairs of "
        f"{arguments.seconds:g} s"
    )
    for name, ratios in (("wall clock", wall), ("CPU time", cpu)):
        mean = summarise(ratios)
        print(
            f"{name:10} {ratio(mean.value, low=mean.low, high=mean.high).plain()} a step without "
            "step()"
        )
    print(f"step() around nothing: {duration(empty_s).plain()}")


if __name__ == "__main__":
    main()
