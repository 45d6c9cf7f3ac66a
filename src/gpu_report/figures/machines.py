"""Machines side by side: how much faster each trains the same variants than the machine it is compared with.

comparison -> ComparisonFigure (name, what to see, which rows) -> rows under headings (machine, workload) -> Figure
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.curves import add_legend
from gpu_report.figures.forest import draw_points, draw_reference
from gpu_report.figures.metrics import RATIO
from gpu_report.figures.pages import PageLimits, split_into_pages
from gpu_report.figures.rows import Entry, lay_out_rows
from gpu_report.variant import Variant

_LIMITS: Final = PageLimits(groups=38)
_NAME: Final = "machines_comparison"
_MOST_LABEL_CHARS: Final = 48


@dataclass(frozen=True, kw_only=True)
class ComparisonSubject:
    """What the figure is about: machines and not an experiment."""

    name: str = "machines"


@dataclass(frozen=True, kw_only=True)
class ComparisonFigure:
    """One figure that can be drawn; its name is that of its file and of its label."""

    name: str
    """`machines_comparison`, and `_2`, `_3`, ... where the variants do not fit on one page."""
    subject: ComparisonSubject
    kind: str
    rows: tuple[int, ...]
    """Positions of the rows shown, in the table with its labels."""
    title: str
    caption: str
    """What to see, in plain text."""


def comparison_figures(comparison: pd.DataFrame) -> list[ComparisonFigure]:
    """The figures that hold every row of the table COMPARISON; none where it has no rows."""
    rows = _labelled(comparison)
    pages = split_into_pages(rows["heading"].tolist(), _LIMITS)
    return [
        ComparisonFigure(
            name=_NAME + (f"_{number}" if number > 1 else ""),
            subject=ComparisonSubject(),
            kind="comparison",
            rows=tuple(page),
            title="Throughput between machines",
            caption=(
                "Throughput of a machine over that of the machine it is compared with, on the same variants: right of "
                "the dashed line it is faster. Points are ratios of medians over processes, bars their 95 % intervals; "
                "hollow points are doubted." + (f" Part {number} of {len(pages)}." if len(pages) > 1 else "")
            ),
        )
        for number, page in enumerate(pages, start=1)
    ]


def draw_comparison(spec: ComparisonFigure, comparison: pd.DataFrame) -> Figure:
    """Draw a figure from the table that it was found in."""
    rows = _labelled(comparison).iloc[list(spec.rows)].reset_index(drop=True)
    with style.report_style():
        return _draw(rows)


def _labelled(comparison: pd.DataFrame) -> pd.DataFrame:
    """The table with `heading` and `label`, the rows of one pair of machines and workload together."""
    fields = pd.DataFrame(list(_fields(comparison)), index=comparison.index)
    rows = labels.with_labels(comparison.join(fields)) if len(comparison) else comparison.assign(heading="", label="")
    pairs = zip(rows["machine"], rows["reference_machine"], rows["heading"], strict=True)
    headings = [f"{_machine(machine)} over {_machine(reference)}: {heading}" for machine, reference, heading in pairs]
    short = [labels.shortened(label, most_chars=_MOST_LABEL_CHARS) for label in rows["label"]]
    return labels.sorted_by(rows.assign(heading=headings, label=short), "heading")


def _fields(comparison: pd.DataFrame) -> Iterator[Mapping[str, Any]]:
    """What a variant's name says and the table does not."""
    for slug in comparison["variant"]:
        fields = asdict(Variant.from_slug(slug))
        yield {name: value for name, value in fields.items() if name not in comparison.columns}


def _machine(name: str) -> str:
    return labels.shortened(name, most_chars=32)


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
    layout = lay_out_rows(entries, text_heading="ratio (95 % interval)", legend_rows=1 if labels.doubts(marks) else 0)
    style.set_scale(layout.axes, "x", [1.0, *drawn["low"], *drawn["high"]])
    draw_points(layout, rows.assign(**numbers))
    draw_reference(layout.axes, RATIO)
    layout.axes.set_xlabel(RATIO.label)
    add_legend(layout.figure, [], marks=marks)
    return layout.figure
