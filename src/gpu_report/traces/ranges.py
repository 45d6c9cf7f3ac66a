"""Which range of the user, module of the model and function of the user's code a call came from,
what ranges and modules cost, and which calls waited for a device.

marks of the user, calls of modules -> the innermost one around each launch -> sums by name, with
those inside -> RANGES, MODULES
calls -> the Python functions that ran on their thread at their time -> origins
waiting driver calls -> the operation and the user's function around each -> waits

The backward pass runs on a thread that no Python function runs on: its calls come from where their
counterparts in the forward pass, which have the same sequence number, were made.
"""

import re
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.traces.attribution import (
    DeviceWork,
    HostCalls,
    at_positions,
    attribute_host,
    is_kernel,
    is_upload,
    is_waiting,
    last_with_id,
    step_at,
)
from gpu_report.traces.grouping import NS_PER_MS, Row, counts, fits, grouped, rows_of, sums
from gpu_report.traces.nesting import (
    begin_order,
    cover,
    innermost_at,
    lies_in_its_like,
    nest,
    outermost,
    with_inner,
)
from gpu_report.traces.phases import PHASE_NAMES
from gpu_report.traces.trace import NONE, Integers, Spans, Trace

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

_MODULE: Final = "nn.Module: "
_FUNCTION: Final = re.compile(r"(?P<file>[^<>]+\.py)\(\d+\): .+")
_GENERATED: Final = re.compile(r"(^|.*/)[a-z0-9]{2}/c[a-z2-7]{51}\.py")
"""What torch.compile writes and runs, each file in a folder named by the middle of its hash."""

_MEASURING: Final = re.compile(r"(^|.*/)gpu_report/measure/[^/]+\.py")
"""The loop that trains is ours; a model without a `forward` of its own, such as nn.Sequential, is
called from there.
"""

_INSTALLED: Final = re.compile(r"^.*(?:site-packages|dist-packages|lib/python\d[\d.]*)/")
_LIBRARIES: Final = frozenset(
    (
        *(
            "torch",
            "torchvision",
            "torchaudio",
            "torchtext",
            "torchgen",
            "functorch",
            "triton",
            "apex",
            "deepspeed",
        ),
        *(
            "lightning",
            "pytorch_lightning",
            "lightning_fabric",
            "ignite",
            "accelerate",
            "transformers",
            "timm",
        ),
        *("numpy", "scipy", "pandas", "PIL", "cv2", "datasets", "einops", "tqdm"),
    )
)
"""Packages that training is written with, besides the standard library: of their code the caller is
asked for.
"""


class Running(NamedTuple):
    """Events of the host in `begin_order`, with what each began in."""

    spans: Spans
    parent: Integers

    @classmethod
    def of(cls, spans: Spans) -> "Running":
        """Events in any order."""
        spans = spans.chosen(begin_order(spans))
        return cls(spans, nest(spans)[0])

    @classmethod
    def functions(cls, trace: Trace, is_wanted: Callable[[str], bool]) -> "Running":
        """The Python functions whose names are wanted."""
        return cls.of(trace.functions.chosen(fits(trace.names, trace.functions.name, is_wanted)))

    def around(self, calls: Spans, chosen: Integers) -> Integers:
        """The position of the innermost that ran when each of the chosen calls began, NONE where
        none did or the call is NONE.
        """
        thread, start_ns = (
            at_positions(column, chosen, missing=NONE) for column in (calls.thread, calls.start_ns)
        )
        return innermost_at(self.spans, self.parent, thread, start_ns)

    def names_around(self, calls: Spans, chosen: Integers) -> Integers:
        """Its name."""
        return at_positions(self.spans.name, self.around(calls, chosen), missing=NONE)


def range_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of RANGES, the longest time on the device first, then on the host, then by name."""

    def is_users(name: str) -> bool:
        of_us = trace.run_id is not None and name in _OF_OUR_LOOP
        return not of_us and _OF_PYTORCH.match(name) is None

    marks = Running.of(trace.marks.chosen(fits(trace.names, trace.marks.name, is_users)))
    launch = np.where(work.launch == NONE, work.call, work.launch)
    around = marks.around(calls.spans, launch)
    # The backward pass runs in a thread of its own, while the loop's waits in the range.
    is_backward = at_positions(calls.backward, launch, missing=NONE) != NONE
    alone = np.flatnonzero(is_backward & (around == NONE))
    around[alone] = innermost_at(
        *marks, np.full(len(alone), trace.loop_thread), calls.spans.start_ns[launch[alone]]
    )
    return _rows(RANGES, trace, marks, work, around, np.zeros(len(around), dtype=np.int64))


def module_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of MODULES, in the same order."""
    if not len(trace.functions):
        return []
    modules, module, origin = modules_of(trace, calls, work.call)
    is_backward = (origin != work.call).astype(np.int64)
    return _rows(MODULES, trace, modules, work, module, is_backward)


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

    work_ns = work.duration_ns
    own_ns = sums(spans.name, innermost(work_ns), len(trace.names))[names]
    device_ns = by_name(with_inner(parent, innermost(work_ns)))
    backward_ns = by_name(with_inner(parent, innermost(work_ns * is_backward)))
    kernels = by_name(with_inner(parent, innermost(is_kernel(trace, work).astype(np.int64))))
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


def origins(trace: Trace, calls: HostCalls, chosen: Integers) -> tuple[Integers, Integers]:
    """For each call at the chosen positions the positions of the names of its module and of its
    function; NONE where there is none, or no call.

    A call of the backward pass that no module is around, came from where its forward counterpart
    did. Where none is recorded, from the function that waited for it.
    """
    if not len(trace.functions):
        return np.full(len(chosen), NONE), np.full(len(chosen), NONE)
    modules, module, origin = modules_of(trace, calls, chosen)
    functions = Running.functions(trace, is_users_own)
    function = functions.names_around(calls.spans, origin)
    around = np.where(function == NONE, functions.names_around(calls.spans, chosen), function)
    return at_positions(modules.spans.name, module, missing=NONE), around


def modules_of(
    trace: Trace, calls: HostCalls, chosen: Integers
) -> tuple[Running, Integers, Integers]:
    """The calls of modules; which of them is the innermost around each of the chosen calls, NONE
    where none is or the call is NONE; and the call that decided it: the chosen one, or its forward
    counterpart.
    """
    modules = Running.functions(trace, lambda name: name.startswith(_MODULE))
    direct = modules.around(calls.spans, chosen)
    # The forward call with the sequence number of the backward function around each call. Calls
    # that record nothing for the backward pass bear the number of the next one that does, so that
    # of all with one number the last begun is the counterpart (torch.autograd.profiler.emit_nvtx
    # explains the numbers).
    sequence = calls.spans.sequence
    candidates = np.flatnonzero((sequence > 0) & (calls.backward == NONE))
    by_time = candidates[np.argsort(calls.spans.start_ns[candidates], kind="stable")]
    backward = at_positions(calls.backward, chosen, missing=NONE)
    forward = last_with_id(at_positions(sequence, backward, missing=NONE), sequence, by_time)
    origin = np.where((direct == NONE) & (forward != NONE), forward, chosen)
    return modules, modules.around(calls.spans, origin), origin


def waits(trace: Trace) -> list[Row]:
    """How often and how long each operation, called from a source line, made the training loop wait
    for the device within the steps, the longest first; each outermost call that waits counts once.

    The `source` is `file(line): function`, the line being where the function begins; it and
    `operation` are empty where the trace does not show them.

    A call that copies to the device waits as well, where the memory is pageable; it is left out,
    since it is in the table of copies.
    """
    calls = attribute_host(trace)
    spans, root = calls.spans, outermost(calls.parent)
    launch = calls.work.launch
    uploading = root[launch[is_upload(trace, calls.work) & (launch != NONE)]]
    is_asked = is_waiting(trace, calls) & (step_at(trace, spans.start_ns) != NONE)
    waiting = np.flatnonzero(is_asked & ~np.isin(root, uploading))
    asking, group = grouped(root[waiting])
    waited_ns = sums(group, spans.duration_ns[waiting], len(asking))
    operation = np.where(calls.is_driver_call[asking], NONE, spans.name[asking])
    source = Running.functions(trace, is_users_own).names_around(spans, asking)
    every = len(trace.names) + 1
    places, group = grouped((operation + 1) * every + source + 1)
    names = ("", *trace.names)
    rows = rows_of(
        range(len(places)),
        operation=[names[place // every] for place in places.tolist()],
        source=[names[place % every] for place in places.tolist()],
        calls=counts(group, len(places)),
        total_ns=sums(group, waited_ns, len(places)),
    )
    return sorted(rows, key=lambda row: (-row["total_ns"], row["operation"], row["source"]))


def module_name(name: str) -> str:
    """What the profiler calls a module, without the words before it: `Conv2d_0`."""
    return name.removeprefix(_MODULE)


def is_users_own(function: str) -> bool:
    """Whether a function, as the profiler names it, is in a file that no library, nor Python, nor
    our loop brought.
    """
    match = _FUNCTION.fullmatch(function)
    if not match:
        return False
    file = match["file"].replace("\\", "/")
    if _GENERATED.fullmatch(file) or _MEASURING.fullmatch(file):
        return False
    package = _INSTALLED.sub("", file).partition("/")[0].removesuffix(".py")
    return package not in _LIBRARIES and package not in sys.stdlib_module_names
