"""Numbers in the words of an answer, by the one formatter, with interval and count where they are
estimates.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gpu_report.answers.estimate import Estimate, estimate, is_paired, quality_change
from gpu_report.answers.finding import Evidence
from gpu_report.glossary import METRICS, THROUGHPUT, TOKENS, Row
from gpu_report.printing import number_format
from gpu_report.printing.number_format import Quantity

CPU: Final = "cpu"

_LEAST_PERCENT: Final = 0.1
_TINY: Final = Quantity(value=f"less than {_LEAST_PERCENT}", unit="%")
"""In place of millionths of a per cent, which no one would use, and of nonzero values that would
round to 0.
"""


def shown(row: Row, column: str, *, short: bool = False) -> str:
    """A variant's figure with its unit, interval and count; `short` leaves out the words about
    them. The throughput of a language model is in tokens.
    """
    if column == THROUGHPUT.column and math.isfinite(row.get(TOKENS.column, math.nan)):
        column = TOKENS.column
    if f"{column}_count" not in row:
        # A cell that has no interval.
        value = row[column]
        if isinstance(value, str):
            return value
        if column in METRICS:
            return METRICS[column].show(value).plain()
        if column.endswith("_share"):
            return number_format.share(value).plain()
        return (number_format.count if isinstance(value, int) else number_format.quantity)(
            value
        ).plain()
    figure = estimate(row, column)
    show = METRICS[column].show
    is_tiny = show is number_format.share and 0 < 100 * figure.value < _LEAST_PERCENT / 2
    quantity = _TINY if is_tiny else show(figure.value, low=figure.low, high=figure.high)
    return _with_interval(quantity, figure, short=short)


def times(figure: Estimate, *, short: bool = False) -> str:
    """A factor, as in '12.3 times (95 % interval 11.9 to 12.8, 3 processes)'."""
    quantity = number_format.ratio(figure.value, low=figure.low, high=figure.high)
    return _with_interval(
        Quantity(value=quantity.value, low=quantity.low, high=quantity.high, unit="times"),
        figure,
        short=short,
    )


def as_share(figure: Estimate, *, short: bool = False) -> str:
    """A share of the whole, in per cent."""
    return _with_interval(
        number_format.share(figure.value, low=figure.low, high=figure.high), figure, short=short
    )


def percent_alone(value: float) -> str:
    """A number in per cent that has no interval."""
    tiny = 0 < value < _LEAST_PERCENT / 2
    return (_TINY if tiny else number_format.percent(value)).plain()


def factor_alone(value: float) -> str:
    """A factor that has no interval, as in '1.2 times'."""
    return f"{number_format.ratio(value).plain(unit=False)} times"


def change_by_seed(row: Row, before: Row, *, short: bool = True) -> str:
    """What quality changed by, where there are processes of the same seeds; else empty."""
    if not is_paired(row, before):
        return ""
    change = quality_change(row, before)
    return _with_interval(
        number_format.quantity(change.value, low=change.low, high=change.high), change, short=short
    )


def how_many(chosen: int, total: int, noun: str) -> str:
    """A part of a number of things, as in '2 of 7 variants' or 'all 7 variants'."""
    if chosen == total:
        return {1: f"the one {noun}", 2: f"both {noun}s"}.get(total, f"all {total} {noun}s")
    return f"{chosen or 'none'} of {total} {noun}s"


def evidence(label: str, value: str, table: str, row: Row) -> Evidence:
    """One number behind a verdict, with the variant it belongs to."""
    return Evidence(label=label, value=value, table=table, variant=row["variant"])


def evidence_of_columns(
    rows: Sequence[Row], columns: Mapping[str, str], table: str, *, first: Iterable[Row] = ()
) -> tuple[Evidence, ...]:
    """The figures of some variants, those that decide `first`; `columns` maps each column to its
    label.
    """
    decisive = list({id(row): row for row in first if row in rows}.values())
    return tuple(
        evidence(label, shown(row, column), table, row)
        for row in [*decisive, *(row for row in rows if row not in decisive)]
        for column, label in columns.items()
        if not math.isnan(row.get(column, math.nan))
    )


def _with_interval(quantity: Quantity, figure: Estimate, *, short: bool) -> str:
    text = quantity.plain(interval=False)
    if not quantity.is_measured:
        return text
    bounds = quantity.plain_bounds
    if short:
        return f"{text} ({bounds})" if bounds else text
    interval = f"95 % interval {bounds}" if bounds else ""
    processes = {0: "", 1: "1 process"}.get(figure.count, f"{figure.count} processes")
    details = ", ".join(part for part in (interval, processes) if part)
    return f"{text} ({details})" if details else text
