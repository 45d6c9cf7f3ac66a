"""The rows of PHASES of a trace, and the trace as a loop without marks would have left it."""

from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from gpu_report.traces.attribution import attribute_device, attribute_host
from gpu_report.traces.phases import PHASE_NAMES, PHASES, phase_rows
from gpu_report.traces.trace import Trace

FIXTURES = Path(__file__).parents[2] / "data" / "traces"
ALL_FIXTURES = ["unet_cuda", "lstm_cuda", "transformer_fp16_cuda", "unet_compiled_cuda", "unet_graph_cuda"]

Row = dict[str, Any]


def rows_of(trace: Trace) -> list[Row]:
    calls = attribute_host(trace)
    rows = phase_rows(trace, calls, attribute_device(trace, calls))
    assert PHASES.rows_to_csv(rows)
    return rows


def phases_on(device: str, rows: list[Row]) -> dict[str, Row]:
    return {row["phase"]: row for row in rows if row["device"] == device}


def self_us(device: str, rows: list[Row]) -> dict[str, float]:
    """Phase to time in microseconds, as the events by hand have it."""
    return {phase: round(1000 * row["self_ms"], 6) for phase, row in phases_on(device, rows).items()}


def without_marks(trace: Trace) -> Trace:
    """The trace as a loop that sets no marks would have left it."""
    is_loops = np.array([name in (*PHASE_NAMES, "data_transfer") for name in trace.names])[trace.marks.name]
    return replace(trace, marks=trace.marks.chosen(~is_loops))
