"""Every precision takes effect on a GPU, as its trace shows, and trains about as single precision
does.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.gpu.trainings import (
    SAMPLES,
    STEPS,
    build,
    cnn,
    kernels,
    losses,
    trace,
    train_quietly,
    unet,
)
from tests.unit.measure.tiny_workloads import Tiny

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="these precisions are CUDA's"),
    # What PyTorch warns of is a setting that is the variant's own choice.
    pytest.mark.filterwarnings("default"),
]


class Steep(Tiny):
    """Gradients that no half-precision number holds, however small the scale."""

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return super().loss(output, target) * 1e12


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_a_shorter_format_runs_on_tensor_cores_and_ieee_does_not(
    precision: str, tmp_path: Path
) -> None:
    ieee = kernels(trace(build(unet()), tmp_path))
    shorter = kernels(trace(build(unet(), precision=precision), tmp_path))

    assert any(precision in name for name in shorter)
    assert not [name for name in ieee if "tf32" in name or "bf16" in name or "tensorop" in name]


def test_fp16_multiplies_half_precision_numbers_on_tensor_cores(tmp_path: Path) -> None:
    names = kernels(trace(build(unet(), precision="fp16"), tmp_path))
    assert any("f16f16" in name or "16816" in name for name in names)


def test_steps_that_fp16_skips_show_in_a_falling_scale() -> None:
    training = build(Steep(size="default", seed=0, samples=SAMPLES), precision="fp16")
    before = [parameter.clone() for parameter in training.model.parameters()]

    scales = [scale for epoch in train_quietly(training) for scale in epoch.loss_scales]

    assert scales == [2.0 ** (15 - step) for step in range(2 * STEPS)]
    assert all(map(torch.equal, before, training.model.parameters()))


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_half_precision_learns_about_the_same(precision: str) -> None:
    assert losses(build(cnn(), precision=precision)) == pytest.approx(losses(build(cnn())), rel=0.1)
