"""The fused step in Triton: one kernel an epoch, in Python."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024
_PLACES = 32


@triton.jit  # type: ignore[untyped-decorator]
def _add_up(x_at, y_at, parameters, sums, points, BLOCK: tl.constexpr, PLACES: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """Add error^2, error * x and error of the points to one of the places."""
    weight = tl.load(parameters)
    bias = tl.load(parameters + 1)
    squares = tl.zeros((BLOCK,), tl.float32)
    weighted = tl.zeros((BLOCK,), tl.float32)
    errors = tl.zeros((BLOCK,), tl.float32)
    for begin in range(tl.program_id(0) * BLOCK, points, tl.num_programs(0) * BLOCK):
        at = begin + tl.arange(0, BLOCK)
        there = at < points
        x = tl.load(x_at + at, mask=there, other=0.0)
        y = tl.load(y_at + at, mask=there, other=0.0)
        error = tl.where(there, weight * x + (bias - y), 0.0)
        squares += error * error
        weighted += error * x
        errors += error
    place = sums + 3 * (tl.program_id(0) % PLACES)
    tl.atomic_add(place, tl.sum(squares).to(tl.float64))
    tl.atomic_add(place + 1, tl.sum(weighted).to(tl.float64))
    tl.atomic_add(place + 2, tl.sum(errors).to(tl.float64))


@triton.jit  # type: ignore[untyped-decorator]
def _step(parameters, sums, losses, epoch, rate, points, PLACES: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """Step down the gradient, note the loss, and clear the sums."""
    places = 3 * tl.arange(0, PLACES)
    zeros = tl.zeros((PLACES,), tl.float64)
    squares = tl.sum(tl.load(sums + places)) / points
    weighted = tl.sum(tl.load(sums + places + 1)) / points
    errors = tl.sum(tl.load(sums + places + 2)) / points
    tl.store(losses + epoch, squares.to(tl.float32))
    tl.store(parameters, (tl.load(parameters) - 2 * rate * weighted).to(tl.float32))
    tl.store(parameters + 1, (tl.load(parameters + 1) - 2 * rate * errors).to(tl.float32))
    for part in tl.static_range(3):
        tl.store(sums + places + part, zeros)


def train(
    x: Tensor, y: Tensor, parameters: Tensor, learning_rate: float, *, epochs: int, blocks: int
) -> Tensor:
    """Change weight and bias for all epochs and return the losses.

    Two launches an epoch, since no block of Triton's can wait for the others.
    """
    losses = torch.empty(epochs, device=x.device)
    sums = torch.zeros(_PLACES * 3, dtype=torch.float64, device=x.device)
    for epoch in range(epochs):
        _add_up[(blocks,)](x, y, parameters, sums, x.numel(), BLOCK=_BLOCK, PLACES=_PLACES)
        _step[(1,)](parameters, sums, losses, epoch, learning_rate, x.numel(), PLACES=_PLACES)
    return losses
