"""Precisions: what each switches on, and where it cannot be had."""

import copy

import pytest
import torch
from torch import nn

from gpu_report.measure.arithmetic import (
    multiply_in_fp8,
    set_up_arithmetic,
    why_not_computed,
)
from gpu_report.workloads.protocol import WorkloadError

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


def test_linear_layers_multiply_in_fp8_but_those_that_share_weights_or_do_not_fit() -> None:
    model = nn.ModuleDict(
        {
            "fits": nn.Linear(32, 16),
            "odd": nn.Linear(32, 10),
            "embedding": nn.Embedding(16, 32),
            "head": nn.Linear(32, 16, bias=False),
        }
    )
    model["head"].weight = model["embedding"].weight

    multiply_in_fp8(model, emulate=True)

    kinds = {name: type(part).__name__ for name, part in model.items()}
    assert kinds == {
        "fits": "Float8Linear",
        "odd": "Linear",
        "embedding": "Embedding",
        "head": "Linear",
    }


def test_training_in_fp8_has_nearly_the_gradients_of_bf16() -> None:
    torch.manual_seed(0)
    plain = nn.Linear(64, 64)
    rounded = nn.ModuleList([copy.deepcopy(plain)])
    multiply_in_fp8(rounded, emulate=True)
    inputs = torch.randn(32, 64)

    for layer in (plain, rounded[0]):
        with torch.autocast("cpu", torch.bfloat16):
            outputs = layer(inputs)
        torch.autograd.backward(outputs.float().square().mean())

    ours, theirs = next(rounded.parameters()).grad, plain.weight.grad
    assert ours is not None
    assert theirs is not None
    assert 0 < (ours - theirs).norm() / theirs.norm() < 0.1


def test_a_model_without_a_layer_for_fp8_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"^options: fp8 finds no linear layer"):
        multiply_in_fp8(nn.Sequential(nn.Conv2d(3, 16, 3), nn.Linear(100, 10)), emulate=True)
