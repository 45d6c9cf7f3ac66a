"""The steps of a Lightning or Hugging Face Trainer, watched without a loop of one's own.

`Trainer(callbacks=[lightning_callback()])`, `Trainer(..., callbacks=[hugging_face_callback()])`

Each class is built when it is asked for, since it derives from the trainer's own, and neither
library is needed here. A pickled callback is made anew where it is read.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from gpu_report.errors import ProfileError
from gpu_report.user_training.watching import Watched
from gpu_report.user_training.workload import samples_of

_LIGHTNING: Final = ("lightning.pytorch", "pytorch_lightning")


def lightning_callback(*, tensorboard: Path | str | None = None) -> Any:
    """A Lightning `Callback`: the card is printed where training ends; `tensorboard` as in
    `gpu_report.watch`.

    A step is one batch, also where several are accumulated. Validation is not timed. Samples are
    counted where all tensors of the batch have as many.

    Raises:
        ProfileError: neither `lightning` nor `pytorch_lightning` is installed.
    """
    base = _named("Callback", *_LIGHTNING)

    class GpuReportCallback(base):  # type: ignore[misc,valid-type]
        steps: Any = None  # WatchedSteps, from the first training on

        def on_train_start(self, trainer: Any, module: Any) -> None:
            self.steps = WatchedSteps(tensorboard)

        def on_train_batch_start(
            self, trainer: Any, module: Any, batch: Any, batch_idx: int
        ) -> None:
            self.steps.begin()

        def on_train_batch_end(
            self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            self.steps.end(samples_of(batch) or None)

        def on_validation_start(self, trainer: Any, module: Any) -> None:
            if self.steps is not None:  # which a check of the validation comes before
                self.steps.pause()

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            if self.steps is not None:
                self.steps.resume()

        def on_train_end(self, trainer: Any, module: Any) -> None:
            self.steps.close()

        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            if self.steps is not None:
                self.steps.close()

        def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
            return partial(lightning_callback, tensorboard=tensorboard), ()

    return GpuReportCallback()


def hugging_face_callback(*, tensorboard: Path | str | None = None) -> Any:
    """A Hugging Face `TrainerCallback`; a step is an optimizer step, with all batches that it
    accumulates.

    Evaluating and saving are not timed. The Trainer does not say that a training has failed, so the
    card of one that has is printed where the process ends, or the callback's next training begins;
    the attempts of `auto_find_batch_size` that failed get none. Samples are counted where the
    dataset has a length.

    Raises:
        ProfileError: `transformers` is not installed.
    """
    base = _named("TrainerCallback", "transformers")

    class GpuReportCallback(base):  # type: ignore[misc,valid-type]
        steps: Any = None  # WatchedSteps, from the first training on

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if self.steps is not None:
                self.steps.close(has_card=not args.auto_find_batch_size)
            self.steps = WatchedSteps(tensorboard)

        def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.steps.begin()

        def on_step_end(
            self, args: Any, state: Any, control: Any, *, train_dataloader: Any, **others: Any
        ) -> None:
            self.steps.end(samples_of_optimizer_step(args, state, train_dataloader))
            self.pause_before(control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.pause_before(control)

        def pause_before(self, control: Any) -> None:
            if control.should_evaluate or control.should_save:
                self.steps.pause()

        def on_evaluate(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if self.steps is not None and not control.should_save:  # else saving comes next
                self.steps.resume()

        def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if self.steps is not None:
                self.steps.resume()

        def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self.steps.close()

        def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
            return partial(hugging_face_callback, tensorboard=tensorboard), ()

    return GpuReportCallback()


class WatchedSteps(Watched):
    """`watch()` and `step()` for a trainer that calls where each begins and ends."""

    def begin(self) -> bool:
        """A step that has not ended, as one that the trainer has skipped, is dropped."""
        if self._is_inside:
            self.drop()
        return super().begin()

    def end(self, samples: int | None) -> None:
        """The step has trained on that many samples in this process, as far as they are known; a
        step that is not measured has not begun.
        """
        if self._is_inside:
            super().end(samples)


def samples_of_optimizer_step(args: Any, state: Any, loader: Any) -> int | None:
    """What this process trained on in the step that has just ended; None where the dataset is a
    stream, since nothing says when its last, smaller batch comes.

    The last step of an epoch may have fewer batches, and a smaller one among them. Of several
    processes each gets as many samples, since some are then repeated.
    """
    samples, batches = state.train_batch_size, args.gradient_accumulation_steps
    try:
        samples_of_epoch, batches_of_epoch = len(loader.dataset), len(loader)
    except (AttributeError, TypeError):  # no DataLoader, or a stream
        return None
    if state.epoch % 1:
        return int(samples * batches)
    is_smaller = args.world_size == 1 and not args.dataloader_drop_last
    missing = -samples_of_epoch % samples if is_smaller else 0
    return int(samples * (batches_of_epoch % batches or batches) - missing)


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
