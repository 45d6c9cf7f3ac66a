from dataclasses import replace

import pytest
import torch

from gpu_report.workloads.linear_regression.reference import relative_error, train_by_sums
from tests.unit.workloads.linear_regression.lines import make_problem, train_in_float64


def test_the_reference_comes_to_the_least_squares() -> None:
    problem = make_problem(2000)
    columns = torch.stack([problem.x, torch.ones_like(problem.x)], dim=1).double()

    found = train_in_float64(replace(problem, epochs=4000)).parameters

    best = torch.linalg.lstsq(columns, problem.y.double().unsqueeze(1)).solution.squeeze(1)
    assert torch.allclose(found, best, rtol=1e-9)


@pytest.mark.parametrize(("points", "epochs"), [(100, 200), (3001, 200), (2**20 + 3, 3)])
def test_sums_over_the_points_learn_what_going_through_the_points_learns(
    points: int, epochs: int
) -> None:
    problem = replace(
        make_problem(points), epochs=epochs, learning_rate=0.007, weight=-1.3, bias=4.1
    )

    by_sums, by_points = train_by_sums(problem), train_in_float64(problem)

    assert len(by_sums.losses) == epochs
    assert relative_error(by_sums, by_points) < 1e-9
