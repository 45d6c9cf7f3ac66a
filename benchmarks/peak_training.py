"""How fast the best configurations train at the sources' own sizes: seconds for 5 epochs, beside
the eager baseline.

`python -m benchmarks.peak_training` on a machine with an NVIDIA GPU. U-Net trains on 500 pictures
of 128x128 in batches of 16, the LSTM on 2000 texts in batches of 64. The time is five times the
timed epoch of a record, so the first epoch, compiling and capturing are left out; they are printed
beside it.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.trainings import LSTM, SOURCES_SAMPLES, UNET, measurement_of
from gpu_report.glossary import METRICS, QUALITY
from gpu_report.measure.variant_run import measure_variant
from gpu_report.records.record import Record
from gpu_report.tables.processes import preparation_cold_s, process_values
from gpu_report.tables.statistics import summarise

EPOCHS: Final = 5
PLAIN: Final = ("fp32", "none")
LADDERS: Final[dict[str, list[tuple[str, str]]]] = {
    "unet": [
        PLAIN,
        ("bf16", "autotune+channelslast+fused+resident"),
        ("bf16", "autotune+channelslast+fused+resident+graphs"),
        ("bf16", "autotune+channelslast+fused+resident+graphs+compile"),
    ],
    "lstm": [
        PLAIN,
        ("tf32", "fused+resident"),
        ("tf32", "fused+resident+graphs"),
        ("bf16", "fused+resident+graphs"),
    ],
}
"""Precision and options; the best of each workload is what the epochs decide."""


def measure(fields: dict[str, Any], *, device: str, precision: str, options: str) -> Record:
    name = fields["workload"]
    measurement = measurement_of(
        fields,
        device=device,
        samples=SOURCES_SAMPLES[name],
        test_samples=512 if name == "lstm" else 64,
        epochs=EPOCHS,
        precision=precision,
        options=options,
    )
    with tempfile.TemporaryDirectory() as folder:
        return measure_variant(
            measurement, machine="benchmark", trace_folder=Path(folder) / "trace"
        )


def show(record: Record) -> None:
    if record.status != "ok":
        print(f"{record.variant}: {record.status}, {record.reason}", flush=True)
        return
    values = process_values(record)
    epoch, quality = (
        summarise(values[metric.column], scale=metric.scale)
        for metric in (METRICS["epoch_time_s"], QUALITY)
    )
    print(
        f"{record.variant}: {EPOCHS * epoch.value:.3f} s ({EPOCHS * epoch.low:.3f} to "
        f"{EPOCHS * epoch.high:.3f}), {quality.value:.3f} held out ({quality.low:.3f} to "
        f"{quality.high:.3f}), prepared in {preparation_cold_s(record):.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workload", choices=LADDERS, action="append", help="one of them alone")
    arguments = parser.parse_args()
    for fields in (UNET, LSTM):
        if arguments.workload and fields["workload"] not in arguments.workload:
            continue
        for precision, options in LADDERS[str(fields["workload"])]:
            show(measure(fields, device=arguments.device, precision=precision, options=options))


if __name__ == "__main__":
    main()
