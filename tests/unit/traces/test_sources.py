"""Which module and function a call came from, and which calls waited for the device."""

from typing import Any

import numpy as np
import pytest

from gpu_report.traces.attribution import attribute_host
from gpu_report.traces.ranges import is_users_own, module_name, origins
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
    (module,), (origin,) = origins(trace, calls, np.array([position]))
    names = (*trace.names, "")
    return module_name(names[module]), names[origin]


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
