"""The loops that a CPU runs, against the same training in float64, on points drawn anew in every
run.
"""

from dataclasses import replace

import pytest
import torch

from gpu_report.workloads.linear_regression.loops import LOOPS, Problem
from gpu_report.workloads.linear_regression.reference import relative_error
from tests.unit.workloads.linear_regression.lines import (
    MOST_ERROR,
    make_problem,
    train_in_float64,
    trained_by,
)


@pytest.mark.parametrize("points", [100, 1001, 4096, 300_001])
def test_the_loop_in_cpp_learns_what_float64_learns(points: int) -> None:
    problem = make_problem(points)

    assert (
        relative_error(trained_by(LOOPS["openmp"], problem), train_in_float64(problem)) < MOST_ERROR
    )


def test_the_compiled_step_learns_what_float64_learns(traced_only: None) -> None:
    problem = make_problem(50_001)

    assert (
        relative_error(trained_by(LOOPS["compile"], problem), train_in_float64(problem))
        < MOST_ERROR
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": torch.zeros(10, dtype=torch.float64)}, "x is torch.DoubleTensor of 1 dimensions"),
        (
            {"y": torch.zeros(10)[::2]},
            "y is torch.FloatTensor of 1 dimensions; give a contiguous float32",
        ),
        ({"y": torch.zeros(9)}, "x has 10 points and y 9; give as many of both"),
        ({"epochs": 0}, "epochs is 0; give at least 1"),
    ],
)
def test_points_that_the_loop_in_cpp_cannot_take_are_refused(
    change: dict[str, object], said: str
) -> None:
    problem = replace(Problem(x=torch.zeros(10), y=torch.zeros(10)), **change)  # type: ignore[arg-type]

    with pytest.raises(RuntimeError, match=said):
        trained_by(LOOPS["openmp"], problem)
