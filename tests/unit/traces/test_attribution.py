"""Whose call, which step, which category: host calls and the device work they launch."""

from typing import NamedTuple

from gpu_report.traces.attribution import CATEGORY_NAMES, attribute_device, attribute_host
from gpu_report.traces.trace import NONE, Trace
from tests.unit.traces.by_hand import (
    AUTOGRAD,
    RawEvent,
    kernel,
    launch,
    mark,
    operation,
    step,
    trace_of,
)


class Call(NamedTuple):
    """A host call, its parent by name."""

    name: str
    parent: str | None
    self_ns: int
    category: str
    in_step: bool


class Work(NamedTuple):
    """A piece of device work, what launched it by name."""

    name: str
    call: str | None
    category: str


def host(*events: RawEvent) -> dict[str, Call]:
    trace = trace_of(*events)
    calls = attribute_host(trace)
    names = [trace.names[name] for name in calls.spans.name]
    parents = [None if parent == NONE else names[parent] for parent in calls.parent]
    categories = [CATEGORY_NAMES[category] for category in calls.category]
    rows = zip(
        names, parents, calls.self_ns.tolist(), categories, calls.in_step.tolist(), strict=True
    )
    return {row[0]: Call(*row) for row in rows}


def device(*events: RawEvent) -> list[Work]:
    return device_work(trace_of(*events))


def device_work(trace: Trace) -> list[Work]:
    calls = attribute_host(trace)
    work = attribute_device(trace, calls)
    launchers = [
        None if call == NONE else trace.names[calls.spans.name[call]] for call in work.call
    ]
    categories = [CATEGORY_NAMES[category] for category in work.category]
    names = [trace.names[name] for name in work.name]
    return [Work(*row) for row in zip(names, launchers, categories, strict=True)]


def test_a_call_between_two_steps_is_in_none() -> None:
    calls = host(
        step(1, 0, 10),
        operation("aten::add", 12, 2),
        step(2, 20, 10),
        operation("aten::mul", 22, 2),
    )

    assert {name: call.in_step for name, call in calls.items()} == {
        "aten::add": False,
        "aten::mul": True,
    }


def test_a_step_that_begins_within_the_last_microsecond_of_the_one_before_has_its_calls() -> None:
    trace = trace_of(
        step(1, 0, 100),
        step(2, 99.5, 100),
        operation("aten::add", 10, 5),
        operation("aten::mm", 150, 5),
    )

    assert attribute_host(trace).in_step.all()


def test_autograd_has_its_own_stack() -> None:
    calls = host(
        step(1, 0, 20), operation("aten::item", 1, 10), operation("aten::mm", 3, 2, on=AUTOGRAD)
    )

    assert calls["aten::mm"].parent is None
    assert calls["aten::item"].self_ns == 10_000


def test_inside_the_optimizer_every_operation_is_the_optimizers() -> None:
    calls = host(
        step(1, 0, 30),
        mark("Optimizer.step#Adam.step", 1, 10),
        operation("aten::mul_", 2, 3),
        launch(1, 3),
        operation("aten::add_", 15, 3),
    )

    assert {name: call.category for name, call in calls.items()} == {
        "aten::mul_": "optimizer",
        "cudaLaunchKernel": "runtime",
        "aten::add_": "elementwise",
    }


def test_a_kernel_belongs_to_the_innermost_operation_around_its_launch() -> None:
    (work,) = device(
        step(1, 0, 20),
        operation("aten::conv2d", 1, 10),
        operation("aten::cudnn_convolution", 2, 8),
        launch(77, 3),
        kernel("cutlass_gemm", 12, 5, correlation=77),
    )

    assert work.call == "aten::cudnn_convolution"
    assert work.category == "convolution"
