"""What makes epochs vary on the host: threads, cores, and where the training set lies.

`python -m benchmarks.host_jitter` (an accelerator is needed) trains U-Net in bf16 and the LSTM,
with a loader and with the training set on the device. Within one process it goes through the
numbers of threads and cores in turns, forwards and backwards, and prints for each the median epoch
and the standard deviation of the epochs over their mean.
"""

import argparse
import os
import statistics
from collections.abc import Collection
from pathlib import Path
from typing import Final

import torch

from benchmarks.trainings import SOURCES_SAMPLES, measurement_of, prepared_training, training_of
from gpu_report.measure.training import Training, train_epoch
from gpu_report.study.machine import usable_cores

CORES: Final = usable_cores()
SETTINGS: Final = {
    f"{len(CORES)} threads, all cores": (len(CORES), CORES),
    "1 thread, all cores": (1, CORES),
    "4 threads, 8 cores": (4, CORES[:8]),
    "1 thread, 8 cores": (1, CORES[:8]),
    "1 thread, 2 cores": (1, CORES[:2]),
}


def run_on(cores: Collection[int]) -> None:
    """Keep every thread of this process on these cores; those that come later inherit them."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def build(name: str, *, device: str, options: str) -> Training:
    fields, samples = training_of(name, device)
    precision = "bf16" if name == "unet" else "fp32"
    return prepared_training(
        measurement_of(fields, device=device, samples=samples, options=options, precision=precision)
    )


def epochs_s(training: Training, *, rounds: int, epochs: int) -> dict[str, list[float]]:
    """Seconds of each timed epoch by setting; the first after a change of setting is not timed."""
    found: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for number in range(rounds):
        for name in SETTINGS if number % 2 else reversed(SETTINGS):
            threads, cores = SETTINGS[name]
            torch.set_num_threads(threads)
            run_on(cores)
            times_s = [
                train_epoch(training, epoch=0, on_step=lambda *_: None)[0]["wall_time_s"]
                for _ in range(1 + epochs)
            ]
            found[name] += times_s[1:]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=4, help="of each round and setting")
    arguments = parser.parse_args()
    for name in SOURCES_SAMPLES:
        for options in ("none", "resident"):
            training = build(name, device=arguments.device, options=options)
            found = epochs_s(training, rounds=arguments.rounds, epochs=arguments.epochs)
            for setting, times_s in found.items():
                spread = statistics.stdev(times_s) / statistics.fmean(times_s)
                median_ms = 1000 * statistics.median(times_s)
                print(
                    f"{name:5} {options:9} {setting:24} {median_ms:8.1f} ms, standard deviation "
                    f"{spread:.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
