"""Machines side by side: how much faster each trains the same variants than the machine it is compared with.

comparison -> ComparisonFigure per pair of machines (name, what to see, which rows) -> rows (variant) -> Figure
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.alt_text import extremes, sentences
from gpu_report.figures.curves import add_legend
from gpu_report.figures.pages import PageLimits, split_into_pages
from gpu_report.figures.rows import Entry, draw_points, draw_reference, lay_out_rows
from gpu_report.glossary import RATIO
from gpu_report.variant import Variant

_LIMITS: Final = PageLimits(groups=38)
_NAME: Final = "machines_comparison"
_CAPTION: Final = (
    "Throughput of {machine} over that of {reference}, on the same variants: right of the dashed line {machine} is "
    "faster. Points are ratios of means over processes, bars their 95 % intervals, of three processes the "
    "range; hollow points are doubted."
)


@dataclass(frozen=True, kw_only=True)
class ComparisonSubject:
    """What the figure is about: machines and not an experiment."""

    name: str = "machines"


@dataclass(frozen=True, kw_only=True)
class ComparisonFigure:
    """One figure that can be drawn; its name is that of its file and of its label."""

    name: str
    """`machines_comparison`, and `_2`, `_3`, ... for further pages and pairs of machines."""
    subject: ComparisonSubject
    kind: str
    rows: tuple[int, ...]
    """Positions of the rows shown, in the table with its labels."""
    title: str
    caption: str
    """What to see, in plain text."""
    alt: str
    """The figure in one or two plain sentences, for those who cannot see it."""


def comparison_figures(comparison: pd.DataFrame) -> list[ComparisonFigure]:
    """The figures that hold every row of the table COMPARISON, no two pairs of machines in one; none without rows."""
    rows = _labelled(comparison)
    specs: list[ComparisonFigure] = []
    for (machine, reference), pair in rows.groupby(["machine", "reference_machine"], sort=False):
        pages = split_into_pages(pair["heading"].tolist(), _LIMITS)
        for number, page in enumerate(pages, start=1):
            part = f" Part {number} of {len(pages)}." if len(pages) > 1 else ""
            specs.append(
                ComparisonFigure(
                    name=_NAME + (f"_{len(specs) + 1}" if specs else ""),
                    subject=ComparisonSubject(),
                    kind="comparison",
                    rows=tuple(int(pair.index[position]) for position in page),
                    title=_title(str(machine), str(reference)),
                    caption=_CAPTION.format(machine=machine, reference=reference) + part,
                    alt=_alt(_title(str(machine), str(reference)), pair.iloc[page]),
                )
            )
    return specs


def _alt(title: str, rows: pd.DataFrame) -> str:
    variants = f"{len(rows)} variant" + ("s" if len(rows) > 1 else "")
    return sentences(f"{title}: {variants}.", extremes(RATIO, rows, ""))


def _title(machine: str, reference: str) -> str:
    return f"Throughput of {_machine(machine)} over that of {_machine(reference)}"


def draw_comparison(spec: ComparisonFigure, comparison: pd.DataFrame) -> Figure:
    """Draw a figure from the table that it was found in."""
    rows = _labelled(comparison).iloc[list(spec.rows)].reset_index(drop=True)
    with style.report_style():
        return _draw(rows)


def _labelled(comparison: pd.DataFrame) -> pd.DataFrame:
    """The table with `heading` and `label`, the rows of one pair of machines, and in it of one workload, together."""
    fields = pd.DataFrame(list(_fields(comparison)), index=comparison.index)
    rows = labels.with_labels(comparison.join(fields)) if len(comparison) else comparison.assign(heading="", label="")
    return labels.sorted_by(rows, "machine", "reference_machine", "heading")


def _fields(comparison: pd.DataFrame) -> Iterator[Mapping[str, Any]]:
    """What a variant's name says and the table does not."""
    for slug in comparison["variant"]:
        variant = Variant.from_slug(slug)
        fields = {**asdict(variant), "optimization": variant.optimization}
        yield {name: value for name, value in fields.items() if name not in comparison.columns}


def _machine(name: str) -> str:
    return labels.shortened(name, most_chars=36)


def _draw(rows: pd.DataFrame) -> Figure:
    numbers = RATIO.intervals(rows)
    entries = [
        Entry(heading=heading, label=label, text=text, missing=pd.isna(value))
        for heading, label, text, value in zip(
            rows["heading"], rows["label"], numbers["text"], numbers["value"], strict=True
        )
    ]
    drawn = numbers.dropna()
    marks = rows.loc[drawn.index, "marks"]
    layout = lay_out_rows(
        entries, text_heading=RATIO.text_heading(rows, "ratio"), legend_rows=2 if labels.doubts(marks) else 1
    )
    style.set_scale(layout.axes, "x", [1.0, *drawn["low"], *drawn["high"]])
    draw_points(layout.axes, rows.assign(**numbers), layout.positions)
    draw_reference(layout.axes, RATIO)
    layout.axes.set_xlabel(RATIO.axis_label)
    title = _title(rows["machine"].iloc[0], rows["reference_machine"].iloc[0])
    layout.figure.suptitle(title, x=0.01, ha="left", fontsize=style.FONT_SIZE_PT)
    add_legend(layout.figure, [], marks=marks)
    return layout.figure
