"""The kinds of figures that show trainings by a workload's own loops, in place of all others.

experiment, own_loops -> kind -> rows (one per variant) -> Figure
"""

from collections.abc import Mapping
from typing import Final

import pandas as pd

from gpu_report.figures import labels
from gpu_report.figures.alt_text import extremes_of
from gpu_report.figures.iteration_parts import draw_iteration_parts, parts_told, with_parts
from gpu_report.figures.kind import ROWS, Kind, Subject, row_groups
from gpu_report.figures.loops import draw_floors, draw_passes, with_passes
from gpu_report.figures.pages import PageLimits
from gpu_report.figures.spared import has_own_loops
from gpu_report.glossary import PASS
from gpu_report.tables.bundle import Tables

_ONE_PAGE: Final = PageLimits(groups=1, lines=1000)


def _passes(rows: pd.DataFrame, subject: Subject, tables: Tables) -> pd.DataFrame:
    return with_passes(rows, tables) if has_own_loops(rows, subject, tables) else rows.iloc[:0]


def _parts(rows: pd.DataFrame, subject: Subject, tables: Tables) -> pd.DataFrame:
    return with_parts(rows, tables) if has_own_loops(rows, subject, tables) else rows.iloc[:0]


def _together(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """A page for each workload, whose loops are lines of their own."""
    return labels.with_labels(rows, without=(axis,)).assign(group_on_page=rows["workload"])


LOOP_KINDS: Final[Mapping[str, Kind]] = {
    "floors": Kind(
        title="Time of a pass by {axis}",
        caption=(
            "Time of a pass over the points by each loop, as a mean over processes with its 95 % interval, of "
            "three the range, and, "
            "where the device was calibrated, its floor: the longer of what its bytes and its arithmetic need at "
            "least. A pass left of its floor has its points in caches."
        ),
        suits=lambda axis: axis == "optimization",
        rows=_passes,
        draw=lambda rows, _, __: draw_floors(rows),
        groups=row_groups,
        limits=lambda _, __: ROWS,
        told=(extremes_of(PASS),),
    ),
    "parts": Kind(
        title="Parts of one iteration by {axis}",
        caption=(
            "Device time of the kernels, copies and memsets of one iteration in the profiled run, by part; waiting "
            "between kernels is left out. A loop whose kernels do several parts, or have no marks, is one bar."
        ),
        suits=lambda axis: axis == "optimization",
        rows=_parts,
        draw=lambda rows, _, tables: draw_iteration_parts(rows, tables),
        groups=row_groups,
        limits=lambda _, __: ROWS,
        told=(parts_told,),
    ),
    "passes": Kind(
        title="Time of a pass by number of points",
        caption=(
            "Time of a pass over the points by their number, a line for each loop; bars are 95 % intervals, of "
            "three processes the range. A dashed "
            "line is the time to read the points once at the rate of a copy inside a device that was calibrated."
        ),
        suits=lambda axis: axis == "batch_size",
        rows=_passes,
        draw=lambda rows, _, __: draw_passes(rows),
        groups=_together,
        limits=lambda _, __: _ONE_PAGE,
        told=(extremes_of(PASS),),
    ),
}
"""By the word that ends the figure's name, in the order of reading."""
