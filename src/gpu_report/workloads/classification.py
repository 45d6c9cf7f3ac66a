"""What every workload that classifies samples or their pixels shares: Adam on cross-entropy,
accuracy, and samples held in memory.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch.utils.data import Dataset

from gpu_report.workloads.protocol import WorkloadError
from gpu_report.workloads.synthetic import Split


class LabelledSamples(Dataset[tuple[Tensor, Tensor]]):
    """A data set that knows every target, a class number for each sample or pixel, without making
    the inputs.
    """

    targets: Tensor


@dataclass(frozen=True, kw_only=True)
class Classification(ABC):
    """All of a workload but its title, its model and its samples."""

    size: str
    seed: int
    train_samples: int
    test_samples: int
    learning_rate: float

    name: ClassVar[str]
    sizes: ClassVar[tuple[str, ...]] = ("default",)
    quality_name: ClassVar[str] = "accuracy"
    loss_name: ClassVar[str] = "cross-entropy"

    def __post_init__(self) -> None:
        check_settings(
            self.name,
            size=self.size,
            sizes=self.sizes,
            train_samples=self.train_samples,
            test_samples=self.test_samples,
            learning_rate=self.learning_rate,
        )

    @abstractmethod
    def labelled(self, split: Split, samples: int) -> LabelledSamples:
        """This many samples of a split."""

    @property
    def optimizer_name(self) -> str:
        return f"Adam, learning rate {self.learning_rate:g}"

    def build_optimizer(self, model: nn.Module) -> Optimizer:
        return Adam(model.parameters(), lr=self.learning_rate)

    def train_data(self) -> Dataset[tuple[Tensor, Tensor]]:
        return self.labelled("train", self.train_samples)

    def test_data(self) -> Dataset[tuple[Tensor, Tensor]]:
        return self.labelled("test", self.test_samples)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, target)

    def quality(self, output: Tensor, target: Tensor) -> float:
        return accuracy(output, target)

    def chance(self) -> float:
        """Accuracy of always naming the most frequent class."""
        targets = self.labelled("test", self.test_samples).targets
        return targets.bincount().max().item() / len(targets)


class TensorPairs(LabelledSamples):
    """Inputs and targets held in memory, first dimension samples."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs = inputs
        self.targets = targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]


def accuracy(output: Tensor, target: Tensor) -> float:
    """Share of the samples whose largest output is the target's class."""
    return (output.argmax(dim=1) == target).float().mean().item()


def check_settings(workload: str, *, size: str, sizes: tuple[str, ...], **positive: float) -> None:
    """Refuse a size that does not exist, and settings that are not above 0.

    Raises:
        WorkloadError: names the setting, its value and what is allowed.
    """
    if size not in sizes:
        raise WorkloadError(
            f"workloads.{workload}: there is no size {size!r}; use one of {', '.join(sizes)}"
        )
    for setting, value in positive.items():
        if value <= 0:
            raise WorkloadError(
                f"workloads.{workload}.{setting}: {value!r} is not allowed; use more than 0"
            )
