"""The rungs that a GPU runs, against the same training in float64, on points drawn anew in every run."""

from typing import Any

import pytest
import torch

from gpu_report.kernels.building import NoCompilerError, cuda_rungs
from gpu_report.kernels.points import make_problem
from gpu_report.kernels.reference import relative_error, train_in_float64
from gpu_report.kernels.rungs import RUNGS, Problem, Rung, Trained, cuda_rung

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no CUDA device here"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning"),  # of torch 2.11's own compiler
]

MOST_ERROR = 1e-5
ON_CUDA = [name for name, rung in RUNGS.items() if "cuda" in rung.device_types]
BY_HAND = ["separate", "streams", "fusedstep", "sharedsums", "persistent", "statistics"]


def trained_by(rung: Rung, problem: Problem) -> Trained:
    try:
        return rung.prepare(problem)()
    except NoCompilerError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("points", [1000, 4097, 1_000_003])
@pytest.mark.parametrize("name", ON_CUDA)
def test_every_rung_learns_what_float64_learns(name: str, points: int) -> None:
    problem = make_problem(points, device="cuda")

    assert relative_error(trained_by(RUNGS[name], problem), train_in_float64(problem)) < MOST_ERROR


@pytest.mark.parametrize("name", BY_HAND)
def test_more_points_than_the_chip_holds_are_learnt_from_as_well(name: str) -> None:
    problem = make_problem(20_000_001, device="cuda")

    assert relative_error(trained_by(RUNGS[name], problem), train_in_float64(problem)) < MOST_ERROR


@pytest.mark.parametrize("points", range(1, 9))
@pytest.mark.parametrize("name", BY_HAND)
def test_a_handful_of_points_is_learnt_from_as_well(name: str, points: int) -> None:
    problem = make_problem(points, device="cuda")

    learnt = trained_by(RUNGS[name], problem)

    reference = train_in_float64(problem)
    assert torch.allclose(learnt.parameters.double(), reference.parameters, rtol=1e-4, atol=1e-5)
    assert torch.allclose(learnt.losses.double(), reference.losses, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BY_HAND)
def test_the_size_of_the_grid_does_not_change_what_is_learnt(name: str) -> None:
    problem = make_problem(1_000_003, device="cuda")
    reference = train_in_float64(problem)
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    operator = cuda_operator(name)

    for grid in (1, 3, 31, 32, 33, blocks):
        parameters, losses = operator(problem.x, problem.y, problem.weight, problem.bias, 0.01, problem.epochs, grid)
        assert relative_error(Trained(parameters=parameters, losses=losses), reference) < MOST_ERROR


def cuda_operator(name: str) -> Any:
    try:
        return getattr(cuda_rungs(), name)
    except NoCompilerError as reason:
        pytest.skip(str(reason))


def test_a_grid_that_cannot_run_at_once_is_refused() -> None:
    problem = make_problem(1000, device="cuda")

    with pytest.raises(RuntimeError, match="too many blocks in cooperative launch"):
        trained_by(cuda_rung("persistent", blocks_per_multiprocessor=2, bytes_of_epoch=lambda _: 0.0), problem)


@pytest.mark.parametrize("name", BY_HAND)
def test_points_that_begin_in_the_middle_of_16_bytes_are_refused(name: str) -> None:
    points = torch.zeros(101, device="cuda")

    with pytest.raises(RuntimeError, match="does not begin at a multiple of 16 bytes"):
        trained_by(RUNGS[name], Problem(x=points[1:], y=points[1:]))


def test_the_chip_keeps_no_more_points_than_it_has_room_for() -> None:
    chip = torch.cuda.get_device_properties(0)
    blocks = chip.multi_processor_count

    try:
        kept = cuda_rungs().persistent_points_kept(blocks)
    except NoCompilerError as reason:
        pytest.skip(str(reason))

    room_bytes = 4 * chip.regs_per_multiprocessor + chip.shared_memory_per_multiprocessor
    assert 0 < 8 * kept < blocks * room_bytes
