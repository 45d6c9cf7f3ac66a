"""Which module of the model and which function of the user's code a call came from, where the profiler recorded stacks.

calls -> the Python functions that ran on their thread at their time -> Origins

The backward pass runs on a thread that no Python function runs on: its calls come from where their counterparts in the
forward pass, which have the same sequence number, were made.
"""

import re
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from gpu_report.traces.attribution import HostCalls
from gpu_report.traces.grouping import fits
from gpu_report.traces.nesting import begin_order, innermost_at, nest
from gpu_report.traces.operations import outwards
from gpu_report.traces.spans import NONE, Flags, Integers, Spans
from gpu_report.traces.trace import Trace

_MODULE: Final = "nn.Module: "
_BACKWARD: Final = "autograd::engine::evaluate_function: "
_FUNCTION: Final = re.compile(r"(?P<file>[^<>]+\.py)\(\d+\): .+")
_GENERATED: Final = re.compile(r"(^|.*/)[a-z0-9]{2}/c[a-z2-7]{51}\.py")
"""What torch.compile writes and runs, each file in a folder named by the middle of its hash."""
_MEASURING: Final = re.compile(r"(^|.*/)gpu_report/measure/[^/]+\.py")
"""The loop that trains is ours; a model without a `forward` of its own, such as nn.Sequential, is called from there."""
_INSTALLED: Final = re.compile(r"^.*(?:site-packages|dist-packages|lib/python\d[\d.]*)/")
_LIBRARIES: Final = frozenset(
    (
        *("torch", "torchvision", "torchaudio", "torchtext", "torchgen", "functorch", "triton", "apex", "deepspeed"),
        *("lightning", "pytorch_lightning", "lightning_fabric", "ignite", "accelerate", "transformers", "timm"),
        *("numpy", "scipy", "pandas", "PIL", "cv2", "datasets", "einops", "tqdm"),
    )
)
"""Packages that training is written with, besides the standard library: of their code the caller is asked for."""


class Origins(NamedTuple):
    """For each call the positions of the names of its module and of its function; NONE where there is none."""

    module: Integers
    function: Integers


def origins(trace: Trace, calls: HostCalls, chosen: Integers) -> Origins:
    """Where the calls at the chosen positions came from.

    A call of the backward pass that no module is around, came from where its forward counterpart did. Where none is
    recorded, from the function that waited for it.
    """
    if not len(trace.functions):
        return Origins(np.full(len(chosen), NONE), np.full(len(chosen), NONE))
    modules = _Running.of(trace, lambda name: name.startswith(_MODULE))
    functions = _Running.of(trace, is_users_own)
    direct = modules.names_around(calls, chosen)
    forward = _forward_counterparts(trace, calls, chosen)
    origin = np.where((direct == NONE) & (forward != NONE), forward, chosen)
    function = functions.names_around(calls, origin)
    return Origins(
        module=modules.names_around(calls, origin),
        function=np.where(function == NONE, functions.names_around(calls, chosen), function),
    )


def module_name(name: str) -> str:
    """What the profiler calls a module, without the words before it: `Conv2d_0`."""
    return name.removeprefix(_MODULE)


def is_users_own(function: str) -> bool:
    """Whether a function, as the profiler names it, is in a file that no library, nor Python, nor our loop brought."""
    match = _FUNCTION.fullmatch(function)
    if not match:
        return False
    file = match["file"].replace("\\", "/")
    if _GENERATED.fullmatch(file) or _MEASURING.fullmatch(file):
        return False
    package = _INSTALLED.sub("", file).partition("/")[0].removesuffix(".py")
    return package not in _LIBRARIES and package not in sys.stdlib_module_names


class _Running(NamedTuple):
    """Some of the Python functions in `begin_order`, with what each began in."""

    spans: Spans
    parent: Integers

    @classmethod
    def of(cls, trace: Trace, is_wanted: Callable[[str], bool]) -> "_Running":
        """Those whose names are wanted."""
        wanted = trace.functions.chosen(fits(trace.names, trace.functions.name, is_wanted))
        spans = wanted.chosen(begin_order(wanted))
        return cls(spans, nest(spans).parent)

    def names_around(self, calls: HostCalls, chosen: Integers) -> Integers:
        """The name of the innermost that ran when each of the chosen calls began, NONE where none did."""
        if not len(self.spans):
            return np.full(len(chosen), NONE)
        found = innermost_at(self.spans, self.parent, calls.spans.thread[chosen], calls.spans.start_ns[chosen])
        return np.where(found == NONE, NONE, self.spans.name[found])


def _forward_counterparts(trace: Trace, calls: HostCalls, chosen: Integers) -> Integers:
    """The forward call with the sequence number of the backward function around each call, NONE without one.

    Calls that record nothing for the backward pass bear the number of the next one that does, so that of all with one
    number the last begun is the counterpart (torch.autograd.profiler.emit_nvtx explains the numbers).
    """
    sequence = calls.spans.sequence
    evaluating = fits(trace.names, calls.spans.name, lambda name: name.startswith(_BACKWARD))
    function = _innermost_of(calls, chosen, evaluating)
    wanted = np.where(function == NONE, NONE, sequence[function])
    numbered = np.flatnonzero(sequence > 0)
    candidates = numbered[_innermost_of(calls, numbered, evaluating) == NONE]
    if not len(candidates):
        return np.full(len(chosen), NONE)
    candidates = candidates[np.lexsort((calls.spans.start_ns[candidates], sequence[candidates]))]
    last = np.searchsorted(sequence[candidates], wanted, side="right") - 1
    found = candidates[np.maximum(last, 0)]
    return np.where((wanted > 0) & (last >= 0) & (sequence[found] == wanted), found, NONE)


def _innermost_of(calls: HostCalls, chosen: Integers, is_wanted: Flags) -> Integers:
    """The innermost wanted call that is each chosen one or lies around it, NONE where there is none."""
    found = np.where(is_wanted[chosen], chosen, NONE) if len(chosen) else chosen
    searching = np.arange(len(chosen))
    for outer in outwards(calls, chosen):
        searching, around = searching[outer != NONE], outer[outer != NONE]
        hits = is_wanted[around] & (found[searching] == NONE)
        found[searching[hits]] = around[hits]
    return found
