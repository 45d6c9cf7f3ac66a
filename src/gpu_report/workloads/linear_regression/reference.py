"""The same training in float64: what every loop should come to."""

from typing import Final

import torch
from torch import Tensor

from gpu_report.workloads.linear_regression.loops import Problem, Trained

_PIECE: Final = 2**20


def train_by_sums(problem: Problem) -> Trained:
    """Gradient descent from float64 means over the points; as exact as point by point, in less time
    and memory.

    Gradient and loss are polynomials of weight w and bias b whose coefficients are the means m of
    1, x, y and their products: dL/dw = 2 (w m_xx + b m_x - m_xy), dL/db = 2 (w m_x + b - m_y), L =
    w^2 m_xx + b^2 + m_yy + 2 (w b m_x - w m_xy - b m_y). The loss is that before each update.
    Weight, bias and learning rate begin with the values that float32 has of them, as in the loops.
    """
    initial = torch.tensor(
        [problem.weight, problem.bias, problem.learning_rate], device=problem.x.device
    )
    weight, bias, rate = initial.double().unbind()
    x_mean, y_mean, xx, xy, yy = _means(problem)
    losses = []
    for _ in range(problem.epochs):
        losses.append(
            weight**2 * xx
            + bias**2
            + yy
            + 2 * (weight * bias * x_mean - weight * xy - bias * y_mean)
        )
        of_weight, of_bias = weight * xx + bias * x_mean - xy, weight * x_mean + bias - y_mean
        weight, bias = weight - 2 * rate * of_weight, bias - 2 * rate * of_bias
    return Trained(parameters=torch.stack([weight, bias]), losses=torch.stack(losses))


def _means(problem: Problem) -> tuple[Tensor, ...]:
    """Of x, y, x^2, x y and y^2, piece by piece, since float64 takes twice the memory of the
    points.
    """
    sums = torch.zeros(5, dtype=torch.float64, device=problem.x.device)
    for piece in zip(torch.split(problem.x, _PIECE), torch.split(problem.y, _PIECE), strict=True):
        x, y = (part.double() for part in piece)
        sums += torch.stack([x.sum(), y.sum(), x @ x, x @ y, y @ y])
    return (sums / problem.x.numel()).unbind()


def relative_error(trained: Trained, reference: Trained) -> float:
    """The largest relative error of weight, bias and any epoch's loss."""
    found = torch.cat([trained.parameters, trained.losses]).double()
    exact = torch.cat([reference.parameters, reference.losses])
    return float(((found - exact).abs() / exact.abs()).max())
