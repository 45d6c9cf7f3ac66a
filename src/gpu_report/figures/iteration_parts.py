"""What one iteration of each loop runs on the accelerator: forward, loss, backward and update, or all in one kernel.

phases, top_kernels -> time per iteration of each part -> rows (loop) -> segments (part)
"""

import re
from typing import Final

import pandas as pd
from matplotlib.figure import Figure

from gpu_report.figures import labels, style
from gpu_report.figures.operations import add_category_legend
from gpu_report.figures.phases import PHASE_COLORS
from gpu_report.figures.rows import Entry, lay_out_rows
from gpu_report.number_format import quantity
from gpu_report.tables.bundle import Tables

_TOGETHER: Final = "together"
_OTHER: Final = "other"
_COLORS: Final = {**PHASE_COLORS, _TOGETHER: style.YELLOW}
_KERNEL_PARTS: Final = {"forward": "forward", "loss": "loss", "gradient": "backward", "update": "optimizer"}
"""What hand-written kernels that do one part each are called."""
_FUNCTION: Final = re.compile(r"(\w+)\(")


def with_parts(rows: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The loops whose device work is known; none where no loop has parts of its own."""
    parts = iteration_parts(tables)
    shown = rows[rows["variant"].isin(parts["variant"])]
    is_split = parts["variant"].isin(shown["variant"]) & (parts["part"] != _TOGETHER)
    return shown if is_split.any() else rows.iloc[:0]


def iteration_parts(tables: Tables) -> pd.DataFrame:
    """Microseconds of device work in one iteration, by variant and part, of every profiled loop on an accelerator."""
    loops = tables.own_loops[~tables.own_loops["is_bound"]].merge(tables.step_shares[["variant", "steps"]])
    kernels = tables.top_kernels.assign(part=tables.top_kernels["name"].map(_part_of_kernel))
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


def draw_iteration_parts(frame: pd.DataFrame, tables: Tables) -> Figure:
    """Draw one stacked bar per loop; the columns `heading` and `label` are those of the rows."""
    parts = iteration_parts(tables)
    totals = parts.groupby("variant")["time_us"].sum()
    entries = [
        Entry(heading=row["heading"], label=row["label"], text=quantity(totals[row["variant"]]).plain())
        for _, row in frame.iterrows()
    ]
    layout = lay_out_rows(entries, text_heading="sum (µs)", legend_rows=2)
    for position, variant in zip(layout.positions, frame["variant"], strict=True):
        of_variant = parts[parts["variant"] == variant].set_index("part")["time_us"]
        left = 0.0
        for part, color in _COLORS.items():
            width = float(of_variant.get(part, 0.0))
            layout.axes.barh(position, width, left=left, height=0.78, color=color, edgecolor=style.QUIET, linewidth=0.4)
            left += width
    layout.axes.set_xlim(0, 1.02 * float(totals[frame["variant"]].max()))
    layout.axes.set_xlabel("Device work of one iteration in the profiled run (µs)")
    shown = set(parts.loc[parts["variant"].isin(frame["variant"]) & (parts["time_us"] > 0), "part"])
    add_category_legend(layout.figure, {part: color for part, color in _COLORS.items() if part in shown})
    return layout.figure


def parts_told(rows: pd.DataFrame, _: str, tables: Tables) -> str:
    """Every loop with the sum of its parts."""
    totals = iteration_parts(tables).groupby("variant")["time_us"].sum()
    named = [
        f"{labels.joined(row['heading'], row['label'])} {quantity(totals[row['variant']], 'µs').plain()}"
        for _, row in rows.iterrows()
    ]
    return f"One iteration takes {', '.join(named)}."


def _part_of_kernel(name: str) -> str:
    called = _FUNCTION.search(name)
    return _KERNEL_PARTS.get(called[1], _OTHER) if called else _OTHER
