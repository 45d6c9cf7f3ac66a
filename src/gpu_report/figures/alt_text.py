"""What a figure shows in plain sentences, for those who cannot see it, made from its data.

rows (one per variant), tables -> how many of what, over which range -> the lowest and the highest,
or the largest parts
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pandas.api.types import is_numeric_dtype

from gpu_report.figures import labels
from gpu_report.glossary import device_words
from gpu_report.printing.number_format import count, quantity, share

if TYPE_CHECKING:
    import pandas as pd

    from gpu_report.figures.declaration import Shown
    from gpu_report.glossary import Metric

Sentence = Callable[["Shown"], str]
"""A sentence about the variants shown; empty where there is nothing to say."""

_MOST_NAMED: Final = 4
_MOST_PARTS: Final = 3


def variants_shown(rows: "pd.DataFrame", axis: str) -> str:
    """How many variants of which workloads, and from where to where on the axis: `4 configurations
    of U-Net, ...`.
    """
    titles = list(dict.fromkeys(rows["workload_title"].map(labels.printable)))
    named = ", ".join(titles[:_MOST_NAMED]) + (" and others" if len(titles) > _MOST_NAMED else "")
    variants = f"{count(len(rows)).plain()} configuration" + ("s" if len(rows) > 1 else "")
    values = list(dict.fromkeys(rows[axis].dropna())) if axis and axis != "workload" else []
    if len(values) < 2:
        return f"{variants} of {named}"
    if is_numeric_dtype(rows[axis]):
        lowest, highest = (
            labels.field_label(axis, min(values)),
            labels.value_label(axis, max(values)),
        )
        return f"{variants} of {named}, {lowest} to {highest}"
    if len(values) > _MOST_NAMED:
        return f"{variants} of {named}"
    return (
        f"{variants} of {named}: {', '.join(labels.field_label(axis, value) for value in values)}"
    )


def extremes_of(metric: "Metric", *, along: str = "") -> Sentence:
    """The lowest and the highest of a number; `along` names another axis than the experiment's."""
    return lambda shown: extremes(metric, shown.rows, along or shown.subject.axis)


def extremes(metric: "Metric", rows: "pd.DataFrame", axis: str) -> str:
    """Where a number is lowest and where it is highest."""
    rows = rows.assign(drawn=metric.intervals(rows)["value"]).dropna(subset="drawn")
    if rows.empty:
        return ""
    lowest, highest = (
        f"{quantity(row['drawn'], metric.drawn_unit).plain()} ({_name(row, axis)})"
        for row in (
            rows.iloc[position] for position in (rows["drawn"].argmin(), rows["drawn"].argmax())
        )
    )
    name = metric.label.partition(" over {")[0]
    return (
        f"{name} is {lowest}." if len(rows) == 1 else f"{name} reaches from {lowest} to {highest}."
    )


def range_in(table: str, column: str, *, what: str, unit: str, factor: float = 1.0) -> Sentence:
    """From where to where a column of a table reaches for the variants shown, or for all where the
    table names none.
    """

    def sentence(shown: "Shown") -> str:
        frame: pd.DataFrame = getattr(shown.tables, table)
        if "variant" in frame and len(shown.rows):
            frame = frame[frame["variant"].isin(shown.rows["variant"])]
        values = frame[column].dropna() * factor
        if values.empty:
            return ""
        low, high = (quantity(value, unit).plain() for value in (values.min(), values.max()))
        return f"{what} reach from {low} to {high}."

    return sentence


def largest_parts(table: str, part: str) -> Sentence:
    """The parts that take most of the time, on average over the variants shown."""

    def sentence(shown: "Shown") -> str:
        frame: pd.DataFrame = getattr(shown.tables, table)
        frame = frame[frame["variant"].isin(shown.rows["variant"])]
        if frame.empty:
            return ""
        summed = (
            frame.groupby(["variant", part])["share"].sum().groupby(part).sum()
            / frame["variant"].nunique()
        )
        return _parts(summed)

    return sentence


def largest_columns(table: str, columns: dict[str, str]) -> Sentence:
    """The same where each part has a column of its own, by the column's name and what it is
    called.
    """

    def sentence(shown: "Shown") -> str:
        frame: pd.DataFrame = getattr(shown.tables, table)
        frame = frame.loc[frame["variant"].isin(shown.rows["variant"]), list(columns)]
        return _parts(frame.mean().rename(columns).dropna()) if len(frame) else ""

    return sentence


def _parts(shares: "pd.Series[float]") -> str:
    if shares.empty:
        return ""
    largest = shares.sort_values(ascending=False, kind="stable")[:_MOST_PARTS]
    named = ", ".join(
        f"{labels.printable(str(part))} {share(value).plain()}" for part, value in largest.items()
    )
    return f"The largest parts are on average {named}."


def _name(row: "pd.Series[Any]", axis: str) -> str:
    """What distinguishes a variant from the others in its figure."""
    if "panel" not in row:
        return labels.joined(row["heading"], row["label"])
    device = device_words(row["device"])
    named = row["panel"] if device in row["panel"] else labels.joined(row["panel"], device)
    return labels.joined(named, labels.field_label(axis, row[axis])) if axis else str(named)
