"""Precisions: what each switches on, and where it cannot be had."""

import pytest
import torch

from gpu_report.measure.arithmetic import set_up_arithmetic, why_not_computed

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)],
)
def test_a_model_computes_in_its_precision_and_in_tf32_only_if_it_is_asked_for(
    precision: str, dtype: torch.dtype
) -> None:
    set_up_arithmetic("tf32", CPU)
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (True, True)

    arithmetic = set_up_arithmetic(precision, CPU)

    found = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    assert found == (False, False)
    assert arithmetic.scaler.is_enabled() == (precision == "fp16")
    with arithmetic.autocast():
        assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).dtype == dtype


def test_a_scale_that_is_too_high_is_halved_by_a_step_that_changes_nothing() -> None:
    scaler = set_up_arithmetic("fp16", CPU, first_scale=2.0**32).scaler
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float32))
    optimizer = torch.optim.SGD([weight], lr=1.0)

    scaler.scale((weight.half() * 2).float().sum()).backward()  # type: ignore[no-untyped-call]
    scaler.step(optimizer)
    scaler.update()

    assert (scaler.get_scale(), weight.item()) == (2.0**31, 1.0)


def test_a_device_without_tf32_says_so_and_computes_everything_else() -> None:
    assert why_not_computed("tf32", CPU).startswith("cpu has no TF32 arithmetic; it came with CUDA")
    assert {why_not_computed(each, CPU) for each in ("fp32", "fp16", "bf16")} == {""}
