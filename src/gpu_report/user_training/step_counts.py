"""What a watched script reports of its steps while it runs: counts in a file, which `gpu-report
watch` names and reads.

`gpu_report.step()` in the script -> about once a second one line of JSON, over the last one ->
`gpu-report watch`
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec

COUNTS_FILE: Final = "GPU_REPORT_STEP_COUNTS"
"""The environment variable with the file's path; a script that finds none reports nothing."""

LINE_TO_ADD: Final = "with gpu_report.step():"

_MOST_SIZES: Final = 4
"""A loader may give every step another, and some have to be timed."""
_LINE_BYTES: Final = 512
"""One write of this length replaces the whole line, so the reader never sees half of it and never
reads more.
"""
_LARGEST: Final = 1e15
"""No clock or counter reaches this, and every quotient of two numbers below it is finite."""


@dataclass(frozen=True, kw_only=True)
class StepCounts:
    """Sums since the first step; the watcher takes differences."""

    moment_s: float
    """On time.monotonic, which all processes share."""
    steps: int
    samples: float
    """0 where the script does not give them."""
    waited_s: float
    """Between the end of each step and the beginning of the next."""
    device_uuid: str = ""
    on_accelerator: bool = False
    """Which may still work while the script waits between two steps."""


class BatchSizes:
    """The first few numbers of samples that steps have had."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def add(self, samples: int) -> bool:
        """Whether the step is warm-up: the first with a further size, which may allocate or
        compile.
        """
        if samples in self._known or len(self._known) == _MOST_SIZES:
            return False
        self._known.add(samples)
        return len(self._known) > 1


def rates(before: StepCounts, after: StepCounts) -> dict[str, float]:
    """What happened between two counts, by name: time of a step, the share of it that the script
    waited between two of them, and samples per second where the script gives samples.

    Empty if no step has ended in between, or if another watch has started counting.
    """
    steps, passed_s = after.steps - before.steps, after.moment_s - before.moment_s
    if steps <= 0 or passed_s <= 0 or after.waited_s < before.waited_s:
        return {}
    found = {
        "step_time_ms": passed_s / steps * 1e3,
        "data_wait_share": min((after.waited_s - before.waited_s) / passed_s, 1.0),
    }
    if after.samples > before.samples:
        found["throughput_per_s"] = (after.samples - before.samples) / passed_s
    return found


class CountsWriter:
    """Writes into the file that the environment names; what cannot be written is left out, and
    training goes on.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._path = environment.get(COUNTS_FILE, "")

    def __call__(self, counts: StepCounts) -> None:
        if not self._path:
            return
        line = json.dumps(asdict(counts)).ljust(_LINE_BYTES)
        with suppress(OSError):
            file = os.open(self._path, os.O_WRONLY)  # only where the watcher has made it
            try:
                os.pwrite(file, line.encode("ascii"), 0)
            finally:
                os.close(file)


def read_counts(path: Path) -> StepCounts | None:
    """What the script wrote last; None if it marked no step, ended before it could write, or wrote
    anything else.
    """
    try:
        with path.open("rb") as file:
            found = msgspec.json.decode(file.read(_LINE_BYTES), type=StepCounts)
    except (OSError, ValueError):
        return None
    numbers = [value for value in asdict(found).values() if not isinstance(value, str)]
    return found if 0 <= min(numbers) <= max(numbers) < _LARGEST else None
