"""Where a figure is spared, because another figure or the table beside it says the same.

kind, conditions -> unless -> the same kind, without rows where a condition holds
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pandas as pd

from gpu_report.figures.frontier import reaches_frontier
from gpu_report.figures.kind import Kind, Subject, is_curve
from gpu_report.glossary import SPEEDUP
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.tables.own_loops import compares_own_loops

_MOST_ROWS_DRAWN: Final = 6

Condition = Callable[[pd.DataFrame, Subject, Tables], bool]


def unless(kind: Kind, *conditions: Condition) -> Kind:
    """The same kind, without rows where one of the conditions holds."""

    def rows_found(rows: pd.DataFrame, subject: Subject, tables: Tables) -> pd.DataFrame:
        spared = any(holds(rows, subject, tables) for holds in conditions)
        return rows.iloc[:0] if spared else kind.rows(rows, subject, tables)

    return replace(kind, rows=rows_found)


def is_crossover(_: pd.DataFrame, subject: Subject, tables: Tables) -> bool:
    """Whether it is a series of batch sizes, and another experiment compares the devices as well."""
    series = set(tables.crossovers["experiment"])
    others = [frame for name, frame in tables.experiments.items() if name not in series]
    elsewhere = any((frame.groupby("group")["device"].nunique() > 1).any() for frame in others)
    return subject.name in series and elsewhere


def is_frontier(rows: pd.DataFrame, subject: Subject, _: Tables) -> bool:
    """Whether the figure of the batch frontier shows all its variants already."""
    return subject.axis == "batch_size" and all(reaches_frontier(group) for _, group in rows.groupby("group"))


def has_speedup(rows: pd.DataFrame, subject: Subject, _: Tables) -> bool:
    """Whether the figure of the speedup between devices is drawn, which is that of their throughputs."""
    return subject.axis == "device" and bool(rows[~rows["is_baseline"]][SPEEDUP.column].notna().any())


def has_own_loops(rows: pd.DataFrame, subject: Subject, _: Tables) -> bool:
    """Whether it is an experiment that loops of its workloads' own trained, whose time has figures of its own."""
    return compares_own_loops(rows_of(rows[["status", "begins_anew"]]), subject.axis)


def is_long(rows: pd.DataFrame, subject: Subject, _: Tables) -> bool:
    """Whether it would be a list so long that its table says the same as well."""
    return not is_curve(rows, subject.axis) and len(rows) > _MOST_ROWS_DRAWN
