"""Rows of a trace's tables of which each rule of the advice has something to say, and what it says."""

from pathlib import Path
from typing import Any

from gpu_report.columns import Table
from gpu_report.traces.advice import ADVICE, UNANSWERED, advise
from gpu_report.traces.copies import COPIES
from gpu_report.traces.idle import LAUNCHES
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.memory import MEMORY
from gpu_report.traces.steps import STEPS
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import RawEvent, operation, span, step, trace_of

H100 = {"id": 0, "name": "H100", "totalGlobalMem": 100 * 2**20, "computeMajor": 9}
Tables = dict[Table, list[dict[str, Any]]]


def step_row(**changed: Any) -> dict[str, Any]:
    return {
        "step": 1,
        "wall_ms": 100.0,
        "loader_ms": 0.0,
        "communication_ms": 0.0,
        "device_busy_ms": 90.0,
        "host_busy_ms": 50.0,
        **changed,
    }


def kernel_row(**changed: Any) -> dict[str, Any]:
    return {
        "name": "gemm",
        "category": "matrix product",
        "total_ms": 50.0,
        "tensor_cores": "no",
        "operation": "aten::mm",
        "source": "",
        **changed,
    }


def launch_row(**changed: Any) -> dict[str, Any]:
    return {
        "step": 1,
        "launches": 100,
        "short_share": 0.0,
        "launch_bound_share": 0.0,
        "median_delay_us": 5.0,
        **changed,
    }


def advice_rows(tables: Tables, trace: Trace) -> list[dict[str, Any]]:
    return advise(tables, trace)[ADVICE]


def unanswered(tables: Tables, trace: Trace) -> dict[str, str]:
    return {row["rule"]: row["reason"] for row in advise(tables, trace)[UNANSWERED]}


def waiting(folder: Path, *more: RawEvent, steps: int = 1) -> Trace:
    """One wait in the first step, for 30 of its 100 microseconds."""
    return trace_of(
        folder,
        *(step(number, 100 * (number - 1), 100) for number in range(1, steps + 1)),
        operation("aten::item", 11, 50),
        span("cuda_runtime", "cudaStreamSynchronize", 20, 30, on=(100, 100), correlation=5),
        *more,
        deviceProperties=[H100],
    )


def rules(tables: Tables, trace: Trace) -> list[str]:
    return [row["rule"] for row in advice_rows(tables, trace)]


LIMITED: Tables = {
    STEPS: [step_row(loader_ms=10.0, communication_ms=20.0, device_busy_ms=20.0)],
    LAUNCHES: [launch_row(launch_bound_share=0.5, short_share=0.9)],
    KERNELS: [kernel_row()],
    COPIES: [{"host_memory": "pageable", "total_ms": 5.0, "copies": 2}],
    MEMORY: [{"device": "cuda", "allocated_mib": 50.0, "reserved_mib": 99.0}],
}
