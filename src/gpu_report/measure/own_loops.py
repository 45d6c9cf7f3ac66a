"""A loop of the workload's own: what stands in for batches and steps, and how one call of it is timed as an epoch.

WholeBatch -> OwnLoop -> OwnLoop.prepare builds and compiles it -> own_epoch: one call, and what it learnt
"""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from gpu_report.measure.batches import Batch
from gpu_report.measure.clocks import step_clock, synchronize
from gpu_report.measure.digits import float32_values, mean_time_in_ms
from gpu_report.workloads.protocol import Loop, Phase


class WholeBatch:
    """The batch that is the whole training set, on the device, once for each step."""

    def __init__(self, inputs: Tensor, targets: Tensor, *, steps: int = 1) -> None:
        self.parts = (inputs, targets)
        self._steps = steps

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[Batch]:
        return iter([list(self.parts)] * self._steps)


class OwnLoop:
    """What `build` makes once it is told how to label phases; it does all `steps` of an epoch in one call."""

    def __init__(self, build: Callable[[Phase], Loop], *, steps: int, device: torch.device) -> None:
        self._build = build
        self._built: Loop | None = None
        self._device = device
        self.steps = steps

    def prepare(self, phase: Phase) -> float:
        """Build the loop and return the seconds it took, where each process has to make it anew; else 0.0.

        What is built once and kept, by whichever process needs it first, takes a time that says nothing of the variant.
        """
        started = time.perf_counter()
        self._built = self._build(phase)
        synchronize(self._device)
        taken_s = time.perf_counter() - started
        return taken_s if self._built.is_made_by_each_process else 0.0

    @property
    def built(self) -> Loop:
        if self._built is None:
            raise RuntimeError("the loop is asked for before prepare has built it")
        return self._built

    def find_error(self) -> float | None:
        """The largest relative error of what was last learnt; None without a reference, or where it is no number."""
        error = self.built.find_error()
        return float32_values([error])[0] if error is not None and math.isfinite(error) else None

    def fetch_learnt(self) -> dict[str, float]:
        """The model's parameters, where it has a handful."""
        learnt = self.built.fetch_learnt()
        return dict(zip(learnt, float32_values(learnt.values()), strict=True))


def own_epoch(loop: OwnLoop, *, device: torch.device, samples: int) -> tuple[dict[str, Any], tuple[float, float]]:
    """One timed call: the fields of a record's Epoch that do not come from the evaluation, and when it was.

    `samples` are those of a step. What was learnt is put into the model once the clock has stopped.
    """
    clock = step_clock(device)
    synchronize(device)
    began_s, started = time.monotonic(), time.perf_counter()
    clock.mark()
    losses = loop.built.train()
    clock.mark()
    synchronize(device)
    wall_time_s = time.perf_counter() - started

    loop.built.put_into_model()
    (taken_ms,) = clock.step_times_ms()
    fields = {
        "wall_time_s": wall_time_s,
        "step_times_ms": [mean_time_in_ms(taken_ms, loop.steps)] * loop.steps,
        "data_wait_ms": [0.0] * loop.steps,
        "samples": samples * loop.steps,
        "train_losses": float32_values(losses.tolist()),
        "loss_scales": [],
    }
    return fields, (began_s, began_s + wall_time_s)
