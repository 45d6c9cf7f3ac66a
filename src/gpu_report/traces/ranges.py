"""What the user's own ranges and the modules of the model cost, on the host and on the device.

marks of the user, calls of modules -> the innermost one around each launch -> sums by name, with
those inside -> RANGES, MODULES
"""

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.traces.attribution import DeviceWork, HostCalls, is_kernel
from gpu_report.traces.grouping import NS_PER_MS, Row, counts, fits, grouped, rows_of, sums
from gpu_report.traces.nesting import cover, innermost_at, lies_in_its_like, with_inner
from gpu_report.traces.phases import PHASE_NAMES
from gpu_report.traces.sources import Running, module_name, modules_of
from gpu_report.traces.trace import NONE, Integers, Trace

_CALLS: Final = whole("calls", "1", "Calls that ran in the steps; nested ones of a name are one.")
_HOST_MS: Final = number("host_ms", "ms", "Time of these calls on the host, within the steps.")
_HOST_SHARE: Final = number("host_share", "1", "host_ms over the wall time of the steps.")
_DEVICE_SHARE: Final = number(
    "device_share", "1", "device_ms over the run time of all that the steps launched."
)
_KERNELS: Final = whole("kernels", "1", "Kernels in device_ms, without copies and memsets.")

RANGES: Final = Table(
    name="ranges",
    meaning=(
        "One row per name of a range that the user marked, such as with record_function, over all "
        "profiled steps. PyTorch's own marks and those of gpu-report's loop are left out."
    ),
    columns=(
        text("name", "The range's name as in the trace."),
        _CALLS,
        _HOST_MS,
        _HOST_SHARE,
        number(
            "device_ms",
            "ms",
            "Sum of the run times of the kernels, copies and memsets that were launched within the "
            "range: on its thread, or by a backward pass for which the loop waited in it. What the "
            "backward pass of its own operations launched after its end does not count. Streams "
            "may run side by side. Missing without an accelerator.",
        ),
        _DEVICE_SHARE,
        _KERNELS,
    ),
)
MODULES: Final = Table(
    name="modules",
    meaning=(
        "One row per module of the model, over all profiled steps; no rows where the profiler "
        "recorded no stacks. Of a record with two profiles the times are those of the rich one, "
        "which slows the host."
    ),
    columns=(
        text("name", "What the profiler calls the module, such as Conv2d_0."),
        _CALLS,
        _HOST_MS,
        _HOST_SHARE,
        number(
            "own_device_ms",
            "ms",
            "The part of device_ms of which the module is the innermost one.",
        ),
        number(
            "device_ms",
            "ms",
            "Sum of the run times of the kernels, copies and memsets that the module launched, "
            "with the modules in it, forward and backward; missing without an accelerator.",
        ),
        number(
            "backward_ms",
            "ms",
            "The part of device_ms that the backward pass launched, which belongs to the module "
            "whose forward operation has the same sequence number.",
        ),
        _DEVICE_SHARE,
        _KERNELS,
    ),
)
_OF_PYTORCH: Final = re.compile(
    r"Optimizer\.|enumerate\(DataLoader\)#|ProfilerStep#|Iteration Start: |PyTorch Profiler"
    r"|(DistributedDataParallel|FullyShardedDataParallel)\.|FSDP2?::|\[param\|"
    r"|(nccl|gloo|mpi|ucc|xccl|hccl|c10d):|record_param_comms"
    r"|Torch-Compiled Region|TorchDynamo |AOTDispatcher |Inductor|Pregraph bytecode|Compiled\w+$"
    r"|## Call Compiled"
)
"""How the names of marks begin that PyTorch itself sets: its optimizers, loader, profiler,
collectives and compiler.
"""

_OF_OUR_LOOP: Final = frozenset((*PHASE_NAMES, "data_transfer"))
"""Marks of the loop that a study times. Other people use these names, too: only a trace that has a
run of gpu-report's has them from it.
"""


def range_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of RANGES, the longest time on the device first, then on the host, then by name."""

    def is_users(name: str) -> bool:
        of_us = trace.run_id is not None and name in _OF_OUR_LOOP
        return not of_us and _OF_PYTORCH.match(name) is None

    marks = Running.of(trace.marks.chosen(fits(trace.names, trace.marks.name, is_users)))
    launch = np.where(work.launch == NONE, work.call, work.launch)
    known = np.flatnonzero(launch != NONE)
    around = np.full(len(launch), NONE)
    around[known] = marks.around(calls.spans, launch[known])
    # The backward pass runs in a thread of its own, while the loop's waits in the range.
    alone = known[(calls.backward[launch[known]] != NONE) & (around[known] == NONE)]
    around[alone] = innermost_at(
        *marks, np.full(len(alone), trace.loop_thread), calls.spans.start_ns[launch[alone]]
    )
    return _rows(RANGES, trace, marks, work, around, np.zeros(len(around), dtype=np.int64))


def module_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of MODULES, in the same order."""
    if not len(trace.functions):
        return []
    known = np.flatnonzero(work.call != NONE)
    launching, which = grouped(work.call[known])
    modules, module, origin = modules_of(trace, calls, launching)
    around, is_backward = np.full(len(work.call), NONE), np.zeros(len(work.call), dtype=np.int64)
    around[known], is_backward[known] = module[which], (origin != launching)[which]
    return _rows(MODULES, trace, modules, work, around, is_backward)


def _rows(
    table: Table,
    trace: Trace,
    running: Running,
    work: DeviceWork,
    around: Integers,
    is_backward: Integers,
) -> list[Row]:
    """Sums by name over what ran within the steps; `around` is the position of the innermost event
    to which each piece of work belongs, NONE where it belongs to none.
    """
    spans, parent = running
    begin_ns, end_ns = trace.step_bounds
    within_ns = cover(begin_ns, end_ns).within(spans.start_ns, spans.end_ns)
    counted = np.flatnonzero((within_ns > 0) & ~lies_in_its_like(parent, spans.name))
    names, group = grouped(spans.name[counted])
    known = around != NONE

    def innermost(values: Integers) -> Integers:
        return sums(around[known], values[known], len(spans))

    def by_name(values: Integers) -> Integers:
        return sums(group, values[counted], len(names))

    work_ns = work.spans.duration_ns
    own_ns = sums(spans.name, innermost(work_ns), len(trace.names))[names]
    device_ns = by_name(with_inner(parent, innermost(work_ns)))
    backward_ns = by_name(with_inner(parent, innermost(work_ns * is_backward)))
    kernels = by_name(with_inner(parent, innermost(is_kernel(trace, work.spans).astype(np.int64))))
    host_ns, nothing = by_name(within_ns), np.nan if trace.device is None else 0.0
    columns: dict[str, npt.NDArray[Any] | list[str]] = {
        "name": [module_name(trace.names[position]) for position in names.tolist()],
        "calls": counts(group, len(names)),
        "host_ms": host_ns / NS_PER_MS,
        "host_share": host_ns / (end_ns - begin_ns).sum(),
        "own_device_ms": own_ns / NS_PER_MS + nothing,
        "device_ms": device_ns / NS_PER_MS + nothing,
        "backward_ms": backward_ns / NS_PER_MS + nothing,
        "device_share": device_ns / max(int(work_ns.sum()), 1) + nothing,
        "kernels": kernels,
    }
    rows = rows_of(range(len(names)), **{name: columns[name] for name in table.column_names})
    return sorted(rows, key=lambda row: (-(row["device_ms"] or 0), -row["host_ms"], row["name"]))
