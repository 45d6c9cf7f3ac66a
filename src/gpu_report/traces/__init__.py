"""What the profiler saw: a trace of torch.profiler, tabulated.

trace file -> Trace -> TraceTables (operations, kernels, categories, steps, phases)
"""

from gpu_report.traces.of_record import tabulate_trace_of
from gpu_report.traces.reading import read_trace
from gpu_report.traces.tables import TRACE_TABLES, TraceTables, empty_trace_tables, read_trace_tables
from gpu_report.traces.tabulating import tabulate_trace
from gpu_report.traces.trace import Trace, TraceError

__all__ = [
    "TRACE_TABLES",
    "Trace",
    "TraceError",
    "TraceTables",
    "empty_trace_tables",
    "read_trace",
    "read_trace_tables",
    "tabulate_trace",
    "tabulate_trace_of",
]
