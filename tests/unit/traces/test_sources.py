"""Which module and function a call came from, and which calls waited for the device."""

from typing import Any

import numpy as np
import pytest

from gpu_report.traces.attribution import attribute_host
from gpu_report.traces.sources import Wait, is_users_own, module_name, origins, waits
from gpu_report.traces.trace import Trace
from tests.unit.traces.by_hand import AUTOGRAD, MAIN, RawEvent, operation, span, step, trace_of

EVALUATE = "autograd::engine::evaluate_function: ConvolutionBackward0"


def function(
    name: str, start_us: float, duration_us: float, *, on: tuple[Any, Any] = MAIN
) -> RawEvent:
    return span("python_function", name, start_us, duration_us, on=on)


def numbered(
    name: str, start_us: float, duration_us: float, sequence: int, **where: Any
) -> RawEvent:
    event = operation(name, start_us, duration_us, **where)
    event["args"]["Sequence number"] = sequence
    return event


def origin_of(trace: Trace, name: str) -> tuple[str, str]:
    calls = attribute_host(trace)
    (position,) = np.flatnonzero(calls.spans.name == trace.names.index(name))
    found = origins(trace, calls, np.array([position]))
    names = (*trace.names, "")
    return module_name(names[found.module[0]]), names[found.function[0]]


def test_the_innermost_module_and_function_around_a_call_are_its_origin() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        function("train.py(80): main", 0, 900),
        function("nn.Module: UNet_0", 100, 500),
        function("models/unet.py(21): forward", 110, 480),
        function("nn.Module: Conv2d_0", 200, 100),
        function("torch/nn/modules/conv.py(548): forward", 210, 80),
        function("<built-in method conv2d of type object at 0x7fe945b3e180>", 215, 70),
        operation("aten::conv2d", 220, 50),
        operation("aten::add_", 700, 50),
    )

    assert origin_of(trace, "aten::conv2d") == ("Conv2d_0", "models/unet.py(21): forward")
    assert origin_of(trace, "aten::add_") == ("", "train.py(80): main")


def test_a_function_of_another_thread_is_not_around_a_call() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        function("train.py(80): main", 0, 900),
        operation("aten::mm", 10, 5, on=AUTOGRAD),
    )

    assert origin_of(trace, "aten::mm") == ("", "")


def test_a_backward_call_comes_from_where_its_forward_counterpart_did() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        function("train.py(80): main", 0, 900),
        function("nn.Module: Conv2d_0", 100, 100),
        function("models/unet.py(21): forward", 101, 98),
        numbered("aten::conv2d", 110, 50, 7),
        function("nn.Module: ReLU_0", 300, 100),
        numbered("aten::relu", 310, 50, 8),
        numbered(EVALUATE, 500, 100, 7, on=AUTOGRAD),
        operation("aten::convolution_backward", 520, 50, on=AUTOGRAD),
    )

    assert origin_of(trace, "aten::convolution_backward") == (
        "Conv2d_0",
        "models/unet.py(21): forward",
    )


def test_of_forward_calls_with_one_number_the_last_is_the_counterpart() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        function("nn.Module: Embedding_0", 0, 100),
        numbered("aten::empty", 10, 20, 7),
        function("nn.Module: Conv2d_0", 100, 100),
        numbered("aten::conv2d", 110, 50, 7),
        numbered(EVALUATE, 500, 100, 7, on=AUTOGRAD),
        operation("aten::convolution_backward", 520, 50, on=AUTOGRAD),
    )

    assert origin_of(trace, "aten::convolution_backward") == ("Conv2d_0", "")


def test_a_backward_call_without_a_counterpart_comes_from_who_waited_for_it() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        function("train.py(80): main", 0, 900),
        numbered(EVALUATE, 500, 100, 7),
        operation("aten::convolution_backward", 520, 50),
    )

    assert origin_of(trace, "aten::convolution_backward") == ("", "train.py(80): main")


def test_what_is_computed_again_going_backward_comes_from_the_module_that_computes_it() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        function("nn.Module: Block_0", 0, 100),
        numbered("Checkpoint", 10, 50, 7),
        numbered(EVALUATE, 500, 300, 7, on=AUTOGRAD),
        function("nn.Module: Conv2d_0", 510, 100, on=AUTOGRAD),
        operation("aten::convolution", 520, 50, on=AUTOGRAD),
    )

    assert origin_of(trace, "aten::convolution") == ("Conv2d_0", "")


def test_without_stacks_nothing_is_said() -> None:
    trace = trace_of(step(1, 0, 1000), operation("aten::mm", 10, 5))

    assert origin_of(trace, "aten::mm") == ("", "")


@pytest.mark.parametrize(
    "name",
    [
        "train.py(80): main",
        "/project/models/unet.py(21): forward",
        "my_package/model.py(3): <lambda>",
    ],
)
def test_a_file_that_nobody_brought_is_the_users_own(name: str) -> None:
    assert is_users_own(name)


@pytest.mark.parametrize(
    "name",
    [
        "torch/nn/modules/conv.py(548): forward",
        "/opt/env/lib/python3.11/site-packages/torch/nn/modules/conv.py(548): forward",
        "/opt/env/lib/python3.11/site-packages/gpu_report/measure/training.py(140): train_step",
        "gpu_report/measure/building.py(166): loss",
        "/usr/lib/python3.11/threading.py(1030): _bootstrap",
        "threading.py(1030): _bootstrap",
        "multiprocessing/connection.py(208): recv_bytes",
        "numpy/_core/numeric.py(1): full",
        "/tmp/compiled/jk/cjkjmoa3kjfnpld5pjb7on2evt42b6ok7emcx33ybc74twrevq6o.py(1186): call",
        "<frozen abc>(117): __instancecheck__",
        "<string>(1): <lambda>",
        "<built-in function len>",
        "nn.Module: Conv2d_0",
    ],
)
def test_what_python_or_a_library_brought_is_not_the_users_own(name: str) -> None:
    assert not is_users_own(name)


def synchronise(
    start_us: float, duration_us: float = 5, *, name: str = "cudaStreamSynchronize"
) -> RawEvent:
    return span("cuda_runtime", name, start_us, duration_us, on=MAIN, correlation=int(start_us))


def copy(name: str, start_us: float) -> list[RawEvent]:
    return [
        span("cuda_runtime", "cudaMemcpyAsync", start_us, 1, on=MAIN, correlation=int(start_us)),
        span("gpu_memcpy", name, start_us + 2, 5, on=(0, 7), correlation=int(start_us)),
    ]


def test_a_wait_belongs_to_the_outermost_operation_around_it() -> None:
    trace = trace_of(
        step(1, 0, 100),
        operation("aten::to", 10, 30),
        operation("aten::copy_", 12, 26),
        *copy("Memcpy DtoH (Device -> Pageable)", 13),
        synchronise(20),
    )

    assert waits(trace) == [Wait("aten::to", "", 1, 5000)]


def test_a_copy_to_the_device_that_waits_is_left_to_the_table_of_copies() -> None:
    trace = trace_of(
        step(1, 0, 100),
        operation("aten::to", 10, 30),
        *copy("Memcpy HtoD (Pageable -> Device)", 13),
        synchronise(20),
    )

    assert waits(trace) == []


def test_a_wait_outside_of_any_operation_has_no_name() -> None:
    trace = trace_of(step(1, 0, 100), synchronise(20, name="cudaDeviceSynchronize"))

    assert waits(trace) == [Wait("", "", 1, 5000)]


def test_a_wait_outside_of_the_steps_does_not_count() -> None:
    trace = trace_of(step(1, 0, 100), synchronise(120), operation("aten::mm", 10, 10))

    assert waits(trace) == []


def test_an_item_on_the_cpu_waits_for_nothing() -> None:
    trace = trace_of(step(1, 0, 100), operation("aten::item", 10, 10))

    assert waits(trace) == []


def test_the_longest_wait_comes_first_and_like_waits_add_up() -> None:
    trace = trace_of(
        step(1, 0, 100),
        *(
            event
            for at in (10, 30)
            for event in (operation("aten::item", at, 10), synchronise(at + 2, 2))
        ),
        operation("aten::nonzero", 60, 30),
        synchronise(62, 20),
    )

    assert waits(trace) == [Wait("aten::nonzero", "", 1, 20_000), Wait("aten::item", "", 2, 4_000)]
