"""Stages of a model compute and learn what the whole model does, and models without pieces are
refused.
"""

import random
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gpu_report.measure.arithmetic import set_up_arithmetic
from gpu_report.measure.stages import Stages, in_stages, seconds_of, sizes_of_stages, values_of
from gpu_report.measure.training import Training, build_training, evaluate, train_step
from gpu_report.measure.world import ALONE
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import TrainingWorkload, WorkloadError
from gpu_report.workloads.resnet import ResNet18Classification, ResNet50Classification
from gpu_report.workloads.unet import UNetSegmentation
from tests.unit.measure.tiny_workloads import (
    InPieces,
    InPiecesThatOverlap,
    InPiecesWithAFunction,
    Tiny,
)

FEW: dict[str, Any] = {"seed": 0, "train_samples": 1, "test_samples": 1}
WORKLOADS = [
    UNetSegmentation(size="32px", **FEW),
    ResNet18Classification(size="default", **FEW),
    ResNet50Classification(size="default", **FEW),
]


PICTURES = torch.randn(2, 3, 32, 32)
FP32 = set_up_arithmetic("fp32", torch.device("cpu"))
DRAWS: tuple[Callable[[], float], ...] = (
    lambda: torch.rand(1).item(),
    random.random,
    np.random.random,
)


def seed_all() -> None:
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)


def staged(workload: TrainingWorkload, model: nn.Module, devices: int, **changes: Any) -> Stages:
    fields = {"inputs": PICTURES, "world": ALONE, "sizes": (), **changes}
    return in_stages(workload, model, FP32, devices=[torch.device("cpu")] * devices, **fields)


@pytest.mark.parametrize(("workload", "devices"), [*zip(WORKLOADS, (4, 8, 2), strict=True)])
def test_stages_compute_what_the_whole_model_does_and_leave_it_as_it_was(
    workload: TrainingWorkload, devices: int
) -> None:
    torch.manual_seed(0)
    model = workload.build_model()
    before = [value.clone() for value in values_of(model)]
    drawn = [draw() for draw in DRAWS]
    seed_all()

    stages = staged(workload, model, devices)

    again = [draw() for draw in DRAWS]
    seed_all()
    assert again == [draw() for draw in DRAWS] != drawn
    assert len(stages.sizes) == devices
    assert min(stages.sizes) > 0
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, old) for value, old in zip(values_of(model), before, strict=True))
    with torch.inference_mode():
        assert torch.equal(stages.eval()(PICTURES), model.eval()(PICTURES))


def test_a_division_that_is_given_is_taken() -> None:
    workload = UNetSegmentation(size="32px", **FEW)
    assert staged(workload, workload.build_model(), 2, sizes=(1, 18)).sizes == [1, 18]


def test_a_piece_may_change_its_input_in_place_and_words_have_no_gradient() -> None:
    pieces = [nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4)]
    assert len(seconds_of(pieces, torch.ones(2, 4), FP32)) == 3
    pieces = [nn.Embedding(9, 4), nn.Linear(4, 2)]
    assert len(seconds_of(pieces, torch.tensor([[1, 2, 3]]), FP32)) == 2


@pytest.mark.parametrize(
    ("seconds", "devices", "longest"),
    [
        ([1, 1, 1, 1], 2, 2),
        ([3, 1, 1, 1], 2, 3),
        ([1, 1, 1, 3], 2, 3),
        ([4, 1, 1, 1, 1, 4, 1, 1], 4, 4),
        ([0, 0, 9], 3, 9),
        ([1, 2, 3, 4, 5], 1, 15),
    ],
)
def test_the_longest_stage_is_as_short_as_it_can_be(
    seconds: list[float], devices: int, longest: float
) -> None:
    sizes = sizes_of_stages(seconds, devices)
    ends = [0, *accumulate(sizes)]
    assert len(sizes) == devices
    assert ends[-1] == len(seconds)
    assert max(sum(seconds[begin:end]) for begin, end in pairwise(ends)) == longest


@pytest.mark.parametrize("devices", [2, 4])
def test_one_process_with_a_stage_on_each_device_trains_what_it_trains_on_one(devices: int) -> None:
    split, whole = _trained(strategy="split", devices=devices), _trained()
    assert isinstance(split.model, Stages)
    for ours, theirs in zip(values_of(split.model), values_of(whole.model), strict=True):
        assert torch.equal(ours, theirs)
    assert evaluate(split) == evaluate(whole)


def _trained(**fields: Any) -> Training:
    """Three steps; where the variant has several devices all are the CPU."""
    variant = Variant(
        workload="tiny", device="cuda", batch_size=4, epochs=1, accumulation=2, **fields
    )
    workload = InPieces(size="default", seed=0)
    training = build_training(
        workload, variant, device=torch.device("cpu"), seed=0, steps_per_epoch=3
    )
    for batch in training.train_loader:
        train_step(training, batch)
    return training


def test_what_is_between_goes_to_the_second_device_and_the_output_back() -> None:
    second = _SaysWhere().to("meta")
    # PyTorch copies nothing back from there.
    with pytest.raises(NotImplementedError, match="meta"):
        Stages([nn.Linear(2, 2), second])(torch.zeros(1, 2))
    assert second.seen == "meta"


class _Returns(nn.Module):
    def __init__(self, returned: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.returned = returned

    def forward(self, features: Tensor) -> Any:
        return self.returned(features)


class _SaysWhere(nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 2)
        self.seen = ""

    def forward(self, features: Tensor) -> Tensor:
        self.seen = features.device.type
        return super().forward(features)


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        (Tiny(size="default", seed=0), "Tiny names no pieces"),
        (
            InPiecesThatOverlap(size="default", seed=0),
            "exactly one piece; the model has 10, its pieces have 16",
        ),
        (InPieces(size="default", seed=0), "returned 4, too few for 5 devices"),
        (InPiecesWithAFunction(size="default", seed=0), "returned a builtin_function_or_method"),
    ],
)
def test_a_model_that_devices_cannot_share_is_refused(
    workload: TrainingWorkload, problem: str
) -> None:
    with pytest.raises(WorkloadError, match=problem):
        staged(workload, workload.build_model(), 5)


class OfPieces(Tiny):
    """Its model is the first, a tanh and the last of these; its pieces are all of them."""

    def __init__(self, *between: nn.Module) -> None:
        super().__init__(size="default", seed=0)
        self.between = between

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))

    def pieces(self, model: nn.Module) -> list[nn.Module]:
        first, _, last = model.children()
        return [first, *self.between, last]


@pytest.mark.parametrize(
    ("between", "problem"),
    [
        ([], "give another output than its model"),
        ([nn.ReLU()], "give another output than its model"),
        ([_Returns(lambda features: features > 0)], "piece 2 .* returned a tensor of torch.bool"),
        ([_Returns(lambda features: (features, None))], "piece 2 .* returned a NoneType"),
        (
            [_Returns(lambda features: (features, features))],
            "piece 3 .* cannot take the 2 of the one before it",
        ),
    ],
)
def test_pieces_that_are_not_the_model_are_refused(between: list[nn.Module], problem: str) -> None:
    workload = OfPieces(*between)
    with pytest.raises(WorkloadError, match=problem):
        staged(workload, workload.build_model(), 2, inputs=9 * torch.ones(3, 4))


@pytest.mark.parametrize(
    "forward", [torch.tanh, torch.tanh_, lambda features: features.tanh().double().float()]
)
def test_pieces_that_are_the_model_in_other_words_are_taken(
    forward: Callable[[Tensor], Tensor],
) -> None:
    workload = OfPieces(_Returns(forward))
    assert sum(staged(workload, workload.build_model(), 2, inputs=9 * torch.ones(3, 4)).sizes) == 3
