"""Trainers that own the loop call where steps begin and end; the libraries here are stand-ins with
their hooks.
"""

import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from gpu_report.callbacks import hugging_face_callback, lightning_callback
from gpu_report.errors import ProfileError
from gpu_report.own.step_counts import StepCounts

ARGUMENTS = SimpleNamespace(train_batch_size=4, gradient_accumulation_steps=2)
GOING_ON = SimpleNamespace(should_evaluate=False, should_save=False)
EVALUATING = SimpleNamespace(should_evaluate=True, should_save=True)
SHORT_EVALUATION_S = 0.05


class Hooks:
    """Every other hook does nothing, as in the libraries' own base classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("on_", "setup", "teardown")):
            return lambda *_arguments, **_options: None
        raise AttributeError(name)


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, base in (
        ("lightning", ""),
        ("lightning.pytorch", "Callback"),
        ("transformers", "TrainerCallback"),
    ):
        module = ModuleType(name)
        if base:
            setattr(module, base, Hooks)
        monkeypatch.setitem(sys.modules, name, module)


def fit(callback: Any, batches: list[Any], *, error: Exception | None = None) -> None:
    """In the order of Lightning's documentation of hooks."""
    callback.setup(None, None, "fit")
    callback.on_train_start(None, None)
    callback.on_train_epoch_start(None, None)
    try:
        for index, batch in enumerate(batches):
            callback.on_train_batch_start(None, None, batch, index)
            callback.on_before_zero_grad(None, None, None)
            if error is not None:
                raise error
            callback.on_train_batch_end(None, None, None, batch, index)
    except LookupError as raised:
        callback.on_exception(None, None, raised)
        raise
    callback.on_train_epoch_end(None, None)
    callback.on_train_end(None, None)
    callback.teardown(None, None, "fit")


def train(callback: Any, steps: int) -> None:
    """In the order of transformers' Trainer."""
    callback.on_train_begin(ARGUMENTS, None, None, model=None)
    callback.on_epoch_begin(ARGUMENTS, None, GOING_ON)
    for _ in range(steps):
        callback.on_step_begin(ARGUMENTS, None, GOING_ON)
        callback.on_substep_end(ARGUMENTS, None, GOING_ON)
        callback.on_optimizer_step(ARGUMENTS, None, GOING_ON)
        callback.on_step_end(ARGUMENTS, None, GOING_ON)
    callback.on_epoch_end(ARGUMENTS, None, GOING_ON)
    callback.on_train_end(ARGUMENTS, None, None)


@pytest.mark.parametrize(
    "batch", [torch.zeros(8, 2), (torch.zeros(8, 2), torch.zeros(8)), {"input": torch.zeros(8, 2)}]
)
def test_lightning_steps_are_counted_with_their_samples(
    batch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    callback = lightning_callback()

    fit(callback, [batch] * 3)

    assert callback.steps.watched.profile.measured.steps == 3
    assert callback.steps.watched.profile.measured.samples == 8
    assert capsys.readouterr().err.count("insufficient data: 3 steps") == 1


def test_an_error_in_lightnings_loop_prints_the_card_and_goes_through(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(LookupError, match="mine"):
        fit(lightning_callback(), [torch.zeros(8)], error=LookupError("mine"))

    assert "insufficient data: no step was seen" in capsys.readouterr().err


def test_a_step_of_hugging_faces_trainer_is_an_optimizer_step() -> None:
    callback = hugging_face_callback()

    train(callback, steps=3)

    assert callback.steps.watched.profile.measured.steps == 3
    assert callback.steps.watched.profile.measured.samples == 8


def test_a_step_that_never_ends_is_dropped_and_later_ones_are_counted() -> None:
    callback = hugging_face_callback()
    callback.on_train_begin(ARGUMENTS, None, None)
    for number in range(4):
        callback.on_step_begin(ARGUMENTS, None, None)
        if number != 1:
            callback.on_step_end(ARGUMENTS, None, GOING_ON)
    callback.on_train_end(ARGUMENTS, None, None)

    assert callback.steps.watched.profile.measured.steps == 3


def test_a_short_validation_of_lightning_is_no_wait_for_data() -> None:
    callback = lightning_callback()
    callback.on_validation_start(None, None)  # Lightning checks the validation before it trains
    callback.on_validation_end(None, None)
    callback.on_train_start(None, None)
    counts = counts_of(callback)
    for index in range(20):
        callback.on_train_batch_start(None, None, torch.zeros(8), index)
        callback.on_train_batch_end(None, None, None, torch.zeros(8), index)
        callback.on_validation_start(None, None)
        time.sleep(SHORT_EVALUATION_S)
        callback.on_validation_end(None, None)
    callback.on_train_end(None, None)

    assert counts[-1].steps == 20
    assert counts[-1].waited_s < 10 * SHORT_EVALUATION_S


def test_a_short_evaluation_of_hugging_face_is_no_wait_for_data() -> None:
    callback = hugging_face_callback()
    callback.on_train_begin(ARGUMENTS, None, None)
    counts = counts_of(callback)
    for _ in range(20):
        callback.on_step_begin(ARGUMENTS, None, EVALUATING)
        callback.on_step_end(ARGUMENTS, None, EVALUATING)
        time.sleep(SHORT_EVALUATION_S)
        callback.on_evaluate(ARGUMENTS, None, EVALUATING)
        time.sleep(SHORT_EVALUATION_S)
        callback.on_save(ARGUMENTS, None, EVALUATING)
    callback.on_train_end(ARGUMENTS, None, None)

    assert counts[-1].steps == 20
    assert counts[-1].waited_s < 10 * SHORT_EVALUATION_S


def counts_of(callback: Any) -> list[StepCounts]:
    """Filled while the steps go on and where they end."""
    counts: list[StepCounts] = []
    callback.steps.watched._step_watch._listeners = [counts.append]
    return counts


def test_a_training_that_fails_unsaid_prints_its_card_before_the_next(
    capsys: pytest.CaptureFixture[str],
) -> None:
    callback = hugging_face_callback()
    callback.on_train_begin(ARGUMENTS, None, None)
    callback.on_step_begin(ARGUMENTS, None, GOING_ON)

    train(callback, steps=3)

    printed = capsys.readouterr().err
    assert printed.index("no step was seen") < printed.index("3 steps")


def test_a_library_that_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)

    with pytest.raises(ProfileError, match=r"^TrainerCallback: transformers is not installed"):
        hugging_face_callback()
