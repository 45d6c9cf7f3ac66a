"""What is measured now, in a file beside a machine's results that `gpu-report watch` reads.

progress of a training -> about once a second one line of JSON, written by the process that waits
for it

The file is there while that process runs; one that was killed leaves it, so it names the process.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gpu_report.measure.run import OnProgress, Progress
from gpu_report.printing.number_format import duration, throughput
from gpu_report.storage.locks import RunningProcess
from gpu_report.study.variant import Variant

_FILE: Final = "measuring.host{}.json"
_INTERVAL_S: Final = 1.0

ToWatchers = Callable[[str, OnProgress], OnProgress]
"""Of a variant, what shows its progress to watchers besides."""


@dataclass(frozen=True, kw_only=True)
class MeasuringNow:
    """A configuration that a process measures, and how far it is, in words."""

    process: RunningProcess
    text: str


@contextmanager
def shown_to_watchers(machine_folder: Path, *, host: int) -> Iterator[ToWatchers]:
    """Inside, progress of a variant also goes into the file; what cannot be written is left out."""
    file, process = machine_folder / _FILE.format(host), RunningProcess.this()

    def write(text: str) -> None:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(asdict(MeasuringNow(process=process, text=text))), "utf-8")

    def about(slug: str, on_progress: OnProgress) -> OnProgress:
        write(f"{slug}: starting")
        due_s = time.monotonic()

        def show(progress: Progress) -> None:
            nonlocal due_s
            on_progress(progress)
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + _INTERVAL_S
                write(f"{slug}: {in_words(progress)}{_speed(slug, progress)}")

        return show

    try:
        yield about
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def measuring_now(machines: Path) -> MeasuringNow | None:
    """What a process on this host measures for one of the machines in the folder; None where
    nothing is.
    """
    for file in machines.glob(f"*/{_FILE.format('*')}"):
        with suppress(
            OSError, ValueError, TypeError, KeyError
        ):  # it is being written, or by another version
            found = json.loads(file.read_text("utf-8"))
            process = RunningProcess(**found["process"])
            if process.is_here:
                return MeasuringNow(process=process, text=str(found["text"]))
    return None


def in_words(progress: Progress) -> str:
    """Where a measurement is."""
    if progress.is_profiled:
        return "profiled run"
    run_text = f"process {progress.repetition + 1} of {progress.repetitions}"
    return f"{run_text}, epoch {progress.epoch + 1} of {progress.epochs}"


def _speed(slug: str, progress: Progress) -> str:
    if not progress.samples_per_s:
        return ""
    step_s = Variant.from_slug(slug).batch_size / progress.samples_per_s
    return f", {throughput(progress.samples_per_s).plain()}, {duration(step_s).plain()} a step"
