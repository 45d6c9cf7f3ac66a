"""The study's tables of one machine, bundled by name for the findings, figures and sections that read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """Every table of the study, with the columns that `tables/schema.py` declares; one without data has no rows.

    Two bundles are never equal but to themselves, because tables have no truth value to compare by.
    """

    variants: "pd.DataFrame"
    """One row per variant."""

    experiments: Mapping[str, "pd.DataFrame"]
    """By the experiment's name, in the order of the configuration: its variants with speedups in their groups."""

    convergence: "pd.DataFrame"
    """One row per variant, repetition and epoch: losses and held-out quality."""

    losses: "pd.DataFrame"
    """One row per variant, repetition and step: the training loss."""

    epochs: "pd.DataFrame"
    """One row per variant, repetition and epoch: the wall time."""

    consistency: "pd.DataFrame"
    """One row per pair of a CPU and an accelerator variant, metric and epoch; empty without an accelerator."""

    top_operations: "pd.DataFrame"
    """One row per variant and rank: the operations that took the most time of their own."""

    category_shares: "pd.DataFrame"
    """One row per variant and category: its share of the time of all operations."""

    phases: "pd.DataFrame"
    """One row per profiled variant and phase of the step: its share of the time."""

    peaks: "pd.DataFrame"
    """One row per device and ceiling that the calibration reached."""

    transfers: "pd.DataFrame"
    """One row per direction, kind of host memory and size of a copy; empty without an accelerator."""

    efficiency: "pd.DataFrame"
    """One row per variant whose step was counted: how near it came to the device's ceilings."""

    own_loops: "pd.DataFrame"
    """One row per measured variant that a loop of its workload's own trained."""

    crossovers: "pd.DataFrame"
    """One row per experiment that compares devices at several batch sizes."""

    telemetry: "pd.DataFrame"
    """One row per variant, repetition and sample of the accelerator's driver."""

    machine: "pd.DataFrame"
    """One row per fact about hardware and software."""

    sources: "pd.DataFrame"
    """One row per figure that a source of this project reports; ours is missing where it was not measured."""

    step_shares: "pd.DataFrame"
    """One row per profiled variant: what the wall time of its steps went into."""

    idle_causes: "pd.DataFrame"
    """One row per profiled variant, cause and host operation: gaps of the accelerator; empty without one."""

    top_kernels: "pd.DataFrame"
    """One row per profiled variant and rank: the kernels that took the most time; empty without an accelerator."""

    operation_memory: "pd.DataFrame"
    """One row per profiled variant and rank: the operations that asked for the most memory."""

    category_speedups: "pd.DataFrame"
    """One row per accelerator variant profiled on the CPU as well, and category: how much less time it takes."""

    trace_advice: "pd.DataFrame"
    """One row per profiled variant and rule that applies: what to try, the most severe first."""

    trace_unanswered: "pd.DataFrame"
    """One row per profiled variant and rule that its trace cannot tell, and why."""

    trace_doubts: "pd.DataFrame"
    """One row per profiled variant and failed check of its trace: what is not reliable, and why."""

    timelines: "pd.DataFrame"
    """One row per profiled variant, lane and stretch of one step: what went on there."""


def rows_of(frame: "pd.DataFrame") -> tuple[Mapping[str, Any], ...]:
    """One mapping per row, by column name, with plain Python values."""
    return tuple({str(column): value for column, value in row.items()} for row in frame.to_dict("records"))
