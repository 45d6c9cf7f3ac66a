"""Trainings for `benchmarks/guard_power.py`: one plain, others with a slowdown or memory planted as
named.

`plain` -> a model; `slowed_by_250_us`, `larger_by_3_mib` -> the same with that planted
"""

import re
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.spinning import spin

CLASSES: Final = 10
BATCH: Final = 32
LARGE_BATCH: Final = 512
PX: Final = 32
MIB: Final = 2**20
BYTES: Final = 4
PLANTED: Final = re.compile(r"(?P<kind>slowed|larger)_by_(?P<amount>\d+)_(?:us|mib)")


class Model(nn.Module):
    """A small convolutional network; what is planted is done after it, or held beside it.

    Before it a GPU would wait for its host anyway, which has just copied the batch.
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        self.layers = nn.Sequential(
            *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES)
        )
        self.plant: Callable[[torch.device], None] = lambda _: None

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.layers(inputs)
        self.plant(inputs.device)
        return found


def plain() -> nn.Module:
    return Model()


def __getattr__(name: str) -> Any:
    """A function that builds the model with what the name says."""
    found = PLANTED.fullmatch(name)
    if found is None:
        raise AttributeError(name)

    def build() -> nn.Module:
        model, amount = Model(), int(found["amount"])
        if found["kind"] == "slowed":
            model.plant = lambda device: spin(device, amount)
        else:
            model.register_buffer("planted", torch.ones(amount * MIB // BYTES))
        return model

    return build


def make_batch() -> tuple[Tensor, Tensor]:
    return torch.randn(BATCH, 3, PX, PX), torch.randint(CLASSES, (BATCH,))


def make_large_batch() -> tuple[Tensor, Tensor]:
    """With which a GPU sets the pace and not the host that launches its kernels."""
    return torch.randn(LARGE_BATCH, 3, PX, PX), torch.randint(CLASSES, (LARGE_BATCH,))


def loss(output: Tensor, target: Tensor) -> Tensor:
    return cross_entropy(output, target)
