"""Cells of the tables in the text: numbers through the one formatter, one unit per column, aligned at the point."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_report import number_format
from gpu_report.errors import GpuReportError
from gpu_report.number_format import Quantity
from gpu_report.writing.tex import Tex, escape

Row = Mapping[str, Any]
"""One row of a table of the study, by column name."""

EMPTY: Final = Tex("")
NOTHING: Final = Tex(r"\textendash{}")
"""What stands in a cell that has no number; the row or the note says why."""

_MEMORY_SHOWN_IN_GIB_FROM_MIB: Final = 10 * 1024


class UnknownMetricError(GpuReportError):
    """A template asks for a number that the tables do not have."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number as it is set, with its interval for the line below; both without unit, which the header has."""

    value: Tex
    interval: Tex = EMPTY


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure of the tables as it is shown to readers.

    `column` has the number, `<column>_low` and `<column>_high` its interval; `key` is its name in numbers.tex.
    """

    key: str
    column: str
    header: str
    meaning: str
    show: Callable[..., Quantity]
    column_unit: Callable[[Sequence[float]], str] = lambda _: ""

    def quantity(self, row: Row, *, unit: str = "") -> Quantity:
        """The number of that row with its interval, in a fixed unit where one is given."""
        bounds = {
            bound: float(row[f"{self.column}_{bound}"]) for bound in ("low", "high") if f"{self.column}_{bound}" in row
        }
        options = {"unit": unit} if unit else {}
        return self.show(float(row[self.column]), **bounds, **options)

    def is_in(self, rows: Sequence[Row]) -> bool:
        """Whether any of the rows has this number."""
        return any(self.column in row and math.isfinite(row[self.column]) for row in rows)

    def unit(self, rows: Sequence[Row]) -> str:
        """The unit of a column that holds these rows; empty for a number without one."""
        measured = [float(row[self.column]) for row in rows if math.isfinite(row[self.column])]
        chosen = self.column_unit(measured)
        return chosen or next((self.quantity(row).unit for row in rows if self.quantity(row).is_measured), "")

    def cells(self, rows: Sequence[Row]) -> list[Cell]:
        """One cell per row, in one unit and aligned at the decimal point."""
        fixed = self.column_unit([float(row[self.column]) for row in rows if math.isfinite(row[self.column])])
        return aligned([self.quantity(row, unit=fixed) for row in rows])


def aligned(quantities: Sequence[Quantity]) -> list[Cell]:
    """Numbers of one column, the same room after the point for each; right-aligned, their points stand in line."""
    room = max((_digits_after_point(quantity.value) for quantity in quantities if quantity.is_measured), default=0)
    return [_cell(quantity, room) for quantity in quantities]


def _cell(quantity: Quantity, room: int) -> Cell:
    if not quantity.is_measured:
        return Cell(value=NOTHING)
    value = Tex(quantity.tex(interval=False, unit=False))
    if not quantity.has_interval:
        return Cell(value=value + _filler(quantity.value, room))
    low, high = (
        Tex(number_format.Quantity(value=bound).tex(interval=False)) for bound in (quantity.low, quantity.high)
    )
    return Cell(value=value + _filler(quantity.value, room), interval=Tex("{[}") + low + ", " + high + Tex("{]}"))


def _filler(text: str, room: int) -> Tex:
    digits = _digits_after_point(text)
    if digits == room or "e" in text:
        return Tex("")
    return Tex(rf"\phantom{{{'' if digits else '.'}{'0' * (room - digits)}}}")


def _digits_after_point(text: str) -> int:
    return 0 if "e" in text else len(text.partition(".")[2])


def _time_unit_of_ms(milliseconds: Sequence[float]) -> str:
    return "s" if milliseconds and min(milliseconds) >= 1000 else "ms"


def _memory_unit(mebibytes: Sequence[float]) -> str:
    return "GiB" if mebibytes and min(mebibytes) >= _MEMORY_SHOWN_IN_GIB_FROM_MIB else "MiB"


def _time_ms(
    milliseconds: float, *, low: float = math.nan, high: float = math.nan, unit: str | None = None
) -> Quantity:
    return number_format.duration(milliseconds / 1000, low=low / 1000, high=high / 1000, unit=unit)


def _seconds(values: Sequence[float]) -> str:
    return "s" if not values or max(values) >= 1 else "ms"


METRICS: Final[Mapping[str, Metric]] = {
    metric.key: metric
    for metric in (
        Metric(
            key="parameters",
            column="parameters",
            header="parameters",
            meaning="trainable parameters",
            show=number_format.count,
        ),
        Metric(
            key="step_time",
            column="step_time_ms",
            header="step time",
            meaning="time of one training step",
            show=_time_ms,
            column_unit=_time_unit_of_ms,
        ),
        Metric(
            key="throughput",
            column="throughput_per_s",
            header="throughput",
            meaning="training samples per second",
            show=number_format.throughput,
        ),
        Metric(
            key="epoch_time",
            column="epoch_time_s",
            header="epoch time",
            meaning="wall time of one pass over the whole training set",
            show=number_format.duration,
            column_unit=_seconds,
        ),
        Metric(
            key="speedup",
            column="speedup",
            header="speedup",
            meaning="throughput over that of the baseline",
            show=number_format.ratio,
        ),
        Metric(
            key="time_reduction",
            column="time_reduction_percent",
            header="time saved",
            meaning="training time saved against the baseline",
            show=number_format.percent,
        ),
        Metric(
            key="first_epoch_ratio",
            column="first_epoch_ratio",
            header="first epoch",
            meaning="wall time of the first epoch over that of a later one",
            show=number_format.ratio,
        ),
        Metric(
            key="memory",
            column="memory_peak_mib",
            header="peak memory",
            meaning="highest memory use of the training process",
            show=number_format.memory,
            column_unit=_memory_unit,
        ),
        Metric(
            key="quality",
            column="quality",
            header="quality",
            meaning="quality on held-out samples after the last epoch",
            show=number_format.quantity,
        ),
        Metric(
            key="test_loss",
            column="test_loss",
            header="held-out loss",
            meaning="loss on held-out samples after the last epoch",
            show=number_format.quantity,
        ),
        Metric(
            key="data_wait",
            column="data_wait_share",
            header="data wait",
            meaning="share of the time in which training waits for data",
            show=number_format.share,
        ),
        Metric(
            key="profile_overhead",
            column="profile_overhead",
            header="with profiler",
            meaning="step time with the profiler on over the step time without it",
            show=number_format.ratio,
        ),
    )
}
"""Every number a table in the text can show, by the key that templates and numbers.tex use."""


def unit_text(unit: str) -> Tex:
    """A unit as it stands in a header."""
    return escape(unit)
