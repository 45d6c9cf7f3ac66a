"""The loops that a GPU runs, against the same training in float64, on points drawn anew in every
run.
"""

from functools import partial
from typing import Any

import pytest
import torch

from gpu_report.workloads.linear_regression.building import NoCompilerError, cuda_loops
from gpu_report.workloads.linear_regression.loops import LOOPS, Problem, Trained, cuda_loop
from gpu_report.workloads.linear_regression.reference import relative_error
from tests.unit.workloads.linear_regression.lines import (
    MOST_ERROR,
    make_problem,
    train_in_float64,
    trained_by,
)

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no CUDA device here"),
    pytest.mark.filterwarnings(
        "ignore:.*torch.jit.script_method:DeprecationWarning"
    ),  # of torch 2.11's own compiler
]

ON_CUDA = [name for name, loop in LOOPS.items() if "cuda" in loop.device_types]
BY_HAND = ["separate", "streams", "fusedstep", "sharedsums", "persistent", "statistics"]


@pytest.mark.parametrize("points", [1000, 4097, 1_000_003])
@pytest.mark.parametrize("name", ON_CUDA)
def test_every_loop_learns_what_float64_learns(name: str, points: int) -> None:
    problem = make_problem(points, device="cuda")

    assert relative_error(trained_by(LOOPS[name], problem), train_in_float64(problem)) < MOST_ERROR


@pytest.mark.parametrize("name", BY_HAND)
def test_more_points_than_the_chip_holds_are_trained_on_as_well(name: str) -> None:
    problem = make_problem(20_000_001, device="cuda")

    assert relative_error(trained_by(LOOPS[name], problem), train_in_float64(problem)) < MOST_ERROR


@pytest.mark.parametrize("name", BY_HAND)
def test_a_handful_of_points_is_trained_on_as_well(name: str) -> None:
    close = partial(torch.allclose, rtol=1e-4, atol=1e-5)
    for points in range(1, 9):
        problem = make_problem(points, device="cuda")

        trained = trained_by(LOOPS[name], problem)

        reference = train_in_float64(problem)
        assert close(trained.parameters.double(), reference.parameters), points
        assert close(trained.losses.double(), reference.losses), points


@pytest.mark.parametrize("name", BY_HAND)
def test_the_size_of_the_grid_does_not_change_what_it_comes_to(name: str) -> None:
    problem = make_problem(1_000_003, device="cuda")
    reference = train_in_float64(problem)
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    operator = cuda_operator(name)

    for grid in (1, 3, 31, 32, 33, blocks):
        parameters, losses = operator(
            problem.x, problem.y, problem.weight, problem.bias, 0.01, problem.epochs, grid
        )
        assert relative_error(Trained(parameters=parameters, losses=losses), reference) < MOST_ERROR


def cuda_operator(name: str) -> Any:
    try:
        return getattr(cuda_loops(), name)
    except NoCompilerError as reason:
        pytest.skip(str(reason))


def test_a_grid_that_cannot_run_at_once_is_refused() -> None:
    problem = make_problem(1000, device="cuda")

    with pytest.raises(RuntimeError, match="too many blocks in cooperative launch"):
        trained_by(
            cuda_loop("persistent", blocks_per_multiprocessor=2, bytes_of_epoch=lambda _: 0.0),
            problem,
        )


@pytest.mark.parametrize("name", BY_HAND)
def test_points_that_begin_in_the_middle_of_16_bytes_are_refused(name: str) -> None:
    points = torch.zeros(101, device="cuda")

    with pytest.raises(RuntimeError, match="does not begin at a multiple of 16 bytes"):
        trained_by(LOOPS[name], Problem(x=points[1:], y=points[1:]))


def test_the_chip_keeps_no_more_points_than_it_has_room_for() -> None:
    chip = torch.cuda.get_device_properties(0)
    blocks = chip.multi_processor_count

    try:
        kept = cuda_loops().persistent_points_kept(blocks)
    except NoCompilerError as reason:
        pytest.skip(str(reason))

    room_bytes = 4 * chip.regs_per_multiprocessor + chip.shared_memory_per_multiprocessor
    assert 0 < 8 * kept < blocks * room_bytes
