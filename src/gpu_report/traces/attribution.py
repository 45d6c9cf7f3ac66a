"""Who did what within the profiled steps: host calls with their own time, device work with the call
that launched it.

Trace -> HostCalls (each with its parent, own time, category) -> DeviceWork (each with its call,
category)
"""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from gpu_report.traces.categories import CATEGORIES, OTHER, category_by_itself, category_by_name
from gpu_report.traces.grouping import fits, numbers_of
from gpu_report.traces.nesting import (
    Windows,
    begin_order,
    cover,
    innermost_at,
    nearest,
    nest,
    outermost,
)
from gpu_report.traces.trace import NONE, RUNTIME, CallSpans, Flags, Integers, Trace, WorkSpans
from gpu_report.traces.vendors import NAMES, TO_DEVICE, copy_kind

CATEGORY_NAMES: Final = tuple(CATEGORIES)
"""What a column of categories counts through."""

EVALUATING: Final = "autograd::engine::evaluate_function"
"""How the name of a call begins in which autograd runs one function of the backward pass."""

Value = TypeVar("Value", bound=np.generic)

_NUMBER_OF: Final = {name: number for number, name in enumerate(CATEGORY_NAMES)}
_CONTEXTS: Final = tuple(_NUMBER_OF[name] for name in ("optimizer", "data loading"))
"""Categories that a mark of PyTorch's own (`Optimizer.step#...`) gives to every operation inside
it.
"""

_SAYS_NOTHING: Final = (NONE, *(_NUMBER_OF[name] for name in (OTHER, "runtime", "dispatch")))
"""Categories of a launching call that say nothing of the work it launched."""


class DeviceWork(WorkSpans, frozen=True, kw_only=True):
    """Kernels, copies and fills with who launched them: `launch` is the position of the driver
    call, `call` that of the operation around it; NONE where none is recorded.

    Work without such a driver call has the operation that it names itself, and so has that of a
    graph if it names one. `in_graph` marks work of a graph's replay.
    """

    launch: Integers
    call: Integers
    category: Integers
    in_graph: Flags


class HostCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Operations and driver calls on the host, threads one after the other; columns of one number
    per call.

    `parent` is the position of the call it began in, on the same thread. `is_driver_call` marks
    calls into the accelerator's driver; the others are operations of PyTorch. A call is in a step
    where the outermost call around it began in one.

    `backward` is the position of the call around it in which autograd runs a function of the
    backward pass, its own where it is one, NONE outside of all.

    `work` is all device work of the trace.
    """

    spans: CallSpans
    parent: Integers
    self_ns: Integers
    category: Integers
    in_step: Flags
    is_driver_call: Flags
    backward: Integers
    work: DeviceWork


Attributed = tuple[Trace, HostCalls, DeviceWork]


def attribute(trace: Trace) -> Attributed:
    """The trace with who did what in it."""
    calls = attribute_host(trace)
    return trace, calls, attribute_device(trace, calls)


def attribute_host(trace: Trace) -> HostCalls:
    """Every host call of the trace."""
    calls, work = trace.calls, trace.work
    parent, self_ns = nest(calls)
    is_driver_call = fits(trace.kinds, calls.kind, RUNTIME.fullmatch)
    is_evaluating = fits(trace.names, calls.name, lambda name: name.startswith(EVALUATING))
    driver_calls, operations = np.flatnonzero(is_driver_call), np.flatnonzero(~is_driver_call)
    launch = last_with_id(work.correlation, calls.correlation, driver_calls)
    around = at_positions(operations_around(parent, is_driver_call), launch, missing=NONE)
    named = last_with_id(work.external_id, calls.external_id, operations)
    in_graph = at_positions(
        fits(trace.names, calls.name, NAMES["replaying"].fullmatch) & is_driver_call,
        launch,
        missing=False,
    )
    launcher = np.where((launch == NONE) | in_graph & (named != NONE), named, around)
    category = _host_categories(trace, calls, parent, is_driver_call)
    # A launching call that says nothing of the work leaves its category to its name, and so do all
    # kernels of collectives.
    of_work = at_positions(category, launcher, missing=NONE)
    by_name = _categories_by(category_by_name, trace, work.name)
    exchanges = is_kernel(trace, work) & (by_name == _NUMBER_OF["communication"])
    of_work = np.where(np.isin(of_work, _SAYS_NOTHING) | exchanges, by_name, of_work)
    return HostCalls(
        spans=calls,
        parent=parent,
        self_ns=self_ns,
        category=category,
        in_step=(step_at(trace, calls.start_ns) != NONE)[outermost(parent)],
        is_driver_call=is_driver_call,
        backward=nearest(parent, is_evaluating),
        work=DeviceWork(
            **msgspec.structs.asdict(work),
            launch=launch,
            call=launcher,
            category=np.where(of_work == NONE, _NUMBER_OF[OTHER], of_work),
            in_graph=in_graph,
        ),
    )


def attribute_device(trace: Trace, calls: HostCalls) -> DeviceWork:
    """The device work that the steps launched, also where it ran after their end.

    Work whose launch is not in the trace counts by its own start, unless it ran before any launched
    work did: then it was launched before the recording began, and belongs to an earlier step.
    """
    work = calls.work
    call = np.where(work.launch == NONE, work.call, work.launch)
    is_launched = call != NONE
    first_launched_ns = (
        work.start_ns[is_launched].min(initial=np.iinfo(np.int64).max) if is_launched.any() else 0
    )
    began_in_step = (work.start_ns >= first_launched_ns) & (step_at(trace, work.start_ns) != NONE)
    launched_in_step = at_positions(calls.in_step, call, missing=False)
    return work.chosen(np.where(is_launched, launched_in_step, began_in_step))


def work_within_steps(trace: Trace, calls: HostCalls) -> tuple[DeviceWork, Integers]:
    """The device work that ran within the steps, whatever launched it, and how long each piece did:
    as STEPS counts.
    """
    within_ns = cover(*trace.step_bounds).within(calls.work.start_ns, calls.work.end_ns)
    kept = within_ns > 0
    return calls.work.chosen(kept), within_ns[kept]


def is_kernel(trace: Trace, work: WorkSpans) -> Flags:
    """Which pieces of device work are kernels, those of collectives among them."""
    return fits(trace.kinds, work.kind, "kernel".__eq__)


def is_upload(trace: Trace, work: WorkSpans) -> Flags:
    """Which pieces of device work are copies from the host to the device."""
    to_device = fits(trace.names, work.name, lambda name: copy_kind(name).direction == TO_DEVICE)
    return to_device & fits(trace.kinds, work.kind, "gpu_memcpy".__eq__)


def is_of(category: Integers, name: str) -> Flags:
    """Which calls or pieces of work are of the category of that name.

    Of work that communicates these are kernels by their own name, and all that an operation that
    communicates launched, copies too.
    """
    return np.equal(category, _NUMBER_OF[name])


def are_for(purpose: str, trace: Trace, calls: HostCalls) -> Flags:
    """Which driver calls have names for this purpose, a key of NAMES."""
    return fits(trace.names, calls.spans.name, NAMES[purpose].fullmatch) & calls.is_driver_call


def is_waiting(trace: Trace, calls: HostCalls) -> Flags:
    """Which driver calls of the training loop's thread return only when the device is done: by
    their name, or because they copy from or to pageable memory of the host.
    """
    found = are_for("waiting", trace, calls)
    is_blocking = fits(
        trace.names, trace.work.name, lambda name: copy_kind(name).host_memory == "pageable"
    )
    found[calls.work.launch[is_blocking & (calls.work.launch != NONE)]] = True
    return found & np.equal(calls.spans.thread, trace.loop_thread)


def begins_with_earlier_work(calls: HostCalls) -> bool:
    """Whether the first device work was launched before the recording. Work without a number of its
    launch may have been launched in it.
    """
    if not len(calls.work):
        return False
    first = int(np.argmin(calls.work.start_ns))
    return bool(calls.work.launch[first] == NONE and calls.work.correlation[first] > 0)


def step_at(trace: Trace, times_ns: Integers) -> Integers:
    """The position of the step at each moment, NONE outside of all."""
    return Windows(*trace.step_bounds, np.arange(len(trace.steps))).at(times_ns)


def at_positions(
    column: npt.NDArray[Value], positions: Integers, *, missing: int = 0
) -> npt.NDArray[Value]:
    """What the column holds at each position, and `missing` where the position is NONE."""
    if not len(column):
        return np.full(len(positions), missing, dtype=column.dtype)
    found = column[positions]
    found[positions == NONE] = missing
    return found


def _categories_by(
    category_of: Callable[[str], str | None], trace: Trace, name: Integers
) -> Integers:
    """The category of each name, which are positions in the trace's list; NONE where none
    is known.
    """
    return numbers_of(trace.names, name, lambda text: _NUMBER_OF.get(category_of(text) or "", NONE))


def _host_categories(
    trace: Trace, calls: CallSpans, parent: Integers, is_driver_call: Flags
) -> Integers:
    by_name = _categories_by(category_by_name, trace, calls.name)
    by_name = np.where(is_driver_call & (by_name == NONE), _NUMBER_OF["runtime"], by_name)
    # The category of the mark around each call, NONE where there is none that gives one.
    marks = trace.marks
    of_marks = _categories_by(category_by_name, trace, marks.name)
    gives = np.isin(of_marks, _CONTEXTS)
    in_turn = np.flatnonzero(gives)[begin_order(marks.chosen(gives))]
    giving = marks.chosen(in_turn)
    around = innermost_at(giving, nest(giving)[0], calls.thread, calls.start_ns)
    context = at_positions(of_marks[in_turn], around, missing=NONE)
    keeps_its_own = np.isin(by_name, [_NUMBER_OF[name] for name in ("runtime", "communication")])
    category = np.where(~keeps_its_own & (context != NONE), context, by_name)
    category = _inherited(category, parent)
    by_itself = _categories_by(category_by_itself, trace, calls.name)
    category = _inherited(np.where(category == NONE, by_itself, category), parent)
    return np.where(category == NONE, _NUMBER_OF[OTHER], category)


def _inherited(category: Integers, parent: Integers) -> Integers:
    """The categories, and of a call that has none that of the nearest call around it that
    has one.
    """
    return at_positions(category, nearest(parent, category != NONE), missing=NONE)


def last_with_id(wanted: Integers, ids: Integers, candidates: Integers) -> Integers:
    """For each wanted id the last of the candidates that has it, NONE where none has. An id of 0 is
    none.
    """
    if not len(candidates):
        return np.full(len(wanted), NONE)
    candidates = candidates[np.argsort(ids[candidates], kind="stable")]
    last = np.searchsorted(ids[candidates], wanted, side="right") - 1
    found = candidates[np.maximum(last, 0)]
    return np.where((last >= 0) & (wanted > 0) & (ids[found] == wanted), found, NONE)


def operations_around(parent: Integers, is_driver_call: Flags) -> Integers:
    """For each call the innermost operation that is it or is around it; the call itself where there
    is none.
    """
    around = nearest(parent, ~is_driver_call)
    return np.where(around == NONE, np.arange(len(around)), around)
