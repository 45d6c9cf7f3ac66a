"""A small training of a user's own, and what goes wrong in one; tests copy it to where a side
imports it.
"""

import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn


def build() -> nn.Module:
    print("a model may print")
    return nn.Linear(64, 1)


def make_batch() -> tuple[Tensor, Tensor]:
    return torch.randn(8, 64), torch.randn(8, 1)


def loss(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.mse_loss(output, target)


def loss_without_a_number(output: Tensor, _: Tensor) -> Tensor:
    return output.mean() * float("nan")


def weight(model: nn.Module) -> float:
    return sum(each.abs().sum().item() for each in model.parameters())


def no_number(_: nn.Module) -> float:
    return float("nan")


def build_with_two_lines() -> nn.Module:
    raise RuntimeError("the first line\nand the second")


def build_for_long() -> nn.Module:
    """Its process writes its id into a file of the working directory, and never answers."""
    Path("process").write_text(str(os.getpid()))
    time.sleep(600)
    raise AssertionError


def hash_of_a_text(_model: nn.Module) -> float:
    """Which differs between two processes that Python started, and not between two forks of one."""
    return float(hash("text"))
