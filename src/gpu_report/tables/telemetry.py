"""What the accelerator's driver told over the timed epochs, one row per sample."""

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from gpu_report.records import Record, Telemetry
from gpu_report.tables.schema import TELEMETRY
from gpu_report.tables.variants import in_reading_order

if TYPE_CHECKING:
    import pandas as pd

_SERIES: Final = ("utilisation_percent", "memory_used_mib", "power_w", "sm_clock_mhz", "temperature_c")


def tabulate_telemetry(records: Iterable[Record]) -> "pd.DataFrame":
    """The table TELEMETRY of every variant measured to the end; what a driver does not know is missing."""
    return TELEMETRY.from_rows(
        {"variant": record.variant, "repetition": repetition.index, **row}
        for record in in_reading_order(records)
        if record.status == "ok"
        for repetition in sorted(record.repetitions, key=lambda repetition: repetition.index)
        if repetition.telemetry
        for row in _rows(repetition.telemetry)
    )


def _rows(telemetry: Telemetry) -> Iterator[dict[str, Any]]:
    series: dict[str, list[float]] = {name: getattr(telemetry, name) for name in _SERIES}
    for sample, moment_s in enumerate(telemetry.moments_s):
        values = {name: samples[sample] if samples else math.nan for name, samples in series.items()}
        yield {"moment_s": moment_s, **values}
