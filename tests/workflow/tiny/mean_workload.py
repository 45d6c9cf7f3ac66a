"""A workload that brings its own training loop: one parameter learns the mean of the targets."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import Dataset, TensorDataset

from gpu_report.workloads.protocol import Loop, Phase

LEARNING_RATE = 0.1


class Mean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.value.expand(len(inputs))


class MeanWorkload:
    """Brings data for a batch of any size, a metric and the loop."""

    title = "mean of numbers"
    quality_name = "closeness"
    loss_name = "mean squared error"
    optimizer_name = "SGD"
    sample_description = "one number"
    data_description = "Normal numbers around 3."
    held_out_samples = 256

    def __init__(self, *, size: str, seed: int) -> None:
        self.seed = seed

    def build_model(self) -> nn.Module:
        return Mean()

    def build_optimizer(self, model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=LEARNING_RATE)

    def draw(self, samples: int, split: Literal["train", "test"]) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(2 * self.seed + (split == "test"))
        return torch.zeros(samples), 3 + torch.randn(samples, generator=generator)

    def train_data(self) -> Dataset[tuple[Tensor, ...]]:
        return TensorDataset(*self.draw(64, "train"))

    def test_data(self) -> Dataset[tuple[Tensor, ...]]:
        return TensorDataset(*self.draw(self.held_out_samples, "test"))

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.mse_loss(output, target)

    def quality(self, output: Tensor, target: Tensor) -> float:
        return 1 / (1 + float((output.mean() - target.mean()).abs()))

    def chance(self) -> float:
        return 0.25

    def build_loop(
        self,
        model: nn.Module,
        batch: tuple[Tensor, Tensor],
        *,
        options: str,
        steps: int,
        phase: Phase,
    ) -> Loop:
        _, targets = batch
        learned = torch.zeros(1)

        def step() -> Tensor:
            with phase("forward"):
                error = targets - learned
                loss = error.square().mean()
            with phase("optimizer"):
                learned.add_(2 * LEARNING_RATE * error.mean())
            return loss

        def train() -> Tensor:
            learned.zero_()
            return torch.stack([step() for _ in range(steps)])

        def put_into_model() -> None:
            with torch.no_grad():
                model.get_parameter("value").copy_(learned)

        return Loop(train=train, put_into_model=put_into_model, eager_step=step)
