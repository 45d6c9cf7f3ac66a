"""The rungs that a CPU runs, against the same training in float64, on points drawn anew in every run."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gpu_report.kernels.building import NoCompilerError, cpu_rungs
from gpu_report.kernels.points import make_problem
from gpu_report.kernels.reference import relative_error, train_in_float64
from gpu_report.kernels.rungs import RUNGS, Problem, Trained

MOST_ERROR = 1e-5


def trained_by(name: str, problem: Problem) -> Trained:
    try:
        return RUNGS[name].prepare(problem)()
    except NoCompilerError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("points", [100, 1001, 4096, 300_001])
def test_the_rung_in_cpp_learns_what_float64_learns(points: int) -> None:
    problem = make_problem(points, device="cpu")

    assert relative_error(trained_by("openmp", problem), train_in_float64(problem)) < MOST_ERROR


def test_pytorch_learns_what_float64_learns() -> None:
    problem = make_problem(1001, device="cpu")

    assert relative_error(trained_by("eager", problem), train_in_float64(problem)) < MOST_ERROR


@pytest.mark.slow
def test_the_compiled_step_learns_what_float64_learns() -> None:
    problem = make_problem(50_001, device="cpu")

    assert relative_error(trained_by("compile", problem), train_in_float64(problem)) < MOST_ERROR


def test_a_training_begins_anew_each_time() -> None:
    train = RUNGS["eager"].prepare(make_problem(500, device="cpu"))

    assert torch.equal(train().losses, train().losses)


def test_the_rung_in_cpp_learns_the_same_with_any_number_of_threads() -> None:
    problem = make_problem(300_001, device="cpu")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = trained_by("openmp", problem)
        torch.set_num_threads(3)
        three = trained_by("openmp", problem)
    finally:
        torch.set_num_threads(before)

    assert relative_error(three, one) < 1e-6


def test_the_reference_comes_to_the_least_squares() -> None:
    problem = make_problem(2000, device="cpu")
    columns = torch.stack([problem.x, torch.ones_like(problem.x)], dim=1).double()

    learnt = train_in_float64(replace(problem, epochs=4000)).parameters

    best = torch.linalg.lstsq(columns, problem.y.double().unsqueeze(1)).solution.squeeze(1)
    assert torch.allclose(learnt, best, rtol=1e-9)


def test_the_same_seed_gives_the_same_points_and_no_seed_others() -> None:
    once, again, other = (make_problem(100, device="cpu", seed=seed) for seed in (3, 3, None))

    assert torch.equal(once.x, again.x)
    assert torch.equal(once.y, again.y)
    assert not torch.equal(once.x, other.x)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"x": torch.zeros(10, dtype=torch.float64)}, "x is torch.DoubleTensor of 1 dimensions"),
        ({"y": torch.zeros(10)[::2]}, "y is torch.FloatTensor of 1 dimensions; give a contiguous float32"),
        ({"y": torch.zeros(9)}, "x has 10 points and y 9; give as many of both"),
        ({"epochs": 0}, "epochs is 0; give at least 1"),
    ],
)
def test_points_that_the_rung_in_cpp_cannot_take_are_refused(change: dict[str, object], told: str) -> None:
    problem = replace(Problem(x=torch.zeros(10), y=torch.zeros(10)), **change)  # type: ignore[arg-type]

    with pytest.raises(RuntimeError, match=told):
        trained_by("openmp", problem)


@pytest.mark.parametrize("missing", ["C++ compiler", "ninja"])
def test_without_a_compiler_the_reason_is_told(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing == "C++ compiler":
        monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    else:
        monkeypatch.setattr("torch.utils.cpp_extension.is_ninja_available", lambda: False)

    with pytest.raises(NoCompilerError, match=f"no {missing.replace('+', '[+]')}"):
        cpu_rungs.__wrapped__()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_cuda_device_the_reason_is_told() -> None:
    with pytest.raises(NoCompilerError, match="no CUDA device"):
        RUNGS["fused"].prepare(make_problem(100, device="cpu"))


@pytest.mark.slow
def test_what_was_built_is_not_built_again(tmp_path: Path) -> None:
    require_compiler()

    first, second = (built_in(tmp_path) for _ in range(2))

    assert first == second


def require_compiler() -> None:
    try:
        cpu_rungs()
    except NoCompilerError as reason:
        pytest.skip(str(reason))


def built_in(folder: Path) -> dict[str, int]:
    """Each library in the cache with the moment it was written, by a process of its own: PyTorch loads it once."""
    command = [sys.executable, "-c", "from gpu_report.kernels.building import cpu_rungs; cpu_rungs().fused"]
    subprocess.run(command, env={**os.environ, "XDG_CACHE_HOME": str(folder)}, check=True)
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.so")}
