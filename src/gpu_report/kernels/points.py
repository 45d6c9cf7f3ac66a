"""The points that a line is fitted to: x from 0 to 10, y on a line and noise around it."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from gpu_report.kernels.rungs import Problem

SLOPE: Final = 2.0
INTERCEPT: Final = 1.0
NOISE: Final = 1.0
"""Standard deviation of the noise."""
X_MAX: Final = 10.0


def draw_points(points: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    """X and y of so many points, float32 of one dimension, on the CPU."""
    x = np.float32(X_MAX) * generator.random(points, dtype=np.float32)
    noise = np.float32(NOISE) * generator.standard_normal(points, dtype=np.float32)
    return torch.from_numpy(x), torch.from_numpy(np.float32(SLOPE) * x + np.float32(INTERCEPT) + noise)


def make_problem(points: int, *, device: str, seed: int | None = None) -> Problem:
    """So many points on a device, drawn anew; the same for the same seed on every machine."""
    x, y = draw_points(points, np.random.default_rng(seed))
    return Problem(x=x.to(device), y=y.to(device))
