"""A line is fitted as the float64 reference fits it, by each loop that a CPU runs, and each says
what a step takes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from gpu_report.study.options import OPTIONS
from gpu_report.workloads.linear_regression import LinearRegression
from gpu_report.workloads.linear_regression.loops import LOOPS, Problem, Train, Trained
from gpu_report.workloads.protocol import Loop, NotHereError, WorkloadError
from tests.unit.workloads.linear_regression.lines import MOST_ERROR, train_in_float64

POINTS, STEPS = 1001, 20
CPU_LOOPS = ("none", "openmp")


def line(*, seed: int = 0, learning_rate: float = 0.01) -> LinearRegression:
    return LinearRegression(
        size="default", seed=seed, test_samples=300, learning_rate=learning_rate
    )


@dataclass(frozen=True, kw_only=True)
class Built:
    """A loop with the model that it is for, and its points."""

    loop: Loop
    model: nn.Module
    batch: tuple[Tensor, Tensor]


def built(options: str, workload: LinearRegression | None = None) -> Built:
    workload = workload or line()
    model, batch = workload.build_model(), workload.draw(POINTS, "train")
    loop = workload.build_loop(model, batch, options=options, steps=STEPS, phase=Problem.phase)
    return Built(loop=loop, model=model, batch=batch)


def built_here(options: str, workload: LinearRegression | None = None) -> Built:
    try:
        return built(options, workload)
    except NotHereError as reason:
        pytest.skip(str(reason))


def in_float64(batch: tuple[Tensor, Tensor], *, learning_rate: float) -> Trained:
    x, y = (part.squeeze(1) for part in batch)
    return train_in_float64(Problem(x=x, y=y, learning_rate=learning_rate, epochs=STEPS))


def test_every_loop_of_its_own_is_an_option_that_a_reader_can_look_up() -> None:
    assert set(LOOPS) <= {"none", *OPTIONS}
    assert {name for name, option in OPTIONS.items() if option.is_loop} <= set(LOOPS)


def test_points_of_a_grid_have_equal_distances_and_every_fifth_is_held_out() -> None:
    workload = LinearRegression(size="default", seed=0, points="grid")

    (train, _), (held_out, _) = workload.draw(40, "train"), workload.draw(10, "test")

    assert torch.cat([train, held_out]).flatten().sort().values.tolist() == pytest.approx(
        [0.2 * place for place in range(50)]
    )
    assert held_out.flatten().tolist() == pytest.approx([0.8 + place for place in range(10)])


@pytest.mark.parametrize("samples", range(1, 12))
def test_a_grid_has_as_many_points_as_are_asked_for(samples: int) -> None:
    workload = LinearRegression(size="default", seed=0, points="grid")

    assert len(workload.draw(samples, "train")[0]) == samples
    assert len(workload.draw(samples, "test")[0]) == samples


def test_points_that_are_neither_random_nor_a_grid_are_refused() -> None:
    with pytest.raises(WorkloadError, match=r"linear_regression\.points.*'line'.*random, grid"):
        LinearRegression(size="default", seed=0, points="line")  # type: ignore[arg-type]


def test_a_perfect_prediction_has_quality_1_and_naming_the_mean_that_of_chance() -> None:
    _, target = line().draw(500, "test")
    mean = target.mean().expand_as(target)

    assert line().quality(target, target) == 1
    assert line().quality(mean, target) == pytest.approx(line().chance(), abs=1e-6)
    assert line().quality((target + mean) / 2, target) == pytest.approx(0.75)
    assert line().quality(target + 100, target) == line().quality(target * torch.nan, target) == 0


def test_an_option_that_is_none_of_its_loops_is_refused_with_the_list() -> None:
    with pytest.raises(
        WorkloadError, match=r"no loop 'resident'; use one of none, compile, .*statistics, alone"
    ) as raised:
        built("resident")

    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("options", CPU_LOOPS)
@pytest.mark.parametrize("learning_rate", [0.01, 0.003])
def test_a_loop_learns_what_float64_learns(options: str, learning_rate: float) -> None:
    line_built = built_here(options, line(learning_rate=learning_rate))
    reference = in_float64(line_built.batch, learning_rate=learning_rate)

    losses = line_built.loop.train()

    assert [parameter.item() for parameter in line_built.model.parameters()] == pytest.approx(
        [0.83, 0.7645]
    )
    assert losses.tolist() == pytest.approx(reference.losses.tolist(), rel=MOST_ERROR)
    line_built.loop.put_into_model()
    parameters = [parameter.item() for parameter in line_built.model.parameters()]
    assert parameters == pytest.approx(reference.parameters.tolist(), rel=MOST_ERROR)
    error = line_built.loop.find_error()
    assert error is not None
    assert error < MOST_ERROR


def off_by(share: float) -> Callable[[Problem], Train]:
    """A loop whose losses are right and whose weight and bias are too large by this share."""

    def prepare(problem: Problem) -> Train:
        train = LOOPS["none"].prepare(problem)

        def train_wrongly() -> Trained:
            trained = train()
            return trained._replace(parameters=trained.parameters * (1 + share))

        return train_wrongly

    return prepare


def test_a_loop_that_trains_something_else_is_found_by_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = replace(LOOPS["openmp"], prepare=off_by(0.02))
    monkeypatch.setattr("gpu_report.workloads.linear_regression.LOOPS", {"openmp": wrong})
    loop = built("openmp").loop

    loop.train()

    assert loop.find_error() == pytest.approx(0.02, rel=1e-3)


@pytest.mark.parametrize("options", CPU_LOOPS)
def test_each_call_starts_from_the_initial_weights(options: str) -> None:
    line_built = built_here(options)

    first, again = line_built.loop.train().clone(), line_built.loop.train()

    assert len(first) == STEPS
    assert torch.equal(first, again)
