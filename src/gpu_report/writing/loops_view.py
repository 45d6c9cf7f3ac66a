"""What the text shows of a workload's own loops: a pass over its points, and what was learnt.

experiment's rows + own_loops -> LoopsView -> tables
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from gpu_report import number_format
from gpu_report.glossary import METRICS, PASS, Metric, Row, time_in
from gpu_report.number_format import count
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.writing.fields import Field, text_field
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import Tex, escape
from gpu_report.writing.words import device_words, marks_of, status_words, value_words

_NUMBERS: Final = (
    *("training_ms", "pass_us", "work_per_pass", "bytes_per_point", "floor_us", "times_floor"),
    "reference_error",
)


def _time_of_pass(column: str, header: str) -> Metric:
    return Metric(column=column, header=header, show=time_in(1e6), column_unit=lambda _: "µs")


_WORK: Final = Metric(column="work_per_pass", header="launches per iteration")
_BYTES: Final = Metric(column="bytes_per_point", header="bytes per point")
_FLOOR: Final = _time_of_pass("floor_us", "bound")
_TIMES_FLOOR: Final = Metric(column="times_floor", header="times the bound", show=number_format.ratio)
_ERROR: Final = Metric(column="reference_error", header="relative error")


@dataclass(frozen=True, kw_only=True)
class LoopsView:
    """One experiment on one machine; `rows` are those of its table. Empty where its workloads bring no loops."""

    label: str
    rows: tuple[Row, ...]
    tables: Tables
    csv_path: Callable[[str], str]

    @cached_property
    def measured(self) -> list[Row]:
        """The experiment's rows that were measured, with what the table of loops says of each."""
        found = {row["variant"]: row for row in rows_of(self.tables.own_loops)}
        return [{**row, **found[row["variant"]]} for row in self.rows if row["variant"] in found]

    @property
    def passes(self) -> str:
        """Of one training, in words; several where they differ."""
        return _range(self.measured, "passes")

    @property
    def points(self) -> str:
        """Training samples, in words; the least and the most where they differ."""
        return _range(self.measured, "points")

    def times_table(self) -> TableBlock:
        """Time, launches, bytes and floor of a pass and the error, by loop; what was skipped has its reason."""
        nothing = dict.fromkeys(
            (*_NUMBERS, "training_ms_low", "training_ms_high", "pass_us_low", "pass_us_high"), math.nan
        )
        found = {row["variant"]: row for row in self.measured}
        rows = [found.get(row["variant"], {**row, **nothing}) for row in self.rows]
        return self._laid_out(
            rows,
            name="times",
            caption=f"Time of an iteration by loop: trainings of {self.passes} iterations over {self.points} points.",
            fields=_told_apart(rows),
            metrics=[METRICS["training_ms"], PASS, _WORK, _BYTES, _FLOOR, _TIMES_FLOOR, _ERROR],
            source="own_loops",
            missing=_why_missing,
            notes=_without_floor(rows),
        )

    def sizes_table(self) -> TableBlock:
        """Time of a pass by number of points, and how often they could have been read meanwhile."""
        rows = self.measured
        loops = list(dict.fromkeys(map(_loop, rows)))
        return self._laid_out(
            sorted(rows, key=lambda row: (loops.index(_loop(row)), row["points"])),
            name="sizes",
            caption=f"Time of an iteration by points: trainings of {self.passes} iterations.",
            fields=_told_apart(rows, always_points=True),
            metrics=[PASS, _WORK, _READINGS, _ERROR],
            source="own_loops",
            group=_loop,
        )

    def _laid_out(
        self,
        rows: Sequence[Row],
        *,
        name: str,
        caption: str,
        fields: Sequence[Field],
        metrics: Sequence[Metric],
        source: str,
        missing: Callable[[Row], str] = lambda _: "",
        notes: Sequence[Tex] = (),
        group: Callable[[Row], object] = lambda row: row["device"],
    ) -> TableBlock:
        several = len({row["device"] for row in rows}) > 1
        return lay_out(
            rows,
            name=f"{self.label}_{name}",
            caption=escape(caption),
            fields=fields,
            metrics=metrics,
            group=group,
            heading=lambda row: _capitalized(device_words(row["device"])) if several else "",
            missing=missing,
            marks=lambda row: [mark for mark in marks_of(row) if mark != "projected"],
            notes=[*notes, *_on_bounds(rows)],
            source=self.csv_path(source),
        )


def _loop(row: Row) -> tuple[str, str, str]:
    return row["device"], row["workload"], row["optimization"]


def _told_apart(rows: Sequence[Row], *, always_points: bool = False) -> list[Field]:
    """The loop, and what else differs between rows: the workload, the number of points."""
    workloads, sizes = ({row[column] for row in rows} for column in ("workload_title", "batch_size"))
    return [
        *([text_field("workload", "workload_title")] if len(workloads) > 1 else []),
        _LOOP,
        *([_POINTS] if always_points or len(sizes) > 1 else []),
    ]


def _on_bounds(rows: Sequence[Row]) -> list[Tex]:
    bounds = any(row.get("is_bound") for row in rows)
    return [escape("The bound leaves most of the work out and is no training.")] if bounds else []


def _without_floor(rows: Sequence[Row]) -> list[Tex]:
    """Which devices are without any floor, where others have one."""
    measured = [row for row in rows if row["status"] == "ok"]
    known = {row["device"] for row in measured if not math.isnan(row["floor_us"])}
    unknown = [device_words(device) for device in sorted({row["device"] for row in measured} - known)]
    if not known or not unknown:
        return []
    devices = ", ".join(unknown)
    return [escape(f"No bound is known on {devices}: not calibrated, or the work of an iteration was not counted.")]


def _why_missing(row: Row) -> str:
    """What became of a row, and why it was skipped."""
    return f"{status_words(row)}: {row['reason']}" if row["status"] == "skipped" else status_words(row)


def _range(rows: Sequence[Row], column: str) -> str:
    numbers = sorted({int(row[column]) for row in rows})
    if not numbers:
        return "no"
    ends = [count(number).plain() for number in (numbers[0], numbers[-1])]
    return ends[0] if len(numbers) == 1 else f"{ends[0]} to {ends[1]}"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


_LOOP: Final = Field(
    header="loop", text=lambda row: value_words("optimization", row["optimization"]), longest=100, parts_at=40
)
_POINTS: Final = Field(header="points", text=lambda row: count(row["batch_size"]).plain(), is_number=True)
_READINGS: Final = Metric(column="readings", header="equivalent full reads", show=number_format.ratio)
