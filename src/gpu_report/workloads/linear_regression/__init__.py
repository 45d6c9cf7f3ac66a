"""A line fitted to points by gradient descent: the smallest model there is, by loops from eager
PyTorch to CUDA.

LinearRegression.build_loop -> loops.LOOPS -> building (C++, CUDA) or triton_step; reference says
how exact a loop was
"""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.data import Dataset

from gpu_report.workloads.classification import TensorPairs, check_settings
from gpu_report.workloads.linear_regression.building import NoCompilerError
from gpu_report.workloads.linear_regression.loops import (
    BIAS,
    LEARNING_RATE,
    LOOPS,
    WEIGHT,
    EagerLine,
    LineLoop,
    Problem,
    Train,
    Trained,
)
from gpu_report.workloads.linear_regression.reference import relative_error, train_by_sums
from gpu_report.workloads.protocol import Loop, NotHereError, Phase, WorkloadError
from gpu_report.workloads.synthetic import Floats, Split, stream

TRAIN_SAMPLES: Final = 4_000_000
SLOPE: Final = 2.0
INTERCEPT: Final = 1.0
NOISE: Final = 1.0
"""Standard deviation of the noise."""
X_MAX: Final = 10.0
HELD_OUT_EVERY: Final = 5
"""Of a grid, every fifth point is held out."""


@dataclass(frozen=True, kw_only=True)
class LinearRegression:
    """One weight and one bias. The batch of a variant is its training set; `train_data` is one of
    the usual size.

    `points` says where x is: `random` is uniform, `grid` has equal distances from 0, of which every
    fifth point is held out.
    """

    size: str
    seed: int
    test_samples: int = 1_000_000
    learning_rate: float = LEARNING_RATE
    points: Literal["random", "grid"] = "random"

    title: ClassVar[str] = "linear regression"
    quality_name: ClassVar[str] = "R²"
    loss_name: ClassVar[str] = "mean squared error"
    sample_description: ClassVar[str] = f"one number from 0 to {X_MAX:g}, one target"

    def __post_init__(self) -> None:
        check_settings(
            "linear_regression",
            size=self.size,
            sizes=("default",),
            test_samples=self.test_samples,
            learning_rate=self.learning_rate,
        )
        if self.points not in ("random", "grid"):
            raise WorkloadError(
                f"workloads.linear_regression.points: there are no points {self.points!r}; use one "
                "of random, grid"
            )

    @property
    def data_description(self) -> str:
        spread = "uniform" if self.points == "random" else "at equal distances"
        return (
            f"Generated: points on the line y = {SLOPE:g} x + {INTERCEPT:g} with normal noise of "
            f"standard deviation {NOISE:g}, x {spread} from 0 to {X_MAX:g}. The batch is the whole "
            "training set."
        )

    @property
    def optimizer_name(self) -> str:
        return f"SGD, learning rate {self.learning_rate:g}"

    @property
    def held_out_samples(self) -> int:
        return self.test_samples

    def build_model(self) -> nn.Module:
        """It begins at the same weight and bias every time, whatever the seed."""
        model = nn.Linear(1, 1)
        with torch.no_grad():
            model.weight.fill_(WEIGHT)
            model.bias.fill_(BIAS)
        return model

    def build_optimizer(self, model: nn.Module) -> Optimizer:
        return SGD(model.parameters(), lr=self.learning_rate)

    def draw(self, samples: int, split: Split) -> tuple[Tensor, Tensor]:
        """Points in float32, x from 0, y on the line with noise; both with one column."""
        generator = stream(seed=self.seed, split=split, quantity="points")
        if self.points == "grid":
            x = grid(samples, split)
        else:
            x = np.float32(X_MAX) * generator.random(samples, dtype=np.float32)
        noise = np.float32(NOISE) * generator.standard_normal(samples, dtype=np.float32)
        y = np.float32(SLOPE) * x + np.float32(INTERCEPT) + noise
        return torch.from_numpy(x).unsqueeze(1), torch.from_numpy(y).unsqueeze(1)

    def train_data(self) -> Dataset[tuple[Tensor, Tensor]]:
        return TensorPairs(*self.draw(TRAIN_SAMPLES, "train"))

    def test_data(self) -> Dataset[tuple[Tensor, Tensor]]:
        return TensorPairs(*self.draw(self.test_samples, "test"))

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.mse_loss(output, target)

    def quality(self, output: Tensor, target: Tensor) -> float:
        """Coefficient of determination, 1 - residual over total sum of squares.

        0 where it would be below, and where a training diverged.
        """
        target = target.double()
        residual = (output.double() - target).square().sum()
        explained = 1 - (residual / (target - target.mean()).square().sum()).item()
        return explained if explained > 0 else 0.0

    def chance(self) -> float:
        """That of always naming the mean."""
        return 0.0

    def build_loop(
        self,
        model: nn.Module,
        batch: tuple[Tensor, Tensor],
        *,
        options: str,
        steps: int,
        phase: Phase,
    ) -> Loop:
        """The loop of that name."""
        line_loop = LOOPS.get(options)
        if line_loop is None:
            raise WorkloadError(
                f"options: linear_regression has no loop {options!r}; use one of "
                f"{', '.join(LOOPS)}, alone"
            )
        x, y = (part.squeeze(1) for part in batch)
        if x.device.type not in line_loop.device_types:
            raise NotHereError(
                f"option {options} is for {' and '.join(line_loop.device_types)}, not for "
                f"{x.device.type}"
            )
        problem = Problem(x=x, y=y, learning_rate=self.learning_rate, epochs=steps, phase=phase)
        try:
            train = line_loop.prepare(problem)
        except NoCompilerError as reason:
            raise NotHereError(str(reason)) from reason
        return _as_loop(line_loop, train, model=model, problem=problem)


def grid(samples: int, split: Split) -> Floats:
    """Where this many points of a split are, at equal distances from 0: with 4,000,000 to train
    and 1,000,000 held out they are together 0, 0.000002 and so on, up to 10 and without it.
    """
    kept = HELD_OUT_EVERY - 1
    count = HELD_OUT_EVERY * samples if split == "test" else -(-HELD_OUT_EVERY * samples // kept)
    place = np.arange(count)
    is_held_out = place % HELD_OUT_EVERY == kept
    chosen = place[is_held_out if split == "test" else ~is_held_out][:samples]
    x: Floats = (X_MAX / count * chosen).astype(np.float32)
    return x


def _as_loop(line_loop: LineLoop, train: Train, *, model: nn.Module, problem: Problem) -> Loop:
    last: list[Trained] = []

    def train_and_keep() -> Tensor:
        last[:] = [train()]
        return last[0].losses

    @torch.no_grad()
    def put_into_model() -> None:
        for parameter, value in zip(model.parameters(), last[0].parameters, strict=True):
            parameter.copy_(value)

    return Loop(
        train=train_and_keep,
        put_into_model=put_into_model,
        find_error=lambda: relative_error(last[0], train_by_sums(problem)),
        flops_per_step=line_loop.flops_of_epoch(problem),
        bytes_per_step=line_loop.bytes_of_epoch(problem) if line_loop.bytes_of_epoch else None,
        eager_step=None if line_loop.bytes_of_epoch else lambda: EagerLine(problem).step(),
        is_made_by_each_process=line_loop.is_made_by_each_process,
    )
