"""The study's tables of one machine, by name, for the findings, figures and sections that read
them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpu_report.glossary import Row

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """Every table of STUDY_TABLES under its name, which says what its rows are; one without data
    has no rows.

    `experiments` are by name, in the order of the configuration. Two bundles are never equal but to
    themselves, because tables have no truth value to compare by.
    """

    variants: "pd.DataFrame"
    experiments: Mapping[str, "pd.DataFrame"]
    convergence: "pd.DataFrame"
    losses: "pd.DataFrame"
    epochs: "pd.DataFrame"
    consistency: "pd.DataFrame"
    top_operations: "pd.DataFrame"
    category_shares: "pd.DataFrame"
    phases: "pd.DataFrame"
    peaks: "pd.DataFrame"
    transfers: "pd.DataFrame"
    links: "pd.DataFrame"
    efficiency: "pd.DataFrame"
    scaling_efficiency: "pd.DataFrame"
    own_loops: "pd.DataFrame"
    communication: "pd.DataFrame"
    model_splits: "pd.DataFrame"
    batch_sizes: "pd.DataFrame"
    crossovers: "pd.DataFrame"
    telemetry: "pd.DataFrame"
    machine: "pd.DataFrame"
    sources: "pd.DataFrame"
    step_shares: "pd.DataFrame"
    idle_causes: "pd.DataFrame"
    top_kernels: "pd.DataFrame"
    operation_memory: "pd.DataFrame"
    category_speedups: "pd.DataFrame"
    trace_advice: "pd.DataFrame"
    trace_unanswered: "pd.DataFrame"
    trace_doubts: "pd.DataFrame"
    timelines: "pd.DataFrame"
    ranks: "pd.DataFrame"
    collectives: "pd.DataFrame"

    @cached_property
    def rows_of_experiments(self) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
        """The rows of `experiments`, kept because nearly everything asks for all of them."""
        return {name: rows_of(frame) for name, frame in self.experiments.items()}


def rows_of(frame: "pd.DataFrame") -> tuple[Mapping[str, Any], ...]:
    """One mapping per row, by column name, with plain Python values.

    A column at a time: DataFrame.to_dict takes twice as long for the widest tables, and everything
    reads them this way.
    """
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    return tuple(
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    )


def best_of_each(rows: Iterable[Row], of: str, *columns: str) -> list[Row]:
    """The row with the most in the column `of`, of those with each combination of values in the
    others, in order.
    """
    best: dict[tuple[object, ...], Row] = {}
    for row in rows:
        key = tuple(row[column] for column in columns)
        if key not in best or row[of] > best[key][of]:
            best[key] = row
    return list(best.values())
