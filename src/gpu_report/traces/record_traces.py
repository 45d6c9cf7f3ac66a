"""From one variant's record and the folders of its traces to its trace tables."""

import math
from pathlib import Path
from typing import Final

from gpu_report.records import MOST_SLOWED, Record, is_as_timed
from gpu_report.traces.grouping import Row
from gpu_report.traces.quality import WORK_ON_DEVICE, row_of
from gpu_report.traces.reading import read_trace
from gpu_report.traces.tables import EMPTY_TABLES, TraceTables, tabulate_trace
from gpu_report.traces.trace import HOST, Trace, TraceError
from gpu_report.variant import Variant

_OF_THE_HOSTS_SPEED: Final = (
    "idle",
    "launches",
    *(
        f"steps.{column}"
        for column in ("runtime_ms", "loader_ms", "operator_ms", "other_ms", "host_busy_ms", "device_idle_share")
    ),
)


def tabulate_trace_of(record: Record, folder: Path, rich_folder: Path) -> TraceTables:
    """The rows of the tables of the traces that a record names; a variant that was not profiled has none.

    A record without a rich trace has one that serves for both.

    Raises:
        TraceError: the trace is missing or damaged, or holds no step.
    """
    if record.profile is None:
        return EMPTY_TABLES
    rich_file = record.profile.rich_trace_file
    try:
        trace = _read(folder / record.profile.trace_file)
        return tabulate_trace(
            trace,
            rich=_read(rich_folder / rich_file) if rich_file else None,
            checks=[slowness_of_profiled_steps(record), *_lost_device(record, trace)],
        )
    except TraceError as error:
        raise TraceError(f"{error}; measure the variant again with: gpu-report run {record.variant}") from error


def _read(path: Path) -> Trace:
    trace = read_trace(path)
    if not trace.has_steps:
        raise TraceError(f"trace {path}: it holds no ProfilerStep, so no step was profiled")
    return trace


def slowness_of_profiled_steps(record: Record) -> Row:
    """A row of QUALITY: a step of the light profile takes about as long as one of the median timed epoch.

    What differs is time of the host, so that a failure spoils what separates the host's part from the device's.
    """
    overhead = record.profile_overhead
    is_known = not math.isnan(overhead)
    return row_of(
        "profiled as timed",
        overhead if is_known else 0.0,
        MOST_SLOWED,
        passed=not is_known or is_as_timed(overhead),
        text=f"a profiled step took {overhead:.2f} times a timed one" if is_known else "no step was timed",
        spoils=_OF_THE_HOSTS_SPEED,
    )


def _lost_device(record: Record, trace: Trace) -> list[Row]:
    """A row of QUALITY where the variant trained on an accelerator: a trace without one lost all of its events.

    The vendor's library, which may be refused, records kernels and driver calls; then the trace has neither.
    """
    device = Variant.from_slug(record.variant).device_type
    if device == HOST:
        return []
    text = f"{len(trace.work)} kernels, copies and fills on {device} are in the trace; at least one was expected"
    passed = trace.device is not None
    return [row_of("work on the accelerator", len(trace.work), 1, passed=passed, text=text, spoils=WORK_ON_DEVICE)]
