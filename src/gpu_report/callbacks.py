"""The steps of a Lightning or Hugging Face Trainer, watched without a loop of one's own.

`Trainer(callbacks=[lightning_callback()])`, `Trainer(..., callbacks=[hugging_face_callback()])`

Each class is built when it is asked for, since it derives from the trainer's own, and neither
library is needed here.
"""

import atexit
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from gpu_report.errors import ProfileError
from gpu_report.own.watching import Step, Watched, at_exit, step, watch

_LIGHTNING: Final = ("lightning.pytorch", "pytorch_lightning")


def lightning_callback(*, tensorboard: Path | str | None = None) -> Any:
    """A Lightning `Callback`: the card is printed where training ends; `tensorboard` as in
    `gpu_report.watch`.

    A step is one batch, also where several are accumulated. Validation is not timed.

    Raises:
        ProfileError: neither `lightning` nor `pytorch_lightning` is installed.
    """
    base = _named("Callback", *_LIGHTNING)

    def samples_of(batch: Any) -> int | None:
        parts = (
            batch.values()
            if isinstance(batch, Mapping)
            else batch
            if isinstance(batch, (tuple, list))
            else [batch]
        )
        return next((len(part) for part in parts if getattr(part, "ndim", 0)), None) or None

    class GpuReportCallback(base):  # type: ignore[misc,valid-type]
        steps: Any = None  # WatchedSteps, from the first training on

        def on_train_start(self, trainer: Any, module: Any) -> None:
            self.steps = WatchedSteps(tensorboard)

        def on_train_batch_start(
            self, trainer: Any, module: Any, batch: Any, batch_idx: int
        ) -> None:
            self.steps.begin(samples_of(batch))

        def on_train_batch_end(
            self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            self.steps.end()

        def on_validation_start(self, trainer: Any, module: Any) -> None:
            if self.steps is not None:  # which a check of the validation comes before
                self.steps.watched.pause()

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            if self.steps is not None:
                self.steps.watched.resume()

        def on_train_end(self, trainer: Any, module: Any) -> None:
            self.steps.close()

        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            if self.steps is not None:
                self.steps.close(exception)

    return GpuReportCallback()


def hugging_face_callback(*, tensorboard: Path | str | None = None) -> Any:
    """A Hugging Face `TrainerCallback`; a step is an optimizer step, with all batches that it
    accumulates.

    Evaluating and saving are not timed. The Trainer does not say that a training has failed, so the
    card of one that has is printed where the process ends, or the callback's next training begins.

    Raises:
        ProfileError: `transformers` is not installed.
    """
    base = _named("TrainerCallback", "transformers")

    class GpuReportCallback(base):  # type: ignore[misc,valid-type]
        steps: Any = None  # WatchedSteps, from the first training on

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if self.steps is not None:
                self.steps.close()
            self.steps = WatchedSteps(tensorboard)

        def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.steps.begin(args.train_batch_size * args.gradient_accumulation_steps)

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.steps.end()
            self.pause_before(control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.pause_before(control)

        def pause_before(self, control: Any) -> None:
            if control.should_evaluate or control.should_save:
                self.steps.watched.pause()

        def on_evaluate(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if self.steps is not None and not control.should_save:  # else saving comes next
                self.steps.watched.resume()

        def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if self.steps is not None:
                self.steps.watched.resume()

        def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.steps.close()

    return GpuReportCallback()


class WatchedSteps:
    """`watch()` and `step()` for a trainer that calls where each begins and ends."""

    def __init__(self, tensorboard: Path | str | None) -> None:
        self._stack = ExitStack()
        self.watched: Watched = self._stack.enter_context(watch(tensorboard=tensorboard))
        self._step: Step | None = None
        self._at_exit = partial(at_exit, self.close)  # where the trainer does not say that it ends
        atexit.register(self._at_exit)

    def begin(self, samples: int | None) -> None:
        """A step that has not ended, as one that the trainer has skipped, is dropped."""
        self._drop()
        self._step = step(samples=samples)
        self._step.__enter__()

    def end(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def close(self, error: BaseException | None = None) -> None:
        """Print the card; a step that has not ended is dropped, as is one that the error
        has ended.
        """
        self._drop(error)
        self._stack.close()
        atexit.unregister(self._at_exit)

    def _drop(self, error: BaseException | None = None) -> None:
        if self._step is not None:
            self._step.__exit__(type(error) if error else GeneratorExit, error, None)
            self._step = None


def _named(name: str, *modules: str) -> Callable[..., Any]:
    for module in modules:
        try:
            return getattr(import_module(module), name)  # type: ignore[no-any-return]
        except ModuleNotFoundError as error:
            if error.name != module.partition(".")[0]:
                raise
    raise ProfileError(
        f"{name}: {modules[0].partition('.')[0]} is not installed; install it, or use "
        "gpu_report.step()"
    )
