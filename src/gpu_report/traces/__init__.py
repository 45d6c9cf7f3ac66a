"""What the profiler saw: a trace of torch.profiler, tabulated; `gpu_report.traces.of_record` is for a record's trace.

trace file -> Trace -> TraceRows -> CSV files -> TraceTables; `schema` declares each table
"""

from gpu_report.traces.reading import read_trace
from gpu_report.traces.tables import (
    TRACE_TABLES,
    TraceRows,
    TraceTables,
    as_csv,
    as_tables,
    empty_trace_rows,
    read_trace_tables,
)
from gpu_report.traces.tabulating import tabulate_trace
from gpu_report.traces.trace import Trace, TraceError

__all__ = [
    "TRACE_TABLES",
    "Trace",
    "TraceError",
    "TraceRows",
    "TraceTables",
    "as_csv",
    "as_tables",
    "empty_trace_rows",
    "read_trace",
    "read_trace_tables",
    "tabulate_trace",
]
