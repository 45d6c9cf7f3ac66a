"""Traces written by hand: one function per kind of event, times in microseconds, and a file or a
Trace made of them.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from msgspec.structs import replace

from gpu_report.traces.attribution import DeviceWork, HostCalls, attribute_device, attribute_host
from gpu_report.traces.grouping import Row
from gpu_report.traces.phases import PHASE_NAMES
from gpu_report.traces.quality import QUALITY, Gate
from gpu_report.traces.reading import read_trace
from gpu_report.traces.tables import MADE_BY, TRACE_TABLES
from gpu_report.traces.trace import Trace

FIXTURES = Path(__file__).parents[2] / "data" / "traces"
GPU_FIXTURES = [
    "unet_cuda",
    "lstm_cuda",
    "transformer_fp16_cuda",
    "unet_compiled_cuda",
    "unet_graph_cuda",
]
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

MAIN = (100, 100)
AUTOGRAD = (100, "autograd")
STREAM = (0, 7)

RawEvent = dict[str, Any]

_ARGUMENT_NAMES = {"external_id": "External id"}


def span(
    kind: str,
    name: str,
    start_us: float,
    duration_us: float,
    *,
    on: tuple[Any, Any],
    **arguments: int,
) -> RawEvent:
    return {
        "ph": "X",
        "cat": kind,
        "name": name,
        "pid": on[0],
        "tid": on[1],
        "ts": start_us,
        "dur": duration_us,
        "args": {_ARGUMENT_NAMES.get(key, key): value for key, value in arguments.items()},
    }


def step(number: int, start_us: float, duration_us: float) -> RawEvent:
    return mark(f"ProfilerStep#{number}", start_us, duration_us)


def mark(name: str, start_us: float, duration_us: float) -> RawEvent:
    return span("user_annotation", name, start_us, duration_us, on=MAIN)


def operation(
    name: str, start_us: float, duration_us: float, *, on: tuple[Any, Any] = MAIN, **arguments: int
) -> RawEvent:
    return span("cpu_op", name, start_us, duration_us, on=on, **arguments)


def launch(
    correlation: int, start_us: float, duration_us: float = 1, *, on: tuple[Any, Any] = MAIN
) -> RawEvent:
    return span(
        "cuda_runtime", "cudaLaunchKernel", start_us, duration_us, on=on, correlation=correlation
    )


def kernel(
    name: str,
    start_us: float,
    duration_us: float,
    *,
    on: tuple[Any, Any] = STREAM,
    **arguments: int,
) -> RawEvent:
    return span("kernel", name, start_us, duration_us, on=on, **arguments)


def write(path: Path, events: list[Any], **metadata: Any) -> Path:
    text = json.dumps({"schemaVersion": 1, **metadata, "traceEvents": events})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def trace_of(*events: RawEvent, **metadata: Any) -> Trace:
    with TemporaryDirectory() as folder:
        return read_trace(write(Path(folder) / "trace.json", list(events), **metadata))


def fixture_file(name: str) -> Path:
    return FIXTURES / f"{name}.pt.trace.json.gz"


@cache
def recorded(name: str) -> Trace:
    """A trace that was recorded on an H100, by the name of its fixture; no test changes it."""
    return read_trace(fixture_file(name))


def made_by(
    make: Callable[[Trace, HostCalls, DeviceWork], Iterable[Row]], trace: Trace
) -> list[Row]:
    """The rows of the table that the function makes, which are as some table declares."""
    calls = attribute_host(trace)
    rows = [*make(trace, calls, attribute_device(trace, calls))]
    (declared,) = (table for table, maker in MADE_BY.items() if maker is make)
    declared.rows_to_csv(rows)
    return rows


def reasons(table: str, column: str, checks: Sequence[dict[str, Any]], **asked: Any) -> list[str]:
    """Why a number of this table and column may not be shown, by rows of QUALITY."""
    (declared,) = (each for each in TRACE_TABLES if each.name == table)
    return Gate({QUALITY: checks}).reasons(declared, column, **asked)


def trusted(table: str, column: str, checks: Sequence[dict[str, Any]], **asked: Any) -> bool:
    return not reasons(table, column, checks, **asked)


def without_marks(trace: Trace) -> Trace:
    """The trace as a loop that sets no marks would have left it."""
    is_loops = np.array([name in (*PHASE_NAMES, "data_transfer") for name in trace.names])[
        trace.marks.name
    ]
    return replace(trace, marks=trace.marks.chosen(~is_loops))
