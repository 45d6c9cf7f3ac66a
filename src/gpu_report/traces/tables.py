"""The tables made of one trace: operations, kernels, categories, steps and phases, with the unit of each column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_report.columns import Column, Table

if TYPE_CHECKING:
    import pandas as pd

HOST: Final = "cpu"
"""What the column `device` says of work on the host; an accelerator has its backend's name, such as `cuda`."""

_DEVICE: Final = Column(
    name="device", dtype="str", meaning="Where the time was spent: cpu, or the accelerator's backend as in the trace."
)
_CATEGORY: Final = Column(
    name="category", dtype="str", meaning="Kind of work, one of gpu_report.traces.categories.CATEGORIES."
)

OPERATIONS: Final = Table(
    name="operations",
    meaning=(
        "One row per operation name, device and category, over all profiled steps. On the host: operations, and calls "
        "into the accelerator's driver. On an accelerator: the work that the operation launched."
    ),
    columns=(
        Column(name="name", dtype="str", meaning="The operation's name as in the trace."),
        _DEVICE,
        _CATEGORY,
        Column(
            name="calls", dtype="int64", unit="1", meaning="Calls; on an accelerator those that launched work there."
        ),
        Column(
            name="total_ms",
            dtype="float64",
            unit="ms",
            meaning="Time in the calls with all they call; a call inside one of the same name counts once.",
        ),
        Column(
            name="self_ms", dtype="float64", unit="ms", meaning="Time in the calls themselves, without what they call."
        ),
        Column(name="self_share", dtype="float64", unit="1", meaning="self_ms over the sum of self_ms on that device."),
    ),
)

KERNELS: Final = Table(
    name="kernels",
    meaning="One row per kernel, copy or fill on the accelerator and category, over the work the steps launched.",
    columns=(
        Column(name="name", dtype="str", meaning="The kernel's name as in the trace."),
        _CATEGORY,
        Column(name="calls", dtype="int64", unit="1", meaning="How often it ran."),
        Column(
            name="total_ms", dtype="float64", unit="ms", meaning="Sum of its run times; streams may run side by side."
        ),
        Column(name="mean_us", dtype="float64", unit="us", meaning="total_ms over calls."),
        Column(name="share", dtype="float64", unit="1", meaning="total_ms over the sum of all rows."),
    ),
)

CATEGORY_TIMES: Final = Table(
    name="categories",
    meaning="One row per device and category: the sums of the table operations.",
    columns=(
        _DEVICE,
        _CATEGORY,
        Column(
            name="calls", dtype="int64", unit="1", meaning="Calls of operations on the host; pieces of device work."
        ),
        Column(name="self_ms", dtype="float64", unit="ms", meaning="Sum of self_ms."),
        Column(name="share", dtype="float64", unit="1", meaning="self_ms over the sum of self_ms on that device."),
    ),
)

STEPS: Final = Table(
    name="steps",
    meaning="One row per profiled step, in order.",
    columns=(
        Column(name="step", dtype="int64", unit="1", meaning="Number of the step in the profiler's schedule."),
        Column(
            name="wall_ms", dtype="float64", unit="ms", meaning="From the begin to the end of the step on the host."
        ),
        Column(
            name="host_busy_ms",
            dtype="float64",
            unit="ms",
            meaning="Time within the step in which any host thread was in an operation, a driver call or the loader.",
        ),
        Column(
            name="device_busy_ms",
            dtype="float64",
            unit="ms",
            meaning="Time within the step in which a kernel, copy or fill ran; missing where the step saw none.",
        ),
        Column(
            name="device_idle_share",
            dtype="float64",
            unit="1",
            meaning="1 - device_busy_ms / wall_ms; missing where the step saw no work on a device.",
        ),
    ),
)

PHASES: Final = Table(
    name="phases",
    meaning="One row per device and phase of the step, in the order of the step; over all profiled steps.",
    columns=(
        _DEVICE,
        Column(name="phase", dtype="str", meaning="data, forward, backward, optimizer, or other."),
        Column(
            name="self_ms",
            dtype="float64",
            unit="ms",
            meaning="Time of the calls that began in the phase; on an accelerator of the work that was launched in it.",
        ),
        Column(name="share", dtype="float64", unit="1", meaning="self_ms over the sum of self_ms on that device."),
        Column(name="convolution_ms", dtype="float64", unit="ms", meaning="Of self_ms, in convolutions."),
        Column(
            name="cudnn_ms", dtype="float64", unit="ms", meaning="Of self_ms, in cuDNN's kernels; missing on the host."
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class TraceTables:
    """The five tables of one trace, as read."""

    operations: "pd.DataFrame"
    kernels: "pd.DataFrame"
    categories: "pd.DataFrame"
    steps: "pd.DataFrame"
    phases: "pd.DataFrame"


TRACE_TABLES: Final = (OPERATIONS, KERNELS, CATEGORY_TIMES, STEPS, PHASES)
"""In the order of TraceTables; a table's name is the name of its field and of its file."""

TraceRows = Mapping[Table, Sequence[Mapping[str, Any]]]
"""The rows of each of TRACE_TABLES as they are made, without pandas."""


def file_name(table: Table) -> str:
    """The file of a table inside a trace's folder of tables."""
    return f"{table.name}.csv"


def as_csv(rows: TraceRows) -> dict[str, str]:
    """File name to CSV text.

    Raises:
        TableError: a row is not as its table declares.
    """
    return {file_name(table): table.rows_to_csv(rows[table]) for table in TRACE_TABLES}


def as_tables(rows: TraceRows) -> TraceTables:
    """The rows as DataFrames.

    Raises:
        TableError: a row is not as its table declares.
    """
    return TraceTables(**{table.name: table.from_rows(rows[table]) for table in TRACE_TABLES})


def empty_trace_rows() -> TraceRows:
    """What the tables of a variant that has no trace hold: no row."""
    return {table: [] for table in TRACE_TABLES}


def read_trace_tables(folder: Path) -> TraceTables:
    """Read the tables from the files that `as_csv` names.

    Raises:
        TableError: a file is missing or does not hold its columns.
    """
    return TraceTables(**{table.name: table.read_csv(folder / file_name(table)) for table in TRACE_TABLES})
