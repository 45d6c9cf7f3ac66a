"""Time of an iteration of custom training loops: by the number of points, and by part.

experiment table, own_loops -> panels (device) -> lines (loop) along the points
phases, top_kernels -> time per iteration of each part -> rows (loop) -> segments (part)
"""

import math
import re
from functools import partial
from itertools import cycle
from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import labels, palette, style
from gpu_report.figures.declaration import Shown, extremes_of, variant_figure
from gpu_report.figures.points import panels_figure
from gpu_report.figures.stacked_bars import stacked_bars_figure
from gpu_report.glossary import PASS, device_words
from gpu_report.printing.number_format import quantity
from gpu_report.tables.bundle import Tables

_ROOM: Final = 2.0  # above and below the measured values, as a factor
_TOGETHER: Final = "together"
_OTHER: Final = "other"
_PART_COLORS: Final = {**palette.PHASE_COLORS, _TOGETHER: palette.YELLOW}
_KERNEL_PARTS: Final = {
    "forward": "forward",
    "loss": "loss",
    "gradient": "backward",
    "update": "optimizer",
}
"""What hand-written kernels that do one part each are called."""


def _with_passes(shown: Shown) -> pd.DataFrame:
    loops, rows = shown.tables.own_loops, shown.rows
    found = loops.loc[
        loops["variant"].isin(rows["variant"]),
        ["variant", "pass_us", "pass_us_low", "pass_us_high", "pass_us_count"],
    ]
    # One that failed is in no row of OWN_LOOPS, and has its points as its batch too.
    points = rows.assign(points=rows["batch_size"])
    return rows.iloc[:0] if found.empty else points.merge(found, on="variant", how="left")


def passes_figure(shown: Shown) -> Figure:
    """Draw the time of a pass along the points, a panel for each device and a line for each
    loop.
    """
    rows = shown.rows.assign(panel=shown.rows["device"].map(device_words))
    looks = {
        loop: {"color": color, "marker": marker, "label": labels.optimization_label(loop)}
        for loop, color, marker in zip(
            dict.fromkeys(rows["optimization"]),
            cycle(palette.PALETTE),
            cycle(style.MARKERS),
            strict=False,
        )
    }
    drawn = PASS.intervals(rows).dropna(subset="value")

    def draw(axes: Axes, _: pd.DataFrame) -> None:
        style.set_scale(axes, "y", [*drawn["low"], *drawn["high"]])
        axes.set_ylim(drawn["low"].min() / _ROOM, drawn["high"].max() * _ROOM)

    return panels_figure(
        rows,
        PASS,
        axis="points",
        by="optimization",
        looks=looks,
        columns=rows["panel"].nunique(),
        height_in=2.5,
        draw=draw,
    )


PASSES: Final = partial(
    variant_figure,
    name="passes",
    title="Time of an iteration by number of points",
    caption=(
        "Time of an iteration by the number of points, one line per loop; bars show 95 % intervals."
    ),
    along=("batch_size",),
    rows=_with_passes,
    draw=passes_figure,
    of_own_loops=True,
    label=lambda rows, axis: labels.with_labels(rows, without=(axis,)),
    together="workload",
    groups_on_page=1,
    sentences=(extremes_of(PASS),),
    tables=("own_loops",),
)


def _with_parts(shown: Shown) -> pd.DataFrame:
    """The loops whose device work is known; none where no loop has parts of its own."""
    parts = iteration_parts(shown.tables, shown.rows)
    has_parts = (parts["part"] != _TOGETHER).any()
    return shown.rows[shown.rows["variant"].isin(parts["variant"] if has_parts else [])]


def iteration_parts(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
    """Microseconds of device work in one iteration, by variant and part, of every loop among these
    rows that was profiled on an accelerator.
    """
    loops = tables.own_loops[~tables.own_loops["is_bound"]].merge(
        tables.step_shares[["variant", "steps"]]
    )
    loops = loops[loops["variant"].isin(rows["variant"])]
    kernels = tables.top_kernels[tables.top_kernels["variant"].isin(loops["variant"])]
    kernels = kernels.assign(part=kernels["name"].map(_part_of_kernel))
    phases = tables.phases.rename(columns={"phase": "part", "self_ms": "total_ms"})
    found = []
    for variant, iterations in zip(loops["variant"], loops["passes"] * loops["steps"], strict=True):
        of_kernels, of_phases = (each[each["variant"] == variant] for each in (kernels, phases))
        if of_kernels.empty:
            continue
        if of_kernels["part"].isin(_KERNEL_PARTS.values()).any():
            work = of_kernels
        elif of_phases["part"].isin({"loss", "backward"}).any():
            work = of_phases
        else:
            work = of_kernels.assign(part=_TOGETHER)
        time_us = 1e3 * work.groupby("part")["total_ms"].sum() / iterations
        found.append(time_us.rename("time_us").reset_index().assign(variant=variant))
    return pd.concat(found) if found else pd.DataFrame(columns=["variant", "part", "time_us"])


def parts_figure(shown: Shown) -> Figure:
    """Draw what the accelerator does in one iteration, one stacked bar per loop."""
    parts = iteration_parts(shown.tables, shown.rows)
    totals = parts.groupby("variant")["time_us"].sum()
    return stacked_bars_figure(
        shown,
        parts.rename(columns={"part": "category", "time_us": "width"}),
        colors=_PART_COLORS,
        texts={variant: quantity(totals[variant]).plain() for variant in shown.rows["variant"]},
        text_heading="sum (µs)",
        axis_label="Device work of one iteration in the profiled run (µs)",
        most=math.inf,
    )


def _sums_of_parts(shown: Shown) -> str:
    totals = iteration_parts(shown.tables, shown.rows).groupby("variant")["time_us"].sum()
    named = [
        f"{labels.joined(row['heading'], row['label'])} "
        f"{quantity(totals[row['variant']], 'µs').plain()}"
        for _, row in shown.rows.iterrows()
    ]
    return f"One iteration takes {', '.join(named)}."


def _part_of_kernel(name: str) -> str:
    called = re.search(r"(\w+)\(", name)
    return _KERNEL_PARTS.get(called[1], _OTHER) if called else _OTHER


PARTS: Final = partial(
    variant_figure,
    name="parts",
    title="Parts of one iteration by {axis}",
    caption=(
        "Device time of the kernels, copies and memsets of one iteration in the profiled run, by "
        "part; waiting between kernels is left out. A loop whose kernels do several parts, or have "
        "no marks, is one bar."
    ),
    along=("optimization",),
    rows=_with_parts,
    draw=parts_figure,
    of_own_loops=True,
    sentences=(_sums_of_parts,),
    tables=("top_kernels", "phases"),
)
