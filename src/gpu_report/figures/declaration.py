"""What a figure declares beside the function that draws it, the figures that this gives of tables,
and what each shows in plain sentences, for those who cannot see it.

Shown (an experiment or the study) -> variant_figure, with what a figure declares -> rows (one per
variant) -> pages -> FigureSpec -> Figure
"""

from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from itertools import chain, groupby
from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure
from pandas.api.types import is_numeric_dtype

from gpu_report.figures import labels
from gpu_report.figures.style import figure_bytes, report_style
from gpu_report.glossary import AXES, Metric, device_words
from gpu_report.printing.number_format import counted, quantity, share
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.tables.efficiency import compares_own_loops
from gpu_report.words import listed, model_words

Sentence = Callable[["Shown"], str]
"""A sentence about the variants shown; empty where there is nothing to say."""

_MOST_NAMED: Final = 4


def variants_shown(rows: pd.DataFrame, axis: str) -> str:
    """How many variants of which workloads, and from where to where on the axis: `4 configurations
    of U-Net, ...`.
    """
    titles = list(dict.fromkeys(rows["workload_title"].map(labels.printable)))
    others = " and others" if len(titles) > _MOST_NAMED else ""
    shown = f"{counted(len(rows), 'configuration')} of {', '.join(titles[:_MOST_NAMED])}{others}"
    values = list(dict.fromkeys(rows[axis].dropna())) if axis and axis != "workload" else []
    named = [labels.field_label(axis, value) for value in values]
    if len(values) > 1 and is_numeric_dtype(rows[axis]):
        return (
            f"{shown}, {labels.field_label(axis, min(values))} to "
            f"{labels.value_label(axis, max(values))}"
        )
    return f"{shown}: {', '.join(named)}" if 1 < len(named) <= _MOST_NAMED else shown


def extremes_of(metric: Metric, *, along: str = "") -> Sentence:
    """The lowest and the highest of a number; `along` names another axis than the experiment's."""
    return lambda shown: extremes(metric, shown.rows, along or shown.axis)


def extremes(metric: Metric, rows: pd.DataFrame, axis: str) -> str:
    """Where a number is lowest and where it is highest."""
    rows = rows.assign(drawn=metric.intervals(rows)["value"]).dropna(subset="drawn")
    if rows.empty:
        return ""
    lowest, highest = (
        f"{quantity(row['drawn'], metric.drawn_unit).plain()} ({_distinguishing_name(row, axis)})"
        for row in (
            rows.iloc[position] for position in (rows["drawn"].argmin(), rows["drawn"].argmax())
        )
    )
    name = metric.label.partition(" over {")[0]
    return (
        f"{name} is {lowest}." if len(rows) == 1 else f"{name} reaches from {lowest} to {highest}."
    )


def range_in(
    table: str, column: str, shown: "Shown", *, what: str, unit: str, factor: float = 1.0
) -> str:
    """From where to where a column of a table reaches for the variants shown, or for all where the
    table names none.
    """
    frame = getattr(shown.tables, table)
    if "variant" in frame and len(shown.rows):
        frame = frame[frame["variant"].isin(shown.rows["variant"])]
    values = frame[column].dropna() * factor
    if values.empty:
        return ""
    low, high = (quantity(value, unit).plain() for value in (values.min(), values.max()))
    return f"{what} reach from {low} to {high}."


def largest_parts(parts_of: Callable[["Shown"], pd.DataFrame], shown: "Shown") -> str:
    """The parts that take most of the time, on average over the variants shown, of each `share` by
    `variant` and `category`.
    """
    parts = parts_of(shown)
    parts = parts[parts["variant"].isin(shown.rows["variant"])]
    if parts.empty:
        return ""
    shares = parts.groupby("category")["share"].sum() / parts["variant"].nunique()
    largest = shares.sort_values(ascending=False, kind="stable")[:3]
    named = ", ".join(
        f"{labels.printable(str(part))} {share(value).plain()}" for part, value in largest.items()
    )
    return f"The largest parts are on average {named}."


def _distinguishing_name(row: "pd.Series[Any]", axis: str) -> str:
    if "panel" not in row:
        return labels.joined(row["heading"], row["label"])
    device = device_words(row["device"])
    named = row["panel"] if device in row["panel"] else labels.joined(row["panel"], device)
    return labels.joined(named, labels.field_label(axis, row[axis])) if axis else str(named)


MOST_IN_TABLE: Final = 4
STUDY: Final = "study"
"""Subject of the figures that show every variant, or the machine itself."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a figure shows of an experiment, or of the study as a whole: variants, a row for each,
    and the tables that say what it draws of them.
    """

    rows: pd.DataFrame
    tables: Tables
    subject: str = STUDY
    """The experiment's name."""
    axis: str = ""
    """The field that the experiment varies; empty for the study."""
    baseline: str = ""
    """What the others are compared with, as a reader calls it; empty for the study."""

    @property
    def words(self) -> dict[str, str]:
        """What replaces `{axis}` and `{baseline}` inside a sentence."""
        return {"axis": AXES.get(self.axis, self.axis.replace("_", " ")), "baseline": self.baseline}


@dataclass(frozen=True, kw_only=True)
class FigureSpec:
    """One figure that can be drawn; its name is that of its file and of its label."""

    name: str
    """`<subject>_<kind>`, and `_2`, `_3`, ... where it does not fit on one page."""
    subject: str
    """The experiment's name, or `study`; of a network its workload."""
    kind: str
    """The name that its declaration has."""
    title: str
    """Short plain text, for a list of figures."""
    caption: str
    """What to see, in plain text."""
    alt: str
    """The figure in one or two plain sentences, for those who cannot see it."""
    drawing: Callable[[], Figure] = field(compare=False, repr=False)
    variants: tuple[str, ...] = ()
    """The variants shown, in order; those without a measurement among them show as labelled
    gaps.
    """
    tables: tuple[str, ...] = ()
    """The tables that it draws, by name; where none is named, that of its subject."""
    csv: str = ""
    """What it draws as CSV, where no table has it."""
    has_own_section: bool = False
    """Whether it is in a section about its kind, and not in that of its experiment."""
    sources: tuple[str, ...] = ()
    """The CSV files behind it, of a figure in a document."""

    def draw(self) -> Figure:
        """Draw it, in the style of the report."""
        with report_style():
            return self.drawing()

    def _repr_html_(self) -> str:
        """The figure above its caption, as a notebook shows it."""
        png = b64encode(figure_bytes(self.draw(), "png")).decode()
        return (
            f'<img src="data:image/png;base64,{png}" alt="{escape(self.alt)}" style="width: 50em; '
            'background: white">'
            f"<p>{escape(self.caption)}</p>"
        )


def is_said_by_table(shown: Shown) -> bool:
    """Whether there are so few variants that their table says as much as a figure."""
    return len(shown.rows) <= MOST_IN_TABLE


LINES: Final = 38
"""Maximum number of rows and headings on a page."""


def variant_figure(
    given: Shown,
    *,
    name: str,
    title: str,
    caption: str,
    draw: Callable[[Shown], Figure],
    rows: Callable[[Shown], pd.DataFrame],
    caption_on_gpus: str = "",
    caption_on_cpus: str = "",
    along: Collection[str] = ("",),
    unless: Sequence[Callable[[Shown], bool]] = (),
    of_own_loops: bool = False,
    label: Callable[[pd.DataFrame, str], pd.DataFrame] = labels.with_row_labels,
    together: str = "heading",
    groups_on_page: int | None = None,
    sentences: Sequence[Sentence] = (),
    tables: tuple[str, ...] = (),
    has_own_section: bool = False,
) -> Iterator[FigureSpec]:
    """The pages of a figure that shows variants; none where its subject has no such figure, or no
    data for it.

    Args:
        given: The subject with all of its variants. The functions below get these, or those on one
            page.
        name: The word that ends the names of its files.
        title: Short, for a list of figures; `{axis}` is what is varied.
        caption: What to see; `{axis}` is what is varied, `{baseline}` what others are compared
            with, `{models}` what was trained.
        draw: Draws a page.
        rows: The variants it shows, out of the subject's; no rows where there is no data.
        caption_on_gpus: What to see besides where a variant shown was not trained on the CPU.
        caption_on_cpus: The same where all were.
        along: The axes of the experiments that have it; the study as a whole has an empty one.
        unless: Where another figure or the table shows the same.
        of_own_loops: Whether it shows custom training loops, of which experiments have no other
            figures.
        label: Names the rows, and orders them along an axis.
        together: The column in which rows are equal that have to stay together on a page.
        groups_on_page: Maximum number of such groups, however many rows each has; without one, a
            page has LINES.
        sentences: The sentences of its alternative text after that which says what is shown.
        tables: Those that it draws besides the rows; empty where it draws the rows alone.
        has_own_section: Whether it is in a section about its kind.
    """
    if given.axis not in along:
        return
    own_loops = compares_own_loops(rows_of(given.rows[["status", "begins_anew"]]), given.axis)
    is_shown = own_loops == of_own_loops and not any(holds(given) for holds in unless)
    found = rows(given) if is_shown else given.rows.iloc[:0]
    if found.empty:
        return
    # All pages are labelled together, so that the words do not depend on where a page ends.
    found = label(found, given.axis)
    pages = split_into_pages(found[together].tolist(), groups=groups_on_page)
    title = title.format(**given.words)
    for number, positions in enumerate(pages, start=1):
        shown = replace(given, rows=found.iloc[positions].reset_index(drop=True))
        part = f" Part {number} of {len(pages)}." if len(pages) > 1 else ""
        has_gpus = (shown.rows["device"] != "cpu").any()
        besides = caption_on_gpus if has_gpus else caption_on_cpus
        models = listed(list(dict.fromkeys(map(model_words, rows_of(shown.rows)))))
        first = f"{title}: {variants_shown(shown.rows, given.axis)}."
        yield FigureSpec(
            name=f"{given.subject}_{name}" + (f"_{number}" if number > 1 else ""),
            subject=given.subject,
            kind=name,
            title=title,
            caption=" ".join(filter(None, (caption, besides))).format(models=models, **given.words)
            + part,
            alt=" ".join(filter(None, (first, *(sentence(shown) for sentence in sentences)))),
            drawing=partial(draw, shown),
            variants=tuple(shown.rows["variant"]),
            tables=tables,
            has_own_section=has_own_section,
        )


def machine_figure(
    given: Shown,
    *,
    name: str,
    title: str,
    caption: str,
    draw: Callable[[Tables], Figure],
    sentence: Sentence,
    tables: tuple[str, ...],
) -> Iterator[FigureSpec]:
    """The figure of the machine's devices, or of all variants at once, on one page; none unless the
    subject is the study. The arguments are those of `variant_figure`; without rows in the first of
    the `tables` there is no figure.
    """
    if given.subject != STUDY or getattr(given.tables, tables[0]).empty:
        return
    shown = replace(given, rows=given.rows.iloc[:0])
    yield FigureSpec(
        name=f"{STUDY}_{name}",
        subject=STUDY,
        kind=name,
        title=title,
        caption=caption,
        alt=" ".join(filter(None, (f"{title}.", sentence(shown)))),
        drawing=partial(draw, given.tables),
        tables=tables,
    )


def without_own_loops(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of trainings that have no loop of their own."""
    return rows[~rows["begins_anew"]]


def found_in(table: str, shown: Shown) -> pd.DataFrame:
    """All rows where the named table has data of any of them."""
    found = shown.rows["variant"].isin(getattr(shown.tables, table)["variant"])
    return shown.rows if found.any() else shown.rows.iloc[:0]


def split_into_pages(headings: Sequence[str], *, groups: int | None = None) -> list[list[int]]:
    """The positions of the rows on each page, given the heading of each row; rows of one heading
    follow each other.

    A page has at most `groups` groups, or without a number LINES lines, of which a heading is one:
    there, a group goes to the next page where it does not fit, and one longer than a page is split.
    """
    found = [list(rows) for _, rows in groupby(range(len(headings)), key=headings.__getitem__)]
    if groups is not None:
        return [
            list(chain.from_iterable(found[first : first + groups]))
            for first in range(0, len(found), groups)
        ]
    pages: list[list[int]] = []
    lines = LINES  # the first group begins a page
    for group in found:
        for start in range(0, len(group), LINES - 1):
            part = group[start : start + LINES - 1]
            lines += len(part) + 1
            if lines > LINES:
                pages.append([])
                lines = len(part) + 1
            pages[-1] += part
    return pages
