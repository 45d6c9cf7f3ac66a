"""Numbers as they stand in a finding: from the one formatter, with interval and count where they are estimates."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gpu_report import number_format
from gpu_report.findings.estimate import Estimate, Row, estimate, is_paired, quality_change
from gpu_report.findings.finding import Evidence
from gpu_report.glossary import METRICS
from gpu_report.number_format import Quantity, is_range

_LEAST_PERCENT: Final = 0.1
_TINY: Final = Quantity(value=f"less than {_LEAST_PERCENT}", unit="%")
"""In place of hundredths and millionths of a per cent, which no one would use, and of a zero that is none."""

_LONGEST_REASON: Final = 200
"""Characters; a reason beyond is told by the appendix, which has it whole."""


def of_column(row: Row, column: str, *, short: bool = False) -> str:
    """A variant's figure with its unit, interval and count; `short` leaves out the words about them."""
    figure = estimate(row, column)
    show = METRICS[column].show
    is_tiny = show is number_format.share and 0 < 100 * figure.value < _LEAST_PERCENT / 2
    quantity = _TINY if is_tiny else show(figure.value, low=figure.low, high=figure.high)
    return _with_interval(quantity, figure, short=short)


def times(figure: Estimate, *, short: bool = False) -> str:
    """A factor, as in '12.3 times (95 % interval 11.9 to 12.8, 3 processes)'."""
    quantity = number_format.ratio(figure.value, low=figure.low, high=figure.high)
    return _with_interval(
        Quantity(value=quantity.value, low=quantity.low, high=quantity.high, unit="times"), figure, short=short
    )


def percent(figure: Estimate, *, short: bool = False) -> str:
    """An estimate that is in per cent already."""
    return _with_interval(number_format.percent(figure.value, low=figure.low, high=figure.high), figure, short=short)


def percent_alone(value: float) -> str:
    """A number in per cent that has no interval."""
    tiny = 0 < value < _LEAST_PERCENT / 2
    return (_TINY if tiny else number_format.percent(value)).plain()


def share(value: float) -> str:
    """A share of the whole that has no interval, in per cent."""
    return number_format.share(value).plain()


def factor_alone(value: float) -> str:
    """A factor that has no interval, as in '1.2 times'."""
    return f"{number_format.ratio(value).plain(unit=False)} times"


def mebibytes(value: float) -> str:
    """A size that has no interval, which comes in MiB."""
    return number_format.memory(value).plain()


def size(value: int) -> str:
    """A size of a copy, which comes in bytes."""
    return number_format.size(value).plain()


def seconds(value: float) -> str:
    """A time that has no interval."""
    return number_format.duration(value).plain()


def change_by_seed(row: Row, before: Row, *, short: bool = True) -> str:
    """What quality changed by, where processes of the same seeds tell it; else empty."""
    if not is_paired(row, before):
        return ""
    change = quality_change(row, before)
    return _with_interval(number_format.quantity(change.value, low=change.low, high=change.high), change, short=short)


def number(value: float) -> str:
    """A plain number that has no interval, for instance a level of chance."""
    return number_format.quantity(value).plain()


def count(value: float) -> str:
    """A whole number, all digits."""
    return number_format.count(value).plain()


def why_no_numbers(row: Row) -> str:
    """What became of a variant that was not measured: where memory ran out what was asked and what there was.

    PyTorch's own message stays in the record and in the appendix: it is a paragraph of advice.
    """
    if row["status"] == "oom":
        asked = memory_asked(row)
        return f"out of memory: {asked}" if asked else "out of memory"
    reason = " ".join(str(row["reason"]).split())
    return (
        f"{row['status']}: {textwrap.shorten(reason, _LONGEST_REASON, placeholder=' …')}" if reason else row["status"]
    )


def memory_asked(row: Row, *, short: bool = False) -> str:
    """What a variant asked for when memory ran out, and what there was; empty where that is not told."""
    asked, free, total = (
        float(row.get(column, math.nan)) for column in ("memory_asked_mib", "memory_free_mib", "device_memory_mib")
    )
    if math.isnan(asked):
        return ""
    there = "" if math.isnan(total) else f" of the device's {mebibytes(total)}"
    if math.isnan(free):
        return f"asked for {mebibytes(asked)} more" + (f"; the device has {mebibytes(total)}" if there else "")
    if short:
        return f"asked for {mebibytes(asked)} more, {mebibytes(free)} free"
    return f"asked for {mebibytes(asked)} more where {mebibytes(free)}{there} were free"


def how_many(chosen: int, total: int, noun: str) -> str:
    """A part of a number of things, as in '2 of 7 variants' or 'all 7 variants'."""
    if chosen == total:
        return {1: f"the one {noun}", 2: f"both {noun}s"}.get(total, f"all {total} {noun}s")
    return f"{chosen or 'none'} of {total} {noun}s"


def more_traces_do_not_tell(count: int) -> str:
    """A sentence, with the space before it, about traces that do not tell something; empty without any."""
    if not count:
        return ""
    return f" {'One more trace does' if count == 1 else f'{count} more traces do'} not tell it reliably."


def evidence(label: str, value: str, table: str, row: Row) -> Evidence:
    """One number behind a verdict, with the variant it belongs to."""
    return Evidence(label=label, value=value, table=table, variant=row["variant"])


def evidence_of_columns(
    rows: Sequence[Row], columns: Mapping[str, str], table: str, *, first: Iterable[Row] = ()
) -> tuple[Evidence, ...]:
    """The figures of some variants, those that decide `first`; `columns` maps each column to its label."""
    decisive = list({id(row): row for row in first if row in rows}.values())
    return tuple(
        evidence(label, of_column(row, column), table, row)
        for row in [*decisive, *(row for row in rows if row not in decisive)]
        for column, label in columns.items()
        if not math.isnan(row[column])
    )


def _with_interval(quantity: Quantity, figure: Estimate, *, short: bool) -> str:
    text = quantity.plain(interval=False)
    if not quantity.is_measured:
        return text
    bounds = f"{quantity.low} to {quantity.high}" if quantity.has_interval else ""
    name = "range" if is_range(figure.processes) else "" if short else "95 % interval"
    interval = f"{name} {bounds}".strip() if bounds else ""
    if short:
        return f"{text} ({interval})" if interval else text
    told = ([interval] if interval else []) + _processes(figure.processes)
    return f"{text} ({', '.join(told)})" if told else text


def _processes(count: int) -> list[str]:
    return {0: [], 1: ["1 process"]}.get(count, [f"{count} processes"])
