"""In which phase of the step the time went: what the training loop's own marks hold.

marks `data`, `forward`, `backward`, `optimizer` -> windows of time -> each call's and each launch's phase -> PHASES

A phase is told by time alone, since the backward pass runs in a thread of its own while the loop's thread waits in the
mark. A step that is launched as one, by a CUDA graph, has no phases within: its work is `other`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from gpu_report.traces.attribution import CATEGORY_NAMES, DeviceWork, HostCalls
from gpu_report.traces.nesting import Windows, windows
from gpu_report.traces.schema import HOST
from gpu_report.traces.spans import NONE, Flags, Integers
from gpu_report.traces.trace import Trace

OTHER_PHASE: Final = "other"
PHASE_NAMES: Final = ("data", "forward", "backward", "optimizer", OTHER_PHASE)
"""In the order of the step; all but the last are the marks that the training loop sets."""

_OTHER: Final = PHASE_NAMES.index(OTHER_PHASE)
_CONVOLUTION: Final = CATEGORY_NAMES.index("convolution")
_CUDNN: Final = re.compile(r"(?i)cudnn|[fdw](prop|grad)_|implicit_gemm|rnn_|elemWiseRNN")
_NS_PER_MS: Final = 1e6


def phase_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[dict[str, Any]]:
    """The rows of PHASES of the calls and the device work within the profiled steps, the host first."""
    of_call = _phases_of(calls, _phase_windows(trace))
    device_phase = np.where(work.call == NONE, _OTHER, of_call[work.call]) if len(of_call) else work.call * 0 + _OTHER
    host = _rows(
        HOST,
        of_call[calls.in_step],
        calls.self_ns[calls.in_step],
        is_convolution=calls.category[calls.in_step] == _CONVOLUTION,
        is_cudnn=None,
    )
    device = _rows(
        trace.device or "",
        device_phase,
        work.spans.duration_ns,
        is_convolution=work.category == _CONVOLUTION,
        is_cudnn=_is_cudnn(trace, calls, work),
    )
    return [*host, *device]


def _phase_windows(trace: Trace) -> Windows:
    marks = trace.marks
    phase_of_name = np.array([PHASE_NAMES.index(name) if name in PHASE_NAMES else NONE for name in trace.names])
    phase = phase_of_name[marks.name] if len(marks) else marks.name
    is_phase = phase != NONE
    return windows(marks.start_ns[is_phase], marks.end_ns[is_phase], phase[is_phase])


def _phases_of(calls: HostCalls, phases: Windows) -> Integers:
    """The phase in which each call began; `other` outside of all."""
    phase = phases.at(calls.spans.start_ns)
    return np.where(phase == NONE, _OTHER, phase)


def _is_cudnn(trace: Trace, calls: HostCalls, work: DeviceWork) -> Flags:
    """By the kernel's name, or because an operation of PyTorch that calls cuDNN launched it."""
    by_kernel = np.array([bool(_CUDNN.search(name)) for name in trace.names], dtype=np.bool_)
    by_operation = np.array(["cudnn" in name for name in trace.names], dtype=np.bool_)
    found = by_kernel[work.spans.name] if len(work.spans) else np.zeros(0, dtype=np.bool_)
    pieces = np.flatnonzero(work.call != NONE)
    around = work.call[pieces]
    while len(pieces):
        found[pieces] |= by_operation[calls.spans.name[around]]
        outer = calls.parent[around]
        pieces, around = pieces[outer != NONE], outer[outer != NONE]
    return found


def _rows(
    device: str, phase: Integers, time_ns: Integers, *, is_convolution: Flags, is_cudnn: Flags | None
) -> Iterator[dict[str, Any]]:
    all_ns = int(time_ns.sum())
    for number in np.unique(phase).tolist():
        inside = phase == number
        phase_ns = int(time_ns[inside].sum())
        yield {
            "device": device,
            "phase": PHASE_NAMES[number],
            "self_ms": phase_ns / _NS_PER_MS,
            "share": phase_ns / all_ns if all_ns else None,
            "convolution_ms": int(time_ns[inside & is_convolution].sum()) / _NS_PER_MS,
            "cudnn_ms": None if is_cudnn is None else int(time_ns[inside & is_cudnn].sum()) / _NS_PER_MS,
        }
