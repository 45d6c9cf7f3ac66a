"""Measuring the steps of a training loop that is not ours, as they come: timed blocks, up to three
profiles among them.

begin, end of each step -> the first steps say how many a block has -> WatchedBlocks -> a light
profile of a few steps -> blocks to the end -> Measured

The time between the end of a step and the beginning of the next is the wait for data. The device is
waited for in the first steps and in the profiled ones; on an accelerator blocks are timed by
events, which are read a block later. A pause, such as an evaluation, drops the block or profile
that it is in, and so does a step with a new batch size; a pause that a trainer announces is left
out of its block. All pauses are added up.
"""

import os
import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Final

import torch

from gpu_report.user_training.blocks import Measured, WatchedBlocks
from gpu_report.user_training.ranks import is_distributed
from gpu_report.user_training.step_counts import BatchSizes, StepCounts

TICK_S: Final = 1.0

Listener = Callable[[StepCounts], None]


class StepWatch:
    """The steps of one thread of one process; those of other threads, and those inside of a step,
    are not measured.

    Of several ranks the first is measured. Listeners get the counts about once a second, where a
    step ends.

    Attributes:
        steps: That have ended without an error.
        ignored: Steps of other threads or inside of a step.
        pauses: Such as evaluations, which are not timed.
        announced_s: Of the pauses that a trainer announced.
        stalled_s: Of those that nobody announced, such as a loader that stalls.
        looped_s: From the first step to the last but for announced pauses.
        blocks: Of the steps that are measured.
    """

    def __init__(self, *listeners: Listener) -> None:
        self.steps = self.ignored = self.pauses = 0
        self.announced_s = self.stalled_s = self.looped_s = 0.0
        self.blocks = WatchedBlocks()
        self._listeners = listeners
        self._made_in = os.getpid()
        self._thread: int | None = None
        self._is_inside = False
        self._samples = self._waited_s = 0.0
        self._steps_with_samples = 0
        self._sizes = BatchSizes()
        self._ended_s: float | None = None
        self._paused_s: float | None = None
        self._tick_s = 0.0

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that made it, and no fork, and of several ranks the first."""
        return self._made_in == os.getpid() and not self._rank

    @cached_property
    def _rank(self) -> int:
        """Asked at the first step; a script may end its process group before the card."""
        return torch.distributed.get_rank() if is_distributed() else 0

    def begin(self) -> bool:
        """Whether the step that begins is measured; if so, `end` or `drop` must follow."""
        if self._thread is None and self.is_ours:
            self._thread = threading.get_ident()
        if self._is_inside or not self._is_in_thread:
            self.ignored += self._thread is not None and self._made_in == os.getpid()
            return False
        self._is_inside = True
        self.resume()
        now_s = time.perf_counter()
        if self._ended_s is None:
            self._ended_s = now_s
            return True
        waited_s = now_s - self._ended_s
        if waited_s > self.blocks.pause_s:
            self.pauses += 1
            self.stalled_s += waited_s
            self.looped_s += waited_s
            self._ended_s = now_s
            self.blocks.drop()
            return True
        self._waited_s += waited_s
        self.blocks.begin_step(waited_s)
        return True

    def end(self, samples: int | None) -> None:
        """The step has trained on that many samples, as far as they are known."""
        began_s = self._ended_s
        assert began_s is not None  # since the step has begun
        self._is_inside = False
        self.steps += 1
        if samples is not None:
            self._samples += samples
            self._steps_with_samples += 1
            if self._sizes.add(samples):
                self.blocks.drop()
        self.blocks.end_step(began_s)
        self._ended_s = time.perf_counter()
        self.looped_s += self._ended_s - began_s
        if self._ended_s >= self._tick_s:
            self._tick()

    def drop(self) -> None:
        """The step has raised, and the block that it is in is not timed."""
        self._is_inside = False
        self._ended_s = self._paused_s = None
        self.blocks.drop()

    def pause(self) -> None:
        """What follows until `resume`, such as an evaluation, is neither timed nor profiled,
        however short it is.

        The block that it is in goes on afterwards.
        """
        if (
            self._is_inside
            or self._paused_s is not None
            or self._ended_s is None
            or not self._is_in_thread
        ):
            return
        self.blocks.pause()
        self._paused_s = time.perf_counter()
        self.pauses += 1

    def resume(self) -> None:
        """Go on after `pause`; nothing without one."""
        if self._paused_s is None or self._ended_s is None or not self._is_in_thread:
            return
        lasted_s = time.perf_counter() - self._paused_s
        self._paused_s = None
        self.announced_s += lasted_s
        self._ended_s += lasted_s
        self.blocks.resume(lasted_s)

    @property
    def _is_in_thread(self) -> bool:
        return self._thread == threading.get_ident() and self._made_in == os.getpid()

    def finish(self) -> Measured | None:
        """What was measured until now; None without a step. A profile that is not complete is
        dropped.
        """
        if not self.steps:
            return None
        self.blocks.drop()
        self._tick()
        samples = self._samples / self.steps if self._steps_with_samples == self.steps else None
        return self.blocks.measured(
            passed_s=self.looped_s + self.announced_s,
            may_be_on_host=samples is None,
            samples=samples,
            steps=self.steps,
        )

    def _tick(self) -> None:
        self._tick_s = time.perf_counter() + TICK_S
        self.blocks.read_threads()
        device = self.blocks.device
        properties = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
        counts = StepCounts(
            moment_s=time.monotonic(),
            steps=self.steps,
            samples=self._samples,
            waited_s=self._waited_s,
            device_uuid=str(properties.uuid) if properties else "",
            on_accelerator=device.type != "cpu",
        )
        for listener in self._listeners:
            listener(counts)


def rank() -> int:
    """Of this process among those of its training, as far as it is known by now."""
    if is_distributed():
        return torch.distributed.get_rank()
    number = os.environ.get("RANK", "")
    return int(number) if number.isdecimal() else 0
