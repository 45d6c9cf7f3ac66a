"""What every classification workload shares: samples held in memory, accuracy, and what guessing reaches."""

from torch import Tensor
from torch.utils.data import Dataset

from gpu_report.workloads.protocol import WorkloadError


class TensorPairs(Dataset[tuple[Tensor, Tensor]]):
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


def most_frequent_share(targets: Tensor) -> float:
    """Accuracy of always naming the most frequent class of these targets."""
    return targets.bincount().max().item() / len(targets)


def check_settings(workload: str, *, size: str, sizes: tuple[str, ...], **positive: float) -> None:
    """Refuse a size that does not exist, and settings that are not above 0.

    Raises:
        WorkloadError: names the setting, its value and what is allowed.
    """
    if size not in sizes:
        raise WorkloadError(f"workloads.{workload}: there is no size {size!r}; use one of {', '.join(sizes)}")
    for setting, value in positive.items():
        if value <= 0:
            raise WorkloadError(f"workloads.{workload}.{setting}: {value!r} is not allowed; use more than 0")
