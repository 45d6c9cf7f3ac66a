"""What asking the driver about the device costs the training: throughput with telemetry over
throughput without.

`python -m benchmarks.telemetry_cost` on a machine with an NVIDIA GPU. One training goes on epoch by
epoch; during every other one a second process asks the driver as often as in a measurement, where
the process that waits does so. The ratio is that of the epochs pair by pair, with the interval of
the report's statistics; 1 is no cost.
"""

import argparse
import multiprocessing
import statistics
from multiprocessing.connection import Connection
from typing import Any

import torch

from benchmarks.loop_overhead import our_loop
from benchmarks.trainings import SOURCES_SAMPLES, measurement_of, prepared_training, training_of
from gpu_report.measure.telemetry import PERIOD_S, DeviceWatch, nvidia_devices
from gpu_report.measure.threads import training_threads
from gpu_report.tables.statistics import ratio


def sample_on_request(uuid: str, period_s: float, pipe: Connection) -> None:
    """Sample from each `True` on until the `False` after it, and answer each; end with `None`."""
    with nvidia_devices() as devices:
        pipe.send(bool(devices))
        watch: DeviceWatch | None = None
        while (begin := pipe.recv()) is not None:
            if begin:
                watch = DeviceWatch(devices, period_s=period_s)
                watch.begin(uuid)
            elif watch:
                watch.end()
            pipe.send(True)


def compare(
    name: str, pipe: Connection, *, device: torch.device, pairs: int, **changes: Any
) -> None:
    """Print the throughput with and without telemetry and their ratio; `changes` are more fields of
    the variant.
    """
    fields, samples = training_of(name, device.type)
    measurement = measurement_of(fields, device=str(device), samples=samples, **changes)
    epoch = our_loop(prepared_training(measurement))
    epoch()
    times_s: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(pairs):
        for is_watched in (True, False) if pair % 2 else (False, True):
            pipe.send(is_watched)
            pipe.recv()
            times_s[is_watched].append(epoch())
    pipe.send(False)
    pipe.recv()
    watched_s, alone_s = statistics.median(times_s[True]), statistics.median(times_s[False])
    watched = ratio(dict(enumerate(times_s[False])), dict(enumerate(times_s[True])))
    print(
        f"{name:5} {samples / watched_s:9.1f} samples/s with telemetry, {samples / alone_s:9.1f} "
        f"without: ratio {watched.value:.4f} ({watched.low:.4f} to {watched.high:.4f}, {pairs} "
        "pairs of epochs)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--options", default="none")
    parser.add_argument(
        "--pairs", type=int, default=41, help="epochs with telemetry, and as many without"
    )
    parser.add_argument(
        "--period", type=float, default=PERIOD_S, help="seconds from one sample to the next"
    )
    parser.add_argument(
        "--workload", choices=SOURCES_SAMPLES, action="append", help="one of them alone"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(training_threads())
    device = torch.device(arguments.device)
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    pipe, its_pipe = multiprocessing.Pipe()
    asking = multiprocessing.get_context("spawn").Process(
        target=sample_on_request, args=(uuid, arguments.period, its_pipe), daemon=True
    )
    asking.start()
    if not pipe.recv():
        raise SystemExit("there is no NVIDIA device, or nvidia-ml-py is not installed")
    for name in arguments.workload or SOURCES_SAMPLES:
        fields = {"precision": arguments.precision, "options": arguments.options}
        compare(name, pipe, device=device, pairs=arguments.pairs, **fields)
    pipe.send(None)
    asking.join()


if __name__ == "__main__":
    main()
