"""Which module of the model and function of the user's code a call came from, and which calls
waited for a device.

calls -> the Python functions that ran on their thread at their time -> Origins
waiting driver calls -> the operation and the user's function around each -> Wait

The backward pass runs on a thread that no Python function runs on: its calls come from where their
counterparts in the forward pass, which have the same sequence number, were made.
"""

import re
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from gpu_report.traces.attribution import (
    EVALUATING,
    HostCalls,
    at_positions,
    attribute_host,
    is_upload,
    is_waiting,
    last_with_id,
    step_at,
)
from gpu_report.traces.grouping import counts, fits, grouped, sums
from gpu_report.traces.nesting import begin_order, innermost_at, nearest, nest, outermost
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


class Origins(NamedTuple):
    """For each call the positions of the names of its module and of its function; NONE where there
    is none.
    """

    module: Integers
    function: Integers


class Wait(NamedTuple):
    """How often and how long an operation, called from a source line, waited for the device.

    `source` is `file(line): function`, the line being where the function begins; it and `operation`
    are empty where the trace does not show them.
    """

    operation: str
    source: str
    calls: int
    total_ns: int


def origins(trace: Trace, calls: HostCalls, chosen: Integers) -> Origins:
    """Where the calls at the chosen positions came from.

    A call of the backward pass that no module is around, came from where its forward counterpart
    did. Where none is recorded, from the function that waited for it.
    """
    if not len(trace.functions):
        return Origins(np.full(len(chosen), NONE), np.full(len(chosen), NONE))
    modules, module, origin = modules_of(trace, calls, chosen)
    functions = Running.functions(trace, is_users_own)
    function = functions.names_around(calls.spans, origin)
    return Origins(
        module=at_positions(modules.spans.name, module, missing=NONE),
        function=np.where(function == NONE, functions.names_around(calls.spans, chosen), function),
    )


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
    evaluating = fits(trace.names, calls.spans.name, lambda name: name.startswith(EVALUATING))
    backward = nearest(calls.parent, evaluating)
    candidates = np.flatnonzero((sequence > 0) & (backward == NONE))
    by_time = candidates[np.argsort(calls.spans.start_ns[candidates], kind="stable")]
    forward = last_with_id(
        at_positions(sequence, backward[chosen], missing=NONE), sequence, by_time
    )
    origin = np.where((direct == NONE) & (forward != NONE), forward, chosen)
    return modules, modules.around(calls.spans, origin), origin


def waits(trace: Trace) -> list[Wait]:
    """The waits of the training loop for the device within the steps, the longest first; each
    outermost call that waits counts once.

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
    found = [
        Wait(names[place // every], names[place % every], count, total_ns)
        for place, count, total_ns in zip(
            places.tolist(),
            counts(group, len(places)).tolist(),
            sums(group, waited_ns, len(places)).tolist(),
            strict=True,
        )
    ]
    return sorted(found, key=lambda wait: (-wait.total_ns, wait.operation, wait.source))


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
        return cls(spans, nest(spans).parent)

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
