"""Workloads as short as they can be: of pairs of tensors, of nested batches, and wrong ones."""

import random
from collections import UserDict
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset


def points(count: int = 20, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(2, (count,), generator=generator)
    return torch.randn(count, 4, generator=generator) + target[:, None], target


class Short:
    """Two overlapping clouds
    of points.

    More of it, which no description needs.
    """

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def train_data(self) -> Any:
        return TensorDataset(*points())

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, target)


class DrawsWhenBuilt(Short):
    """With NumPy's and Python's generators, as many data sets are made."""

    def __init__(self) -> None:
        self._inputs = torch.tensor(np.random.rand(20, 4) + random.random(), dtype=torch.float32)

    def train_data(self) -> Any:
        return TensorDataset(self._inputs, points()[1])


class Encoding(UserDict[str, Any]):
    """As Hugging Face's BatchEncoding: a mapping that is no dict, with its values as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["data"][name]
        except KeyError:
            raise AttributeError(name) from None


class Output(NamedTuple):
    loss: Tensor
    scores: Tensor


class _FromFields(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = Short().build_model()

    def forward(self, points: Tensor, labels: Tensor, halves: list[Tensor]) -> Output:
        scores = self.layers(points + torch.cat(halves, dim=1))
        return Output(nn.functional.cross_entropy(scores, labels), scores)


class _Encoded(Dataset[Any]):
    """The points of Short with what comes to nothing beside them."""

    def __init__(self, count: int, seed: int) -> None:
        self.points, self.labels = points(count, seed)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> Encoding:
        nothing = torch.zeros(2)
        return Encoding(
            {
                "points": self.points[index],
                "labels": self.labels[index],
                "halves": [nothing, nothing],
            }
        )


class ByStep:
    """The training of Short, from mappings of tensors and lists; its metric falls."""

    quality_name = "perplexity"
    quality_better = "lower"

    def build_model(self) -> nn.Module:
        return _FromFields()

    def train_data(self) -> Any:
        return _Encoded(20, 0)

    def test_data(self) -> Any:
        return _Encoded(8, 1)

    def training_step(self, model: nn.Module, batch: Encoding) -> Tensor:
        return cast("Tensor", model(**batch).loss)

    def quality(self, model: nn.Module, batches: Iterable[Encoding]) -> float:
        return (
            torch.cat([self.training_step(model, batch)[None] for batch in batches])
            .mean()
            .exp()
            .item()
        )

    def chance(self) -> float:
        return 2.0


class _OfTwo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = Short().build_model()

    def forward(self, inputs: list[Tensor]) -> tuple[Tensor, Tensor]:
        return self.layers(torch.cat(inputs, dim=1)), inputs[0]


class InPairs(Short):
    """The training of Short, from pairs of nestings, with a model that returns two tensors."""

    def build_model(self) -> nn.Module:
        return _OfTwo()

    def train_data(self) -> Any:
        return [
            ([each[:1], each[1:]], {"label": label}) for each, label in zip(*points(), strict=True)
        ]

    def test_data(self) -> Any:
        return self.train_data()[:8]

    def loss(self, output: Any, target: Any) -> Tensor:
        return nn.functional.cross_entropy(output[0], target["label"])

    def quality(self, output: Any, target: Any) -> float:
        return float((output[0].argmax(1) == target["label"]).float().mean())


class WithoutSamples(Short):
    def train_data(self) -> Any:
        return []


class WithoutHeldOutSamples(Short):
    def test_data(self) -> Any:
        return []


class OfText(Short):
    def train_data(self) -> Any:
        return [({"text": "two"}, 2)]


class OfMappings(Short):
    def train_data(self) -> Any:
        return _Encoded(20, 0)


class WithoutModel(Short):
    def build_model(self) -> Any:
        return lambda points: points


class LossOfEachSample(Short):
    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, target, reduction="none")


class LossAsNumber(Short):
    def loss(self, output: Tensor, target: Tensor) -> Any:
        return super().loss(output, target).item()


class StepOfNothing(ByStep):
    def training_step(self, model: nn.Module, batch: Encoding) -> Any:
        super().training_step(model, batch)
