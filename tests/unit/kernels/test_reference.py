from dataclasses import replace

import torch

from gpu_report.kernels.points import make_problem
from gpu_report.kernels.reference import train_in_float64


def test_the_reference_comes_to_the_least_squares() -> None:
    problem = make_problem(2000, device="cpu")
    columns = torch.stack([problem.x, torch.ones_like(problem.x)], dim=1).double()

    learnt = train_in_float64(replace(problem, epochs=4000)).parameters

    best = torch.linalg.lstsq(columns, problem.y.double().unsqueeze(1)).solution.squeeze(1)
    assert torch.allclose(learnt, best, rtol=1e-9)
