"""Two halves of a model compute and learn what the whole model does, and workloads without them are refused."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gpu_report.measure.halves import Halves, halves_of, values_of
from gpu_report.measure.training import Training, build_training, evaluate, train_step
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import TrainingWorkload, WorkloadError
from gpu_report.workloads.resnet import ResNet18Classification, ResNet50Classification
from gpu_report.workloads.unet import UNetSegmentation
from tests.unit.measure.tiny_workloads import InHalves, InHalvesThatOverlap, Tiny

FEW: dict[str, Any] = {"seed": 0, "train_samples": 1, "test_samples": 1}
WORKLOADS = [
    UNetSegmentation(size="32px", **FEW),
    ResNet18Classification(size="default", **FEW),
    ResNet50Classification(size="default", **FEW),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.title)
def test_both_halves_compute_what_the_whole_model_does(workload: TrainingWorkload) -> None:
    torch.manual_seed(0)
    model = workload.build_model().eval()
    pictures = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        assert torch.equal(halves_of(workload, model)(pictures), model(pictures))


def test_one_process_with_half_a_model_on_each_device_trains_what_it_trains_on_one() -> None:
    split, whole = _trained(strategy="split", devices=2), _trained()
    assert isinstance(split.model, Halves)
    for ours, theirs in zip(values_of(split.model), values_of(whole.model), strict=True):
        assert torch.equal(ours, theirs)
    assert evaluate(split) == evaluate(whole)


def _trained(**fields: Any) -> Training:
    """Three steps; where the variant has two devices both are the CPU."""
    variant = Variant(workload="tiny", device="cuda", batch_size=4, epochs=1, accumulation=2, **fields)
    workload = InHalves(size="default", seed=0)
    training = build_training(workload, variant, device=torch.device("cpu"), seed=0, steps_per_epoch=3)
    for batch in training.train_loader:
        train_step(training, batch)
    return training


def test_what_is_between_goes_to_the_second_device_and_the_output_back() -> None:
    second = _SaysWhere().to("meta")
    # PyTorch copies nothing back from there.
    with pytest.raises(NotImplementedError, match="meta"):
        Halves(nn.Linear(2, 2), second)(torch.zeros(1, 2))
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
        (Tiny(size="default", seed=0), "Tiny names no halves"),
        (InHalvesThatOverlap(size="default", seed=0), "exactly one half; the model has 6, its halves have 8"),
    ],
)
def test_a_model_that_two_devices_cannot_share_is_refused(workload: TrainingWorkload, problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        halves_of(workload, workload.build_model())
