"""From one variant's record and the folder of its trace to its trace tables."""

from pathlib import Path

from gpu_report.records import Record
from gpu_report.traces.reading import read_trace
from gpu_report.traces.tables import TraceRows, empty_trace_rows
from gpu_report.traces.tabulating import tabulate_trace
from gpu_report.traces.trace import TraceError


def tabulate_trace_of(record: Record, folder: Path) -> TraceRows:
    """The rows of the tables of the trace that a record names; a variant that was not profiled has none.

    Raises:
        TraceError: the trace is missing or damaged, or holds no step.
    """
    if record.profile is None:
        return empty_trace_rows()
    path = folder / record.profile.trace_file
    try:
        trace = read_trace(path)
        if not trace.has_steps:
            raise TraceError(f"trace {path}: it holds no ProfilerStep, so no step was profiled")
        return tabulate_trace(trace)
    except TraceError as error:
        raise TraceError(f"{error}; measure the variant again with: gpu-report run {record.variant}") from error
