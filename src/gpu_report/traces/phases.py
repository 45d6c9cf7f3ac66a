"""In which phase of the step the time went: what the training loop's own marks hold, or else what
autograd shows.

marks `data`, `forward`, `backward`, `optimizer` -> windows -> the phase of each call and launch ->
PHASES
no such mark -> calls of autograd, of the optimizer, of the loader -> phases of the outermost calls
-> the same

With marks, a phase follows from time alone, since the backward pass runs in a thread of its own
while the loop's thread waits in the mark. Beside one of the four, marks `loss` are a phase too,
marks `data_transfer` count as `data`, `zero_grad` as `optimizer`.

Without marks, the first of these that holds for a call or for one around it decides its phase:

- It is autograd's `evaluate_function`: backward.
- It runs in `Optimizer.step` or `Optimizer.zero_grad`, or is of the category optimizer: optimizer.
  Where the optimizer calls a closure, its own work begins only after the closure's last backward
  function.
- It waits for the loader, or copies from the host to the device: data. So is a constant that the
  model itself copies.
- It has a number in autograd's sequence, and a backward pass of the step begins after it; or it
  begins before the first of the step, or in a step without any: forward.
- It begins before the last backward function of the step: backward, such as the engine's own sums
  between functions.

All else is `other`, such as reading the loss after the backward pass. So is the work of a step that
is launched as one, by a CUDA graph, where no uncaptured step shows its operations (graphs.py).
"""

import re
from typing import Final

import numpy as np

from gpu_report.storage.columns import Table, number, text
from gpu_report.traces.attribution import (
    DeviceWork,
    HostCalls,
    at_positions,
    is_of,
    is_upload,
    step_at,
)
from gpu_report.traces.grouping import (
    DEVICE,
    NS_PER_MS,
    Row,
    fits,
    grouped,
    numbers_of,
    rows_of,
    shares,
    sums,
)
from gpu_report.traces.nesting import Windows, nearest, outermost, windows, with_inner
from gpu_report.traces.trace import HOST, NONE, Flags, Integers, Trace

PHASES: Final = Table(
    name="phases",
    meaning="One row per device and phase of the step, in the order of the step; over all "
    "profiled steps.",
    columns=(
        DEVICE,
        text(
            "phase",
            "data, forward, loss (where the trace marks it), backward, optimizer, or other.",
        ),
        number(
            "self_ms",
            "ms",
            "Time of the calls that began in the phase, or of the device work launched in it.",
        ),
        number("share", "1", "self_ms over the sum of self_ms on that device."),
        number("convolution_ms", "ms", "Of self_ms, in convolutions."),
        number("cudnn_ms", "ms", "Of self_ms, in cuDNN's kernels; missing on the host."),
    ),
)
OTHER_PHASE: Final = "other"
PHASE_NAMES: Final = ("data", "forward", "loss", "backward", "optimizer", OTHER_PHASE)
"""In the order of the step; all but the last are the marks that a training loop sets. `loss` is
part of `forward` where it has no mark of its own.
"""

_DATA, _FORWARD, _LOSS, _BACKWARD, _OPTIMIZER, _OTHER = range(len(PHASE_NAMES))
_MARKS: Final = {"data": _DATA, "forward": _FORWARD, "backward": _BACKWARD, "optimizer": _OPTIMIZER}
_MARKS_BESIDE: Final = {"data_transfer": _DATA, "loss": _LOSS, "zero_grad": _OPTIMIZER}
"""Marks of other people's loops; too vague to be trusted alone."""

_CUDNN: Final = re.compile(r"(?i)cudnn|[fdw](prop|grad)_|implicit_gemm|rnn_|elemWiseRNN")
_COPYING: Final = re.compile(r"aten::(to|_to_copy|copy_)")


def phase_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of PHASES of the calls and the device work within the profiled steps, the host
    first.
    """
    of_call = _phases(trace, calls, work)
    # By the kernel's name, or because an operation of PyTorch that calls cuDNN launched it.
    by_operation = fits(trace.names, calls.spans.name, lambda name: "cudnn" in name)
    is_inside = nearest(calls.parent, by_operation) != NONE
    is_cudnn = fits(trace.names, work.name, _CUDNN.search)
    is_cudnn |= at_positions(is_inside, work.call, missing=False)
    host = _rows(
        HOST,
        of_call[calls.in_step],
        calls.self_ns[calls.in_step],
        is_convolution=is_of(calls.category, "convolution")[calls.in_step],
        is_cudnn=None,
    )
    device = _rows(
        trace.device or "",
        at_positions(of_call, work.call, missing=_OTHER),
        work.duration_ns,
        is_convolution=is_of(work.category, "convolution"),
        is_cudnn=is_cudnn,
    )
    return [*host, *device]


def is_of_data(trace: Trace, calls: HostCalls, work: DeviceWork) -> Flags:
    """Which pieces of work were launched to bring the next batch."""
    return np.equal(at_positions(_phases(trace, calls, work), work.call, missing=_OTHER), _DATA)


def phase_stretches(
    trace: Trace, calls: HostCalls, work: DeviceWork
) -> tuple[Integers, Integers, Integers]:
    """Begin, end and phase, a position in PHASE_NAMES, of stretches of the host's time; those of
    `other` may overlap.

    With marks they are the marks, and the calls outside of them. Without, they are the outermost
    calls; each lasts until the next begins where that is of the same phase, and never longer.
    """
    outer = np.flatnonzero((calls.parent == NONE) & calls.in_step)
    outer = outer[np.argsort(calls.spans.start_ns[outer], kind="stable")]
    phase = _phases(trace, calls, work)[outer]
    begin_ns, end_ns = calls.spans.start_ns[outer], calls.spans.end_ns[outer]
    marked = _marked_windows(trace)
    if marked is not None:
        columns = zip(
            marked, (column[phase == _OTHER] for column in (begin_ns, end_ns, phase)), strict=True
        )
        begin_ns, end_ns, phase = (np.append(of_marks, of_calls) for of_marks, of_calls in columns)
        return begin_ns, end_ns, phase
    next_ns = np.append(begin_ns[1:], end_ns[-1:])
    goes_on = np.append(phase[1:] == phase[:-1], False)[: len(phase)]
    return begin_ns, np.where(goes_on, next_ns, np.minimum(end_ns, next_ns)), phase


def _phases(trace: Trace, calls: HostCalls, work: DeviceWork) -> Integers:
    marked = _marked_windows(trace)
    if marked is not None:
        phase = marked.at(calls.spans.start_ns)
        return np.where(phase == NONE, _OTHER, phase)
    is_evaluating = calls.backward == np.arange(len(calls.spans))
    rules = (
        _is_optimizing(trace, calls, is_evaluating),
        is_of(calls.category, "data loading") | _copies_to_device(trace, calls, work),
    )
    holds = [nearest(calls.parent, rule) != NONE for rule in rules]
    return np.select(
        [calls.backward != NONE, *holds],
        [_BACKWARD, _OPTIMIZER, _DATA],
        default=_phases_by_time(trace, calls, is_evaluating),
    )


def _marked_windows(trace: Trace) -> Windows | None:
    marks = trace.marks
    if not fits(trace.names, marks.name, _MARKS.__contains__).any():
        return None
    phases = _MARKS | _MARKS_BESIDE
    phase = numbers_of(trace.names, marks.name, lambda name: phases.get(name, NONE))
    is_phase = phase != NONE
    return windows(marks.start_ns[is_phase], marks.end_ns[is_phase], phase[is_phase])


def _is_optimizing(trace: Trace, calls: HostCalls, is_evaluating: Flags) -> Flags:
    """Which calls the optimizer makes itself, and not the closure that its step calls before."""
    marks = trace.marks.chosen(
        fits(trace.names, trace.marks.name, lambda name: name.startswith("Optimizer."))
    )
    begins_ns = np.append(NONE, np.sort(calls.spans.start_ns[is_evaluating]))
    own_ns = np.maximum(begins_ns[np.searchsorted(begins_ns, marks.end_ns) - 1], marks.start_ns)
    label = np.zeros(len(marks), dtype=np.int64)
    is_closure = windows(marks.start_ns, own_ns, label).at(calls.spans.start_ns) != NONE
    is_own = windows(own_ns, marks.end_ns, label).at(calls.spans.start_ns) != NONE
    found: Flags = is_own | (is_of(calls.category, "optimizer") & ~is_closure)
    return found


def _copies_to_device(trace: Trace, calls: HostCalls, work: DeviceWork) -> Flags:
    """Which calls launched a copy from the host, and the conversions (`aten::to`) around them."""
    uploads = np.zeros(len(calls.spans), dtype=np.int64)
    uploads[work.call[is_upload(trace, work) & (work.call != NONE)]] = 1
    is_around = with_inner(calls.parent, uploads) > 0
    is_copying = fits(trace.names, calls.spans.name, _COPYING.fullmatch)
    found: Flags = (uploads > 0) | (is_copying & is_around)
    return found


def _phases_by_time(trace: Trace, calls: HostCalls, is_evaluating: Flags) -> Integers:
    """Forward, backward or other: whether the outermost call around each begins before the step's
    backward functions.

    For calls outside of the steps the result means nothing.
    """
    spans = calls.spans
    root = outermost(calls.parent)
    has_sequence = np.zeros(len(spans), dtype=np.bool_)
    has_sequence[root[spans.sequence != NONE]] = True
    step = step_at(trace, spans.start_ns)[root]
    none_yet = np.iinfo(np.int64).max
    first_ns = np.full(max(len(trace.steps), 1), none_yet)
    last_ns = np.full(len(first_ns), NONE)
    begun = is_evaluating & (step != NONE)
    np.minimum.at(first_ns, step[begun], spans.start_ns[begun])
    np.maximum.at(last_ns, step[begun], spans.start_ns[begun])
    # A step without any is forward to its end, unless it launches a graph: then nothing is known
    # of it.
    launches = fits(trace.names, spans.name, lambda name: name.endswith("GraphLaunch"))
    has_graph = np.isin(np.arange(len(first_ns)), step[launches & (step != NONE)])
    first_ns[has_graph & (first_ns == none_yet)] = NONE
    begin_ns = spans.start_ns[root]
    is_forward = (begin_ns < first_ns[step]) | (has_sequence[root] & (begin_ns < last_ns[step]))
    return np.where(is_forward, _FORWARD, np.where(begin_ns < last_ns[step], _BACKWARD, _OTHER))


def _rows(
    device: str,
    phase: Integers,
    time_ns: Integers,
    *,
    is_convolution: Flags,
    is_cudnn: Flags | None,
) -> list[Row]:
    found, group = grouped(phase)
    phase_ns = sums(group, time_ns, len(found))
    return rows_of(
        range(len(found)),
        device=[device] * len(found),
        phase=[PHASE_NAMES[number] for number in found.tolist()],
        self_ms=phase_ns / NS_PER_MS,
        share=shares(phase_ns),
        convolution_ms=sums(group, time_ns * is_convolution, len(found)) / NS_PER_MS,
        cudnn_ms=[None] * len(found)
        if is_cudnn is None
        else sums(group, time_ns * is_cudnn, len(found)) / NS_PER_MS,
    )
