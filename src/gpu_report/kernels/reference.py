"""The same training in float64, which says what every rung should have learnt."""

import torch

from gpu_report.kernels.rungs import Problem, Trained


def train_in_float64(problem: Problem) -> Trained:
    """Gradient descent point by point in float64, on the device of the points; the loss is that before each update.

    It begins where the rungs begin, with weight, bias and learning rate as float32 has them.
    """
    x, y = problem.x.double(), problem.y.double()
    weight, bias, rate = (
        torch.tensor(value, dtype=torch.float32, device=x.device).double()
        for value in (problem.weight, problem.bias, problem.learning_rate)
    )
    losses = []
    for _ in range(problem.epochs):
        errors = weight * x + bias - y
        losses.append(errors.square().mean())
        weight, bias = weight - 2 * rate * (errors * x).mean(), bias - 2 * rate * errors.mean()
    return Trained(parameters=torch.stack([weight, bias]), losses=torch.stack(losses))


def relative_error(trained: Trained, reference: Trained) -> float:
    """The largest relative error of weight, bias and any epoch's loss."""
    found = torch.cat([trained.parameters, trained.losses]).double()
    exact = torch.cat([reference.parameters, reference.losses])
    return float(((found - exact).abs() / exact.abs()).max())
