"""Stages of a model compute and learn what the whole model does, and models without pieces are refused."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from gpu_report.measure.stages import Stages, stages_of, values_of
from gpu_report.measure.training import Training, build_training, evaluate, train_step
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import TrainingWorkload, WorkloadError
from gpu_report.workloads.resnet import ResNet18Classification, ResNet50Classification
from gpu_report.workloads.unet import UNetSegmentation
from tests.unit.measure.tiny_workloads import InPieces, InPiecesThatOverlap, Tiny

FEW: dict[str, Any] = {"seed": 0, "train_samples": 1, "test_samples": 1}
WORKLOADS = [
    UNetSegmentation(size="32px", **FEW),
    ResNet18Classification(size="default", **FEW),
    ResNet50Classification(size="default", **FEW),
]


PICTURES = torch.randn(2, 3, 32, 32)


@pytest.mark.parametrize("count", [2, 3, 4, 8])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.title)
def test_stages_compute_what_the_whole_model_does(workload: TrainingWorkload, count: int) -> None:
    torch.manual_seed(0)
    model = workload.build_model()
    before = [value.clone() for value in values_of(model)]
    stages = stages_of(workload, model, count, inputs=PICTURES[:1])
    assert len(stages.stages) == count
    assert all(module.training for module in stages.modules())
    assert all(torch.equal(value, old) for value, old in zip(values_of(model), before, strict=True))
    with torch.inference_mode():
        assert torch.equal(stages.eval()(PICTURES), model.eval()(PICTURES))


@pytest.mark.parametrize(("count", "share"), [(2, 0.52), (3, 0.37), (4, 0.28)])
def test_no_stage_of_the_unet_has_many_more_operations_than_its_share(count: int, share: float) -> None:
    workload = UNetSegmentation(size="32px", **FEW)
    stages = stages_of(workload, workload.build_model(), count, inputs=PICTURES[:1])
    passed, operations = (PICTURES[:1],), []
    for stage in stages.stages:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            passed = stage(*passed)
        operations.append(counter.get_total_flops())
    assert max(operations) < share * sum(operations)


def test_pieces_without_counted_operations_are_shared_by_their_number() -> None:
    class OfReLUs(Tiny):
        def pieces(self, model: nn.Module) -> list[nn.Module]:
            return list(model.children())

    model = nn.Sequential(*(nn.ReLU() for _ in range(6)))
    stages = stages_of(OfReLUs(size="default", seed=0), model, 3, inputs=torch.zeros(1, 4))
    assert [len(list(stage.children())) for stage in stages.stages] == [2, 2, 2]


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
    ],
)
def test_a_model_that_devices_cannot_share_is_refused(workload: TrainingWorkload, problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        stages_of(workload, workload.build_model(), 5, inputs=torch.zeros(1, 4, dtype=torch.double))
