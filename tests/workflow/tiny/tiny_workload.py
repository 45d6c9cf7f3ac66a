"""A workload that trains in milliseconds: points on a line, blurred, told apart by a small
network.
"""

import time

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import Dataset


class Points(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, *, count: int, seed: int, pause_s: float) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.points = torch.randn(count, 4, generator=generator)
        noise = torch.randn(count, generator=generator)
        self.classes = (self.points.sum(dim=1) + noise > 0).long()
        self.pause_s = pause_s

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(self.pause_s)
        return self.points[index], self.classes[index]


class TinyWorkload:
    """`pause_s` slows the loader down, so that a test can interrupt; `fault` makes the loss fail on
    purpose.
    """

    title = "tiny network"
    quality_name = "accuracy"
    loss_name = "cross-entropy"
    optimizer_name = "SGD"
    sample_description = "4 numbers, 2 classes"
    data_description = "Points on a line with noise."

    def __init__(
        self, *, size: str, seed: int, width: int = 8, pause_s: float = 0.0, fault: str = ""
    ) -> None:
        self.width = width * (4 if size == "wide" else 1)
        self.seed = seed
        self.pause_s = pause_s
        self.fault = fault

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, self.width), nn.ReLU(), nn.Linear(self.width, 2))

    def build_optimizer(self, model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=0.1)

    def train_data(self) -> Dataset[tuple[Tensor, Tensor]]:
        return Points(count=64, seed=2 * self.seed, pause_s=self.pause_s)

    def test_data(self) -> Dataset[tuple[Tensor, Tensor]]:
        return Points(count=64, seed=2 * self.seed + 1, pause_s=0.0)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        if self.fault:
            raise RuntimeError(self.fault)
        return nn.functional.cross_entropy(output, target)

    def quality(self, output: Tensor, target: Tensor) -> float:
        return float((output.argmax(dim=1) == target).float().mean())

    def chance(self) -> float:
        return 0.5
