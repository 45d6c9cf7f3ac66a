"""What operations of some shapes compute, move and reach, by hand and by PyTorch's own formulas."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from torch.utils import flop_counter
from torch.utils.flop_counter import conv_flop_count, mm_flop

from gpu_report.traces.quality import QUALITY, Gate
from gpu_report.traces.shapes import SHAPES, amounts_of, shape_rows
from gpu_report.traces.tables import tabulate_trace
from tests.unit.traces.by_hand import (
    RawEvent,
    kernel,
    launch,
    made_by,
    operation,
    span,
    step,
    trace_of,
)

attention_by_torch: Callable[..., int] = flop_counter.sdpa_flop_count

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3"}
CONV = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]


def called(
    name: str, start_us: float, shapes: Any, types: list[str], settings: Any = ()
) -> RawEvent:
    event = operation(name, start_us, 20)
    event["args"] |= {
        "Input Dims": shapes,
        "Input type": types,
        "Concrete Inputs": settings or [""] * len(types),
    }
    return event


def product(number: int, kernel_name: str = "sm90_xmma_gemm_bf16bf16") -> list[RawEvent]:
    """Of 1000 x 1000 matrices in bfloat16, which takes 10 us."""
    begin_us, sides = 100 * number, [1000, 1000]
    return [
        called("aten::mm", begin_us, [sides, sides], ["c10::BFloat16"] * 2),
        launch(number, begin_us + 5),
        kernel(kernel_name, begin_us + 30, 10, correlation=number),
    ]


def amounts(name: str, shapes: Any, types: list[str], settings: Any = ()) -> tuple[float, float]:
    return amounts_of(name, json.dumps(shapes), json.dumps(types), json.dumps([*settings]))


def test_a_product_has_its_rates_and_their_shares_of_the_data_sheet() -> None:
    trace = trace_of(step(1, 0, 1000), *product(1), *product(2), deviceProperties=[H100])

    (row,) = made_by(shape_rows, trace)

    assert (row["name"], row["calls"]) == ("aten::mm", 2)
    assert row["shapes"] == "[[1000, 1000], [1000, 1000]]"
    assert row["flop"] == 2 * 2e9
    assert row["bytes"] == 2 * 3 * 2e6
    assert row["device_ms"] == 0.02
    assert row["tflop_per_s"] == pytest.approx(4e9 / 20e-6 / 1e12)
    assert row["tb_per_s"] == pytest.approx(12e6 / 20e-6 / 1e12)
    assert row["flop_share"] == pytest.approx(200 / 989.4)
    assert row["bandwidth_share"] == pytest.approx(0.6 / 3.352)


@pytest.mark.parametrize(
    ("kernel_name", "peak"),
    [
        ("ampere_sgemm_128x64", 66.9),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16", 494.7),
    ],
)
def test_float_on_tensor_cores_is_held_against_the_peak_of_tf32(
    kernel_name: str, peak: float
) -> None:
    events = product(1, kernel_name)
    events[0]["args"]["Input type"] = ["float", "float"]

    (row,) = made_by(shape_rows, trace_of(step(1, 0, 1000), *events, deviceProperties=[H100]))

    assert row["flop_share"] == pytest.approx(200 / peak)


def test_a_device_that_no_data_sheet_is_of_has_no_shares() -> None:
    (row,) = made_by(shape_rows, trace_of(step(1, 0, 1000), *product(1)))

    assert row["tflop_per_s"] == pytest.approx(200)
    assert row["flop_share"] is row["bandwidth_share"] is None


def test_what_only_calls_another_operation_has_no_row() -> None:
    outer = called("aten::matmul", 90, [[1000, 1000], [1000, 1000]], ["c10::BFloat16"] * 2)
    outer["dur"] = 60

    rows = made_by(shape_rows, trace_of(step(1, 0, 1000), outer, *product(1)))

    assert [row["name"] for row in rows] == ["aten::mm"]


def test_a_number_among_the_inputs_makes_no_row_of_its_own_but_another_type_does() -> None:
    def fill(start_us: float, value: str, dtype: str) -> RawEvent:
        return called("aten::fill_", start_us, [[8], []], [dtype, "Scalar"], ["", value])

    trace = trace_of(
        step(1, 0, 1000), fill(1, "1.", "float"), fill(50, "2.", "float"), fill(99, "1.", "int")
    )

    rows = made_by(shape_rows, trace)

    assert sorted((row["types"], row["calls"]) for row in rows) == [
        ('["float", "Scalar"]', 2),
        ('["int", "Scalar"]', 1),
    ]


def test_without_recorded_shapes_there_are_no_rows() -> None:
    assert made_by(shape_rows, trace_of(step(1, 0, 1000), operation("aten::mm", 1, 2))) == []


def test_without_an_accelerator_the_rate_is_over_the_time_on_the_host() -> None:
    event = called("aten::mm", 100, [[10, 20], [20, 30]], ["float", "float"])

    (row,) = made_by(shape_rows, trace_of(step(1, 0, 1000), event))

    assert row["device_ms"] is None
    assert row["tflop_per_s"] == pytest.approx(12_000 / 20e-6 / 1e12)


def test_formulas_are_those_of_pytorch() -> None:
    images, weight, outputs = [2, 3, 8, 8], [4, 3, 3, 3], [2, 4, 8, 8]
    heads = [[2, 4, 16, 8], [2, 4, 32, 8], [2, 4, 32, 8]]

    assert amounts("aten::mm", [[5, 6], [6, 7]], ["float"] * 2)[0] == mm_flop((5, 6), (6, 7))
    assert amounts("aten::convolution", [images, weight], ["float"] * 2, CONV)[
        0
    ] == conv_flop_count(images, weight, outputs)
    name = "aten::_scaled_dot_product_flash_attention"
    assert amounts(name, heads, ["c10::Half"] * 3)[0] == attention_by_torch(*heads)


def test_a_convolution_reads_images_and_weight_and_writes_as_many_positions() -> None:
    strided = [*CONV[:3], "[2]", *CONV[4:]]

    _, moved = amounts(
        "aten::convolution", [[2, 3, 8, 8], [4, 3, 3, 3]], ["float", "float"], strided
    )

    assert moved == 4 * (2 * 3 * 8 * 8 + 4 * 3 * 3 * 3 + 2 * 4 * 4 * 4)


def test_the_backward_convolution_counts_the_gradients_that_are_asked_for() -> None:
    settings = ["", "", "", "[4]", *CONV[3:], "[False, True, False]"]

    flop, moved = amounts(
        "aten::convolution_backward",
        [[2, 4, 8, 8], [2, 3, 8, 8], [4, 3, 3, 3]],
        ["float"] * 3,
        settings,
    )

    assert flop == 2 * 2 * 64 * 108
    assert moved == 4 * (512 + 384 + 108 + 108)


def test_an_operation_that_reads_a_part_of_an_input_has_no_bytes() -> None:
    found = amounts("aten::embedding", [[1000, 8], [4]], ["float", "long int"])

    assert all(map(math.isnan, found))


@pytest.mark.parametrize(
    ("shapes", "settings"),
    [
        ([[-1, 3], [3, 4]], []),
        ([[3], [3, 4]], []),
        ("nothing", []),
        ([[10**20, 10**20], [10**20, 4]], []),
        ([[2, 3, 8, 8], [4, 3, 3, 3]], [*CONV[:3], "[0, 0]", *CONV[4:]]),
        ([[2, 3, 8, 8], [4, 3, 3, 3]], []),
    ],
)
def test_shapes_that_no_operation_takes_have_no_arithmetic(shapes: Any, settings: Any) -> None:
    name = "aten::convolution" if shapes[0] == [2, 3, 8, 8] else "aten::mm"

    assert math.isnan(amounts(name, shapes, ["float", "float"], settings)[0])


def test_work_of_a_graph_makes_the_rates_not_reliable() -> None:
    trace = trace_of(
        step(1, 0, 1000),
        *product(1),
        span("cuda_runtime", "cudaGraphLaunch", 500, 50, on=(100, 100), correlation=9),
        kernel("gemm", 600, 200, correlation=9),
    )

    tables = tabulate_trace(trace)

    assert not Gate({QUALITY: tables[QUALITY]}).trusts(SHAPES, "tflop_per_s")
