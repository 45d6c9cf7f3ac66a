"""A workload's custom training loop: built before the clock starts, timed as one call for all steps
of an epoch.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gpu_report.measure.timing import float32_values, mean_time_in_ms, step_clock, synchronize
from gpu_report.workloads.protocol import Loop, Phase


class CustomLoop:
    """What `build` makes of a function that labels phases; it does all `steps` of an epoch in one
    call.
    """

    def __init__(self, build: Callable[[Phase], Loop], *, steps: int, device: torch.device) -> None:
        self._build = build
        self._built: Loop | None = None
        self._device = device
        self.steps = steps

    def prepare(self, phase: Phase) -> float:
        """Build the loop; the seconds it took where every process has to, else 0.0.

        The first process that needs it builds the rest for all, at a time that does not belong to
        the variant.
        """
        started = time.perf_counter()
        self._built = self._build(phase)
        synchronize(self._device)
        return time.perf_counter() - started if self._built.is_made_by_each_process else 0.0

    @property
    def built(self) -> Loop:
        if self._built is None:
            raise RuntimeError("the loop is used before prepare has built it")
        return self._built

    def train_epoch(self, *, samples: int) -> tuple[dict[str, Any], tuple[float, float]]:
        """One timed call: as `training.train_epoch`, with a mean time for each step; `samples` are
        those of a step.

        The model gets its weights once the clock has stopped.
        """
        clock = step_clock(self._device)
        synchronize(self._device)
        began_s, started = time.monotonic(), time.perf_counter()
        clock.mark()
        losses = self.built.train()
        clock.mark()
        synchronize(self._device)
        wall_time_s = time.perf_counter() - started

        self.built.put_into_model()
        (taken_ms,) = clock.step_times_ms()
        fields = {
            "wall_time_s": wall_time_s,
            "step_times_ms": [mean_time_in_ms(taken_ms, self.steps)] * self.steps,
            "data_wait_ms": [0.0] * self.steps,
            "samples": samples * self.steps,
            "train_losses": float32_values(losses.tolist()),
            "loss_scales": [],
        }
        return fields, (began_s, began_s + wall_time_s)

    def outcome(self, model: nn.Module) -> dict[str, Any]:
        """The fields of a record's Repetition that only a custom loop has, about the last training.

        The model's parameters where each is one number, and the largest relative error against the
        workload's reference; None without a reference, or where the training diverged.
        """
        parameters = dict(model.named_parameters())
        is_small = all(parameter.numel() == 1 for parameter in parameters.values())
        values = (
            float32_values(parameter.item() for parameter in parameters.values())
            if is_small
            else []
        )
        error = self.built.find_error()
        return {
            "learnt": dict(zip(parameters, values, strict=True)) if is_small else {},
            "reference_error": float32_values([error])[0]
            if error is not None and math.isfinite(error)
            else None,
        }
