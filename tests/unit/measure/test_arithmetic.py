"""Precisions: what each switches on, and where it cannot be had."""

import pytest
import torch

from gpu_report.measure.arithmetic import set_up_arithmetic, why_not_computed

CPU = torch.device("cpu")


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_products_outside_autocast_are_ieee_unless_tf32_is_asked_for(precision: str) -> None:
    set_up_arithmetic("tf32", CPU)
    assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cudnn.allow_tf32

    set_up_arithmetic(precision, CPU)
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)],
)
def test_a_model_computes_in_its_precision(precision: str, dtype: torch.dtype) -> None:
    with set_up_arithmetic(precision, CPU).autocast():
        assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).dtype == dtype


def test_only_fp16_scales_its_gradients() -> None:
    scaling = {
        precision: set_up_arithmetic(precision, CPU).scaler.is_enabled()
        for precision in ("fp32", "fp16", "bf16")
    }
    assert scaling == {"fp32": False, "fp16": True, "bf16": False}


def test_a_scale_that_is_too_high_is_halved_by_a_step_that_changes_nothing() -> None:
    scaler = set_up_arithmetic("fp16", CPU, first_scale=2.0**32).scaler
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float32))
    optimizer = torch.optim.SGD([weight], lr=1.0)

    scaler.scale((weight.half() * 2).float().sum()).backward()  # type: ignore[no-untyped-call]
    scaler.step(optimizer)
    scaler.update()

    assert (scaler.get_scale(), weight.item()) == (2.0**31, 1.0)


def test_a_device_without_tf32_says_so_and_computes_everything_else() -> None:
    assert (
        why_not_computed("tf32", CPU)
        == "cpu has no TF32 arithmetic; it came with CUDA compute capability 8.0"
    )
    assert [why_not_computed(precision, CPU) for precision in ("fp32", "fp16", "bf16")] == [
        "",
        "",
        "",
    ]
