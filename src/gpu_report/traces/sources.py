"""Which module of the model and function of the user's code a call came from, and which calls
waited for a device.

calls -> the Python functions that ran on their thread at their time -> origins
waiting driver calls -> the operation and the user's function around each -> waits

The backward pass runs on a thread that no Python function runs on: its calls come from where their
counterparts in the forward pass, which have the same sequence number, were made.
"""

import re
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from gpu_report.traces.attribution import (
    HostCalls,
    at_positions,
    attribute_host,
    is_upload,
    is_waiting,
    last_with_id,
    step_at,
)
from gpu_report.traces.grouping import Row, counts, fits, grouped, rows_of, sums
from gpu_report.traces.nesting import begin_order, innermost_at, nest, outermost
from gpu_report.traces.trace import NONE, Integers, Spans, Trace

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


def origins(trace: Trace, calls: HostCalls, chosen: Integers) -> tuple[Integers, Integers]:
    """For each call at the chosen positions the positions of the names of its module and of its
    function; NONE where there is none.

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
) -> tuple["Running", Integers, Integers]:
    """The calls of modules; which of them is the innermost around each of the chosen calls, NONE
    where none is; and the call that decided it: the chosen one, or its forward counterpart.
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
    forward = last_with_id(
        at_positions(sequence, calls.backward[chosen], missing=NONE), sequence, by_time
    )
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
    uploading = root[calls.launch[is_upload(trace, trace.work) & (calls.launch != NONE)]]
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
        none did.
        """
        return innermost_at(self.spans, self.parent, calls.thread[chosen], calls.start_ns[chosen])

    def names_around(self, calls: Spans, chosen: Integers) -> Integers:
        """Its name."""
        return at_positions(self.spans.name, self.around(calls, chosen), missing=NONE)
