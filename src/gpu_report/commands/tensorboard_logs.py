"""The log directory that `tensorboard --logdir` shows: every variant as one run, side by side,
without torch.

records and traces -> folder/<variant>/ with an event file of scalars, the light trace, and the
rich one, from which torch-tb-profiler shows memory and modules

A run holds means over the variant's processes, so that each variant is one curve. Its clock is
training time: events lie where the epochs put them, building and evaluating left out, and
`Relative` compares devices by time spent. The same records give the same bytes.
"""

import math
import os
import shutil
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from gpu_report.glossary import PER_PROCESS
from gpu_report.records.record import Record
from gpu_report.storage.files import list_content, replaced_folder, write_errors
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import summarise

EVENT_FILE: Final = "events.out.tfevents.gpu_report"
"""TensorBoard takes every file for an event file whose name holds `tfevents`."""


def write_tensorboard_logs(
    records: Sequence[Record], trace_files: Mapping[str, Mapping[str, Path]], folder: Path
) -> None:
    """Replace the folder by one that holds these records, and the traces of each variant that has
    any, by the names that they get there.

    The traces are hard links where the file system allows them. A variant that was not measured to
    the end has no scalars.

    Raises:
        FileWriteError: the disk is full or the folder cannot be written; an existing folder is left
            as it was.
    """
    with write_errors(folder), replaced_folder(folder) as built:
        for record in records:
            of_variant = built / record.variant
            of_variant.mkdir()
            with (of_variant / EVENT_FILE).open("wb") as file:
                writer = RecordWriter(file)
                for event in _events(record):
                    writer.write(event.SerializeToString(deterministic=True))
            for name, trace_file in trace_files.get(record.variant, {}).items():
                target = of_variant / name
                try:
                    os.link(trace_file, target)
                except OSError:
                    shutil.copyfile(trace_file, target)
    list_content(folder)


def _events(record: Record) -> Iterator[Any]:
    began = (
        record.repetitions[0].started_at if record.repetitions else record.provenance.measured_at
    )
    began_s = datetime.fromisoformat(began).timestamp()
    yield Event(wall_time=began_s, file_version="brain.Event:2")
    for time_s, step, scalars in _scalars(record):
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        yield Event(wall_time=began_s + time_s, step=step, summary=Summary(value=values))


def _scalars(record: Record) -> Iterator[tuple[float, int, dict[str, float]]]:
    """(seconds of training, step, tag -> value): per step, per epoch, and the results once."""
    if record.status != "ok":
        return
    passed_s, steps_done = 0.0, 0
    # The first epoch of every process, the second of every process, and so on.
    by_number = zip(*(repetition.epochs for repetition in record.repetitions), strict=True)
    for number, epochs in enumerate(by_number):
        epoch_s = _mean(epoch.wall_time_s for epoch in epochs)
        losses = [
            _mean(values) for values in zip(*(epoch.train_losses for epoch in epochs), strict=True)
        ]
        for step, loss in enumerate(losses):
            yield (
                passed_s + epoch_s * (step + 1) / len(losses),
                steps_done + step,
                {"training/train_loss": loss},
            )
        passed_s, steps_done = passed_s + epoch_s, steps_done + len(losses)
        held_out = {
            name: [getattr(epoch, name) for epoch in epochs] for name in ("test_loss", "quality")
        }
        scalars = {
            f"training/{name}": _mean(found)
            for name, found in held_out.items()
            if None not in found
        }
        scalars["speed/epoch_wall_time_s"] = epoch_s
        scalars["speed/throughput_per_s"] = _mean(
            epoch.samples / epoch.wall_time_s for epoch in epochs
        )
        yield passed_s, number, scalars
    values = process_values(record)
    results = {
        name: summarise(values[name], scale=metric.scale) for name, metric in PER_PROCESS.items()
    }
    yield (
        passed_s,
        0,
        {f"result/{name}": result.value for name, result in results.items() if result.count},
    )


def _mean(values: Iterable[float]) -> float:
    """NaN, which TensorBoard marks, as soon as one value is not finite: that training diverged."""
    known = list(values)
    return statistics.fmean(known) if all(map(math.isfinite, known)) else math.nan
