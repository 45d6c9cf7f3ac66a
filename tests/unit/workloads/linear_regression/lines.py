"""Points on a line, and the training that every loop is compared with."""

import pytest
import torch

from gpu_report.workloads.linear_regression import LinearRegression
from gpu_report.workloads.linear_regression.building import NoCompilerError
from gpu_report.workloads.linear_regression.loops import LineLoop, Problem, Trained

MOST_ERROR = 1e-5


def make_problem(points: int, *, device: str = "cpu") -> Problem:
    """Points drawn anew in every run."""
    workload = LinearRegression(size="default", seed=int(torch.seed() % 2**32))
    x, y = (part.squeeze(1).to(device) for part in workload.draw(points, "train"))
    return Problem(x=x, y=y)


def train_in_float64(problem: Problem) -> Trained:
    """Gradient descent point by point, from the values that float32 has of weight, bias and
    learning rate.
    """
    x, y = problem.x.double(), problem.y.double()
    initial = torch.tensor([problem.weight, problem.bias, problem.learning_rate], device=x.device)
    weight, bias, rate = initial.double().unbind()
    losses = []
    for _ in range(problem.epochs):
        errors = weight * x + bias - y
        losses.append(errors.square().mean())
        weight, bias = weight - 2 * rate * (errors * x).mean(), bias - 2 * rate * errors.mean()
    return Trained(parameters=torch.stack([weight, bias]), losses=torch.stack(losses))


def trained_by(loop: LineLoop, problem: Problem) -> Trained:
    """Skips the test where the loop's compiler is missing."""
    try:
        return loop.prepare(problem)()
    except NoCompilerError as reason:
        pytest.skip(str(reason))
