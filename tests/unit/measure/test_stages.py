"""Stages of a model compute and learn what the whole model does, and models without pieces are refused."""

from itertools import accumulate, pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gpu_report.measure.arithmetic import set_up_arithmetic
from gpu_report.measure.stages import Stages, check_pieces, divided, pieces_of, seconds_of, values_of
from gpu_report.measure.training import Training, build_training, evaluate, train_step
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import TrainingWorkload, WorkloadError
from gpu_report.workloads.resnet import ResNet18Classification, ResNet50Classification
from gpu_report.workloads.unet import UNetSegmentation
from tests.unit.measure.tiny_workloads import InPieces, InPiecesThatOverlap, InPiecesWithAFunction, Tiny

FEW: dict[str, Any] = {"seed": 0, "train_samples": 1, "test_samples": 1}
WORKLOADS = [
    UNetSegmentation(size="32px", **FEW),
    ResNet18Classification(size="default", **FEW),
    ResNet50Classification(size="default", **FEW),
]


PICTURES = torch.randn(2, 3, 32, 32)
FP32 = set_up_arithmetic("fp32", torch.device("cpu"))


@pytest.mark.parametrize("devices", [2, 3, 4, 8])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.title)
def test_stages_compute_what_the_whole_model_does(workload: TrainingWorkload, devices: int) -> None:
    torch.manual_seed(0)
    model = workload.build_model()
    pieces = pieces_of(workload, model, devices=devices)
    stages = divided(pieces, [1.0] * len(pieces), devices=devices)
    assert len(stages.stages) == devices
    with torch.inference_mode():
        assert torch.equal(stages.eval()(PICTURES), model.eval()(PICTURES))


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.title)
def test_checking_and_timing_pieces_leaves_the_model_as_it_was(workload: TrainingWorkload) -> None:
    model = workload.build_model()
    before = [value.clone() for value in values_of(model)]
    pieces = pieces_of(workload, model, devices=2)
    check_pieces(workload, model, pieces, PICTURES, FP32)
    seconds = seconds_of(pieces, PICTURES, FP32)
    assert len(seconds) == len(pieces)
    assert min(seconds) > 0
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, old) for value, old in zip(values_of(model), before, strict=True))


def test_a_piece_may_begin_with_what_changes_its_input_in_place() -> None:
    pieces = [nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4)]
    assert len(seconds_of(pieces, torch.ones(2, 4), FP32)) == 3


def test_the_model_of_words_has_no_gradient_at_its_inputs() -> None:
    pieces = [nn.Embedding(9, 4), nn.Linear(4, 2)]
    assert len(seconds_of(pieces, torch.tensor([[1, 2, 3]]), FP32)) == 2


@pytest.mark.parametrize(
    ("seconds", "devices", "pieces"),
    [
        ([1, 1, 1, 1], 2, [2, 2]),
        ([3, 1, 1, 1], 2, [1, 3]),
        ([1, 1, 1, 3], 2, [3, 1]),
        ([4, 1, 1, 1, 1, 4, 1, 1], 4, [1, 4, 1, 2]),
        ([0, 0, 9], 3, [1, 1, 1]),
    ],
)
def test_the_longest_stage_is_as_short_as_it_can_be(seconds: list[float], devices: int, pieces: list[int]) -> None:
    stages = divided([nn.ReLU() for _ in seconds], seconds, devices=devices).stages
    ends = [0, *accumulate(len(list(stage.children())) for stage in stages)]
    longest = max(sum(seconds[begin:end]) for begin, end in pairwise(ends))
    wanted = [0, *accumulate(pieces)]
    assert longest == max(sum(seconds[begin:end]) for begin, end in pairwise(wanted))
    assert len(stages) == devices


@pytest.mark.parametrize("devices", [2, 4])
def test_one_process_with_a_stage_on_each_device_trains_what_it_trains_on_one(devices: int) -> None:
    split, whole = _trained(strategy="split", devices=devices), _trained()
    assert isinstance(split.model, Stages)
    for ours, theirs in zip(values_of(split.model), values_of(whole.model), strict=True):
        assert torch.equal(ours, theirs)
    assert evaluate(split) == evaluate(whole)


def _trained(**fields: Any) -> Training:
    """Three steps; where the variant has several devices all are the CPU."""
    variant = Variant(workload="tiny", device="cuda", batch_size=4, epochs=1, accumulation=2, **fields)
    workload = InPieces(size="default", seed=0)
    training = build_training(workload, variant, device=torch.device("cpu"), seed=0, steps_per_epoch=3)
    for batch in training.train_loader:
        train_step(training, batch)
    return training


def test_what_is_between_goes_to_the_second_device_and_the_output_back() -> None:
    second = _SaysWhere().to("meta")
    # PyTorch copies nothing back from there.
    with pytest.raises(NotImplementedError, match="meta"):
        Stages([nn.Linear(2, 2), second])(torch.zeros(1, 2))
    assert second.seen == "meta"


class _Positive(nn.Module):
    def forward(self, features: Tensor) -> Tensor:
        return features > 0


class _Twice(nn.Module):
    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return features, features


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
        (InPiecesThatOverlap(size="default", seed=0), "exactly one piece; the model has 10, its pieces have 16"),
        (InPieces(size="default", seed=0), "returned 4, too few for 5 devices"),
        (InPiecesWithAFunction(size="default", seed=0), "returned a builtin_function_or_method"),
    ],
)
def test_a_model_that_devices_cannot_share_is_refused(workload: TrainingWorkload, problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        pieces_of(workload, workload.build_model(), devices=5)


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [
        ([nn.Linear(4, 4), nn.Linear(4, 2)], "give another output than its model"),
        ([nn.Linear(4, 4), _Positive(), nn.Linear(4, 2)], "piece 2 .* returned a tensor of torch.bool"),
        ([nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2), _Twice()], "give another output than its model"),
    ],
)
def test_pieces_that_are_not_the_model_are_refused(pieces: list[nn.Module], problem: str) -> None:
    model = nn.Sequential(pieces[0], nn.Tanh(), next(piece for piece in pieces[1:] if isinstance(piece, nn.Linear)))
    with pytest.raises(WorkloadError, match=problem):
        check_pieces(Tiny(size="default", seed=0), model, pieces, torch.ones(1, 4), FP32)
