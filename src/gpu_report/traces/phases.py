"""In which phase of the step the time went: what the training loop's own marks hold.

marks `data`, `forward`, `backward`, `optimizer` -> windows of time -> each call's and each launch's phase -> PHASES

A phase is told by time alone, since the backward pass runs in a thread of its own while the loop's thread waits in the
mark. A step that is launched as one, by a CUDA graph, has no phases within: its work is `other`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_report.traces.attribution import DeviceWork, HostCall
from gpu_report.traces.nesting import Windows
from gpu_report.traces.tables import HOST, PHASES
from gpu_report.traces.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

OTHER_PHASE: Final = "other"
PHASE_NAMES: Final = ("data", "forward", "backward", "optimizer", OTHER_PHASE)
"""In the order of the step; all but the last are the marks that the training loop sets."""

_CUDNN: Final = re.compile(r"(?i)cudnn|[fdw](prop|grad)_|implicit_gemm|rnn_|elemWiseRNN")
_NS_PER_MS: Final = 1e6


@dataclass(slots=True)
class _Times:
    all_ns: int = 0
    convolution_ns: int = 0
    cudnn_ns: int = 0

    def add(self, duration_ns: int, *, category: str, is_cudnn: bool) -> None:
        self.all_ns += duration_ns
        self.convolution_ns += duration_ns if category == "convolution" else 0
        self.cudnn_ns += duration_ns if is_cudnn else 0


def tabulate_phases(trace: Trace, calls: Iterable[HostCall], work: Iterable[DeviceWork]) -> "pd.DataFrame":
    """The table PHASES of the calls and the device work within the profiled steps, the host first."""
    windows = Windows.of((mark.start_ns, mark.end_ns, mark.name) for mark in trace.marks if mark.name in PHASE_NAMES)
    host: dict[str, _Times] = defaultdict(_Times)
    for call in calls:
        if call.in_step:
            host[_phase_of(call, windows)].add(call.self_ns, category=call.category, is_cudnn=False)
    device: dict[str, _Times] = defaultdict(_Times)
    for piece in work:
        device[_phase_of(piece.call, windows)].add(
            piece.event.duration_ns, category=piece.category, is_cudnn=_is_cudnn(piece)
        )
    return PHASES.from_rows([*_rows(host, HOST), *_rows(device, trace.device or "")])


def _phase_of(call: HostCall | None, windows: Windows[str]) -> str:
    """The phase in which the call began; `other` outside of all, and where the call is not known."""
    return (windows.at(call.event.start_ns) if call else None) or OTHER_PHASE


def _is_cudnn(piece: DeviceWork) -> bool:
    """By the kernel's name, or because an operation of PyTorch that calls cuDNN launched it."""
    operations = [piece.call, *piece.call.outer()] if piece.call else []
    return bool(_CUDNN.search(piece.event.name)) or any("cudnn" in call.event.name for call in operations)


def _rows(times: Mapping[str, _Times], device: str) -> list[dict[str, Any]]:
    all_ns = sum(row.all_ns for row in times.values())
    return [
        {
            "device": device,
            "phase": phase,
            "self_ms": times[phase].all_ns / _NS_PER_MS,
            "share": times[phase].all_ns / all_ns if all_ns else None,
            "convolution_ms": times[phase].convolution_ns / _NS_PER_MS,
            "cudnn_ms": None if device == HOST else times[phase].cudnn_ns / _NS_PER_MS,
        }
        for phase in PHASE_NAMES
        if phase in times
    ]
