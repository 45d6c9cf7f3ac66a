"""What our training loop costs: its throughput over that of a bare hand-written loop, on the same
workload.

`python -m benchmarks.loop_overhead --device cuda` (or cpu). Both loops train models of their own in
one process, epoch by epoch in turns, and which goes first alternates. The ratio is that of the
epochs pair by pair, with the interval of the report's statistics; 1 is no cost, and what the
project promises is 0.98.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch.utils.data import DataLoader

from benchmarks.trainings import SOURCES_SAMPLES, measurement_of, prepared_training, training_of
from gpu_report.measure.threads import training_threads
from gpu_report.measure.timing import synchronize
from gpu_report.measure.training import Training, train_epoch
from gpu_report.tables.statistics import ratio
from gpu_report.workloads.protocol import TrainingWorkload

Epoch = Callable[[], float]
"""Trains an epoch and returns the seconds it took."""


def bare_loop(workload: TrainingWorkload, *, batch_size: int, device: torch.device) -> Epoch:
    """The loop that a tutorial teaches, with nothing measured but the whole epoch."""
    torch.manual_seed(0)
    model = workload.build_model().to(device)
    optimizer = workload.build_optimizer(model)
    loader = DataLoader(workload.train_data(), batch_size=batch_size, shuffle=True)
    model.train()

    def epoch() -> float:
        synchronize(device)
        started = time.perf_counter()
        for batch in loader:
            inputs, target = (part.to(device) for part in batch)
            loss = workload.loss(model(inputs), target)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
        synchronize(device)
        return time.perf_counter() - started

    return epoch


def our_loop(training: Training) -> Epoch:

    def epoch() -> float:
        fields, _window_s = train_epoch(training, epoch=0, on_step=lambda _epoch, _step: None)
        wall_time_s: float = fields["wall_time_s"]
        return wall_time_s

    return epoch


def compare(name: str, *, device: torch.device, pairs: int) -> None:
    """Print the median epoch of both loops and the ratio of throughputs."""
    fields, samples = training_of(name, device.type)
    measurement = measurement_of(fields, device=str(device), samples=samples)
    # Ours first: it also sets the arithmetic, fp32 without TF32, in which both then compute.
    training = prepared_training(measurement)
    ours = our_loop(training)
    bare = bare_loop(training.workload, batch_size=measurement.variant.batch_size, device=device)
    times_s: dict[Epoch, list[float]] = {ours: [], bare: []}
    for pair in range(pairs + 1):
        for loop in (ours, bare) if pair % 2 else (bare, ours):
            took_s = loop()
            if pair:
                times_s[loop].append(took_s)
    our_s, bare_s = (statistics.median(times_s[loop]) for loop in (ours, bare))
    of_ours = ratio(dict(enumerate(times_s[bare])), dict(enumerate(times_s[ours])))
    print(
        f"{name:5} {samples / our_s:9.1f} samples/s ours, {samples / bare_s:9.1f} bare: ratio "
        f"{of_ours.value:.3f} ({of_ours.low:.3f} to {of_ours.high:.3f}, {pairs} pairs of epochs)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--workload", choices=SOURCES_SAMPLES, action="append", help="one of them alone"
    )
    parser.add_argument(
        "--pairs", type=int, default=31, help="epochs of each loop, after one of warm-up"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(training_threads())
    for name in arguments.workload or SOURCES_SAMPLES:
        compare(name, device=torch.device(arguments.device), pairs=arguments.pairs)


if __name__ == "__main__":
    main()
