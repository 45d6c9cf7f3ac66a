"""What Holistic Trace Analysis reads from our traces, and what it says of them, where its
definitions are ours.

HTA is told to keep nanoseconds; by itself it shortens every event to whole microseconds.
"""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from gpu_report.traces.nesting import cover_of
from gpu_report.traces.reading import read_trace
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import FIXTURES

NS_PER_US = 1000
NS_PER_MS = 10**6
KEEPING_NANOSECONDS = {**os.environ, "HTA_DISABLE_NS_ROUNDING": "1"}

# In a process of its own: HTA changes pandas' options and warns of what it does.
ASKED = """
import json, sys, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
_, kernels = analysis.get_gpu_kernel_breakdown(
    visualize=False, num_kernels=10_000, include_memory_kernels=True
)
overlap = analysis.get_comm_comp_overlap(visualize=False)
breakdown = analysis.get_temporal_breakdown(visualize=False)
print(json.dumps({
    "kernels": dict(zip(kernels["name"], kernels["sum (us)"])),
    "idle_us": float(breakdown["idle_time(us)"].iloc[0]),
    "overlap_percent": float(overlap["comp_comm_overlap_pctg"].iloc[0]),
    "busy_us": float((breakdown["compute_time(us)"] + breakdown["non_compute_time(us)"]).iloc[0]),
}))
"""


@pytest.fixture(scope="module", params=["unet_cuda", "lstm_cuda", "ddp_cuda"])
def compared(request: pytest.FixtureRequest) -> tuple[Trace, dict[str, Any]]:
    path = FIXTURES / f"{request.param}.pt.trace.json.gz"
    command = [sys.executable, "-c", ASKED, str(path)]
    printed = subprocess.run(
        command, check=True, capture_output=True, text=True, env=KEEPING_NANOSECONDS
    ).stdout
    return read_trace(path), json.loads(printed.splitlines()[-1])


def test_every_kernel_takes_as_long_as_hta_says(compared: tuple[Trace, dict[str, Any]]) -> None:
    trace, hta = compared
    for position in np.unique(trace.work.name):
        which = trace.work.name == position
        ours_us = trace.work.duration_ns[which].sum() / NS_PER_US
        theirs_us = hta["kernels"][trace.names[position]]
        assert ours_us == pytest.approx(theirs_us, abs=0.01 * which.sum()), trace.names[position]
    assert len(hta["kernels"]) == len(np.unique(trace.work.name))


def test_the_accelerator_is_busy_and_idle_as_long_as_hta_says(
    compared: tuple[Trace, dict[str, Any]],
) -> None:
    trace, hta = compared
    begin_ns, end_ns = trace.work.start_ns.min(), trace.work.end_ns.max()
    busy_us = (
        cover_of(trace.work).within(np.array([begin_ns]), np.array([end_ns])).item() / NS_PER_US
    )
    assert busy_us == pytest.approx(hta["busy_us"], abs=1)
    assert (end_ns - begin_ns) / NS_PER_US - busy_us == pytest.approx(hta["idle_us"], abs=1)
