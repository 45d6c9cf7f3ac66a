"""Telling how far a training is while its clock runs, at next to no cost, and the load of the machine around it."""

import time
from typing import Final

from gpu_report.measure.load import CpuTimes, load_between, read_cpu_times
from gpu_report.measure.messages import Progress, Send
from gpu_report.records import Load

INTERVAL_S: Final = 0.25
"""A message takes some 50 microseconds: four a second stay far below what a clock could notice."""


class ProgressReporter:
    """Follows one run: called before each epoch, outside the timed region, and after each step, inside it."""

    def __init__(
        self, send: Send, *, repetition: int, repetitions: int, epochs: int, steps: int, batch_size: int
    ) -> None:
        self._send = send
        self._repetition, self._repetitions = repetition, repetitions
        self._epochs, self._steps, self._batch_size = epochs, steps, batch_size
        self._cpu_times: list[CpuTimes] = []
        self._epoch_started_s = self._sent_s = time.monotonic()

    def before_epoch(self, epoch: int) -> None:
        """Called once more after the last epoch, with the number of epochs; told at once, however short epochs are."""
        self._cpu_times.append(read_cpu_times())
        self._tell(epoch, 0, samples_per_s=None)
        self._epoch_started_s = time.monotonic()

    def on_step(self, epoch: int, step: int) -> None:
        now_s = time.monotonic()
        if now_s - self._sent_s < INTERVAL_S:
            return
        self._sent_s = now_s
        # The first epoch is always warm-up; whether more are is decided at the end.
        rate_per_s = step * self._batch_size / (now_s - self._epoch_started_s) if epoch else None
        self._tell(epoch, step, samples_per_s=rate_per_s)

    def _tell(self, epoch: int, step: int, *, samples_per_s: float | None) -> None:
        is_extra = epoch >= self._epochs  # how many of those there will be is not known
        progress = Progress(
            repetition=self._repetition,
            repetitions=self._repetitions,
            epoch=self._epochs - 1 if is_extra else epoch,
            epochs=self._epochs,
            step=self._steps if is_extra else step,
            steps=self._steps,
            samples_per_s=samples_per_s,
        )
        self._send(progress)

    def load(self, *, first_epoch: int) -> Load:
        """The machine's load from that epoch to the end of the last, the evaluations between them included."""
        return load_between(self._cpu_times[first_epoch], self._cpu_times[-1])
