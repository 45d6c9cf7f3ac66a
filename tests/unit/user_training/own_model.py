"""A small model of a user's own, and functions that go wrong, for fresh processes to import by
name.
"""

import os
import signal
import time

import torch
from torch import Tensor, nn

FEATURES = 100


class Padded(nn.Module):
    """Keeps a known number of bytes per sample until its backward pass."""

    def __init__(self, bytes_per_sample: int = 2**18) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 1)
        self.width = bytes_per_sample // 4

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(inputs)
        return outputs.expand(-1, self.width).exp().mean()


def build() -> nn.Module:
    return Padded()


def build_large() -> nn.Module:
    return Padded(2**25)


def build_normalized() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 1), nn.BatchNorm1d(1), nn.Flatten(0), Mean())


def build_for_any_axes() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 1), Mean())


def build_in_place() -> nn.Module:
    return nn.Sequential(nn.ReLU(inplace=True), build_images())


class Mean(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.mean()


def make_batch(samples: int) -> Tensor:
    return torch.randn(samples, FEATURES)


def make_batch_of_four() -> Tensor:
    return make_batch(4)


def make_at_most_100(samples: int) -> Tensor:
    if samples > 100:
        raise RuntimeError("an index has no more than 32 bits")
    return make_batch(samples)


def make_of_100_rows(samples: int) -> Tensor:
    return make_batch(100)[:samples]


def make_along_the_second_axis(samples: int) -> Tensor:
    return torch.randn(7, samples, FEATURES)


def raise_key_error() -> nn.Module:
    raise KeyError("weights")


def be_no_number(_: nn.Module) -> object:
    return object()


def be_killed() -> nn.Module:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def leave_without_a_word() -> nn.Module:
    os._exit(4)


def hang() -> nn.Module:
    time.sleep(60)
    raise AssertionError


def first_layer(model: Padded) -> list[nn.Module]:
    return [model.layer]


def build_images() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 3))


class AsksTheDevice(nn.Module):
    """Its forward pass waits for the device, which no capture allows."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(build_images(), nn.Dropout())

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layers(inputs)
        return outputs if outputs.sum().item() else -outputs


def build_asking() -> nn.Module:
    return AsksTheDevice()


def make_images() -> tuple[Tensor, Tensor]:
    return torch.randn(4, 3, 8, 8), torch.randint(0, 3, (4,))


def image_loss(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output, target)


def sum_of_weights(model: nn.Module) -> float:
    return sum(each.abs().sum().item() for each in model.parameters())
