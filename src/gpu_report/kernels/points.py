"""The points that a line is fitted to: x from 0 to 10, y on a line and noise around it."""

from typing import Final

import torch

from gpu_report.kernels.rungs import Problem

SLOPE: Final = 2.0
INTERCEPT: Final = 1.0
NOISE: Final = 1.0
"""Standard deviation of the noise."""
X_MAX: Final = 10.0


def make_problem(points: int, *, device: str, seed: int | None = None) -> Problem:
    """So many points on a device, drawn anew; the same for the same seed on every machine."""
    generator = torch.Generator().manual_seed(torch.seed() % 2**31 if seed is None else seed)
    x = torch.rand(points, generator=generator) * X_MAX
    y = SLOPE * x + INTERCEPT + NOISE * torch.randn(points, generator=generator)
    return Problem(x=x.to(device), y=y.to(device))
