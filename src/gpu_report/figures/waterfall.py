"""Where the time of a step goes along an optimization ladder: a bar per step of the ladder, in
milliseconds, split into categories of the GPU's work and the time in which it had none.

experiments' ladders + step_categories -> rows (eager, then each step with those above) -> segments
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.declaration import Shown, VariantFigure
from gpu_report.figures.rows import Entry, new_rows, place_rows
from gpu_report.figures.stacked_bars import (
    BAR_LOOK,
    CATEGORY_COLORS,
    LEGEND_COLUMNS,
    add_color_legend,
)
from gpu_report.printing.number_format import quantity
from gpu_report.tables.bundle import eager_and_fastest, rows_of
from gpu_report.tables.traces import IDLE_TIME, LAYOUT_CONVERSION

SHOWN_AS: Final[Mapping[str, str]] = {
    "normalisation": "normalization",
    "copy": "copies",
    **dict.fromkeys(("activation", "pooling", "reduction", "loss"), "elementwise"),
}
"""Categories of the table step_categories that a reader sees under another name."""
COLORS: Final = {
    "convolution": CATEGORY_COLORS["convolution"],
    LAYOUT_CONVERSION: "#8C564B",
    "matrix product": CATEGORY_COLORS["matrix product"],
    "attention": style.VERMILLION,
    "recurrent": CATEGORY_COLORS["recurrent"],
    "normalization": CATEGORY_COLORS["normalisation"],
    "elementwise": style.PURPLE,
    "optimizer": CATEGORY_COLORS["optimizer"],
    "copies": CATEGORY_COLORS["copy"],
    "communication": "#5E5E8A",
    "others": "#C8C8C8",
    IDLE_TIME: style.OTHERS,
}
"""What is not among them is one of the others. Those that the timeline has too have its colors."""


def path_rows(shown: Shown) -> pd.DataFrame:
    """Of each ladder that gained something the eager baseline in fp32, where the GPU trained it,
    and each step with those above it, in order, with the columns `heading` and `label`; no rows
    where no trace shows what any of them consists of.
    """
    variants = {row["variant"]: row for row in rows_of(shown.rows)}
    pairs = eager_and_fastest(shown.tables)
    gained = [pair for pair in pairs if len(pair) > 1]
    eager = {variants[pair[0]]["workload"]: pair[0] for pair in gained or pairs}
    rows = []
    for frame in shown.tables.experiments.values():
        for _, group in frame.groupby("group", sort=False):
            steps = labels.ladder_steps_of(list(group["optimization"]))
            if not steps or group["workload"].iloc[0] not in eager:
                continue
            by_name = dict(zip(group["optimization"], group["variant"], strict=True))
            baseline = group.loc[group["is_baseline"]].iloc[0]
            path = {baseline["variant"]: f"eager, {baseline['precision']}"}
            path |= {
                by_name[step.cumulative]: f"+ {step.title}"
                for step in steps
                if step.cumulative in by_name
            }
            first = eager[baseline["workload"]]
            if first not in path and variants[first]["precision"] != baseline["precision"]:
                path = {first: f"eager, {variants[first]['precision']}", **path}
            heading = labels.workload_label(baseline)
            rows += [
                {**variants[variant], "heading": heading, "label": label}
                for variant, label in path.items()
            ]
    found = pd.DataFrame(rows)
    if found.empty or not found["variant"].isin(shown.tables.step_categories["variant"]).any():
        return shown.rows.iloc[:0]
    return found


def waterfall_figure(shown: Shown) -> Figure:
    """Draw the step time of each row, split where its trace shows the categories."""
    parts = {variant: _parts(shown, variant) for variant in shown.rows["variant"]}
    entries: list[Entry] = []
    above: dict[str, float] = {}
    for _, row in shown.rows.iterrows():
        heading, times = row["heading"], parts[row["variant"]]
        is_first = not entries or entries[-1].heading != heading
        text = _text(row, times, {} if is_first else above)
        entries.append(
            Entry(heading=heading, label=row["label"], text=text, missing=row["status"] != "ok")
        )
        above = times
    occurring = {name for times in parts.values() for name, time in times.items() if time > 0}
    legend = {name: color for name, color in COLORS.items() if name in occurring}
    figure, axes = new_rows(entries, legend_rows=math.ceil(len(legend) / LEGEND_COLUMNS))
    positions = place_rows(axes, entries, text_heading="ms per step; largest change")
    for position, (_, row) in zip(positions, shown.rows.iterrows(), strict=True):
        left = 0.0
        for name, time_ms in parts[row["variant"]].items():
            axes.barh(position, time_ms, left=left, color=COLORS[name], **BAR_LOOK)
            left += time_ms
        if not left and row["status"] == "ok":
            axes.barh(position, row["step_time_ms"], color="none", hatch="///", **BAR_LOOK)
    axes.set_xlim(left=0)
    axes.set_xlabel("Time of a step (ms)")
    axes.grid(visible=False, axis="y")
    add_color_legend(figure, legend)
    return figure


def _parts(shown: Shown, variant: str) -> dict[str, float]:
    """The milliseconds of each category of COLORS; none without a trace that shows them."""
    table = shown.tables.step_categories
    found = table[table["variant"] == variant].set_index("category")["ms_per_step"]
    names = [SHOWN_AS.get(category, category) for category in found.index]
    summed = found.groupby([name if name in COLORS else "others" for name in names]).sum()
    return {name: float(summed[name]) for name in COLORS if name in summed}


def _text(row: "pd.Series[Any]", times: Mapping[str, float], above: Mapping[str, float]) -> str:
    """The time that is drawn, or why there is none, and the part that changed most from the row
    above.
    """
    if row["status"] != "ok":
        return labels.status_text(row)
    total_ms = quantity(sum(times.values()) or row["step_time_ms"]).plain()
    changes = {name: times.get(name, 0.0) - above.get(name, 0.0) for name in {**above, **times}}
    if not (times and above):
        return total_ms
    is_slower = sum(changes.values()) > 0
    name = (max if is_slower else min)(changes, key=changes.__getitem__)
    return f"{total_ms}; {'more' if is_slower else 'less'} {name}"


WATERFALL: Final = VariantFigure(
    name="waterfall",
    title="Where the time of a step goes along the ladder",
    caption=(
        "Time of a step along each optimization ladder: each row adds an option to those above it "
        "that it does not replace, and names the part that made most of the difference. "
        "Colors are the categories of the GPU's work, white is the time in which it had none; a "
        "hatched bar has no trace that shows them."
    ),
    rows=path_rows,
    draw=waterfall_figure,
    label=lambda rows, _: rows,
    sentences=(),
    tables=("step_categories", "variants"),
)
