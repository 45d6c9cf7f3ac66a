"""Trainers that own the loop call where steps begin and end; the libraries here are stand-ins with
their hooks.
"""

import math
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from gpu_report.callbacks import hugging_face_callback, lightning_callback
from gpu_report.errors import ProfileError
from gpu_report.user_training.step_counts import StepCounts

ARGUMENTS = SimpleNamespace(
    train_batch_size=64,  # which auto_find_batch_size leaves as it was
    gradient_accumulation_steps=2,
    dataloader_drop_last=False,
    world_size=1,
    auto_find_batch_size=False,
)
BATCH_SIZE = 4
IN_AN_EPOCH = SimpleNamespace(train_batch_size=BATCH_SIZE, epoch=0.5)
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


class Loader:
    """As many batches as the samples make, the last of which may be smaller."""

    def __init__(self, samples: int) -> None:
        self.dataset = range(samples)

    def __len__(self) -> int:
        return math.ceil(len(self.dataset) / BATCH_SIZE)


def train(
    callback: Any, steps: int, *, loader: object = Loader(24), epochs: int = 1, **arguments: Any
) -> None:
    """In the order of transformers' Trainer; each epoch has so many steps."""
    args = SimpleNamespace(**{**vars(ARGUMENTS), **arguments})
    callback.on_train_begin(args, None, None, model=None)
    for epoch in range(epochs):
        callback.on_epoch_begin(args, None, GOING_ON)
        for step in range(steps):
            state = SimpleNamespace(train_batch_size=BATCH_SIZE, epoch=epoch + step / steps)
            callback.on_step_begin(args, state, GOING_ON, train_dataloader=loader)
            callback.on_substep_end(args, state, GOING_ON)
            callback.on_optimizer_step(args, state, GOING_ON)
            state.epoch = epoch + (step + 1) / steps
            callback.on_step_end(args, state, GOING_ON, train_dataloader=loader)
        callback.on_epoch_end(args, None, GOING_ON)
    callback.on_train_end(args, None, None)


@pytest.mark.parametrize(
    "batch", [torch.zeros(8, 2), (torch.zeros(8, 2), torch.zeros(8)), {"input": torch.zeros(8, 2)}]
)
def test_lightning_steps_are_counted_with_their_samples(
    batch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    callback = lightning_callback()

    fit(callback, [batch] * 3)

    assert callback.steps.profile.measured.steps == 3
    assert callback.steps.profile.measured.samples == 8
    assert capsys.readouterr().err.count("insufficient data: 3 steps") == 1


def test_a_step_of_hugging_faces_trainer_is_an_optimizer_step() -> None:
    callback = hugging_face_callback()

    train(callback, steps=3)

    assert callback.steps.profile.measured.steps == 3
    assert callback.steps.profile.measured.samples == 2 * BATCH_SIZE


@pytest.mark.parametrize(
    ("make", "train_three_steps"),
    [
        (lightning_callback, lambda callback: fit(callback, [torch.zeros(8)] * 3)),
        (hugging_face_callback, lambda callback: train(callback, steps=3)),
    ],
)
def test_a_callback_can_be_pickled_and_watches_anew_where_it_is_read(
    make: Callable[..., Any], train_three_steps: Callable[[Any], None], tmp_path: Path
) -> None:
    callback = make(tensorboard=tmp_path)
    train_three_steps(callback)

    read = pickle.loads(pickle.dumps(callback))

    assert read.steps is None
    train_three_steps(read)
    assert read.steps is not callback.steps
    assert len([*tmp_path.iterdir()]) == 2


def test_attempts_of_auto_find_batch_size_that_failed_get_no_card(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One fails in its first step, the next in its second, where the optimizer has its state."""
    callback = hugging_face_callback()
    args = SimpleNamespace(**{**vars(ARGUMENTS), "auto_find_batch_size": True})
    for ended_steps in (0, 1):
        callback.on_train_begin(args, None, None)
        for _ in range(ended_steps):
            callback.on_step_begin(args, None, GOING_ON)
            callback.on_step_end(args, IN_AN_EPOCH, GOING_ON, train_dataloader=Loader(24))
        callback.on_step_begin(args, None, GOING_ON)

    train(callback, steps=3, auto_find_batch_size=True)

    printed = capsys.readouterr().err
    assert printed.startswith("limit    insufficient data: 3 steps")
    assert printed.count("insufficient data") == 1
    assert callback.steps.profile.measured.steps == 3


def test_a_short_evaluation_of_hugging_face_is_no_wait_for_data() -> None:
    callback = hugging_face_callback()
    callback.on_train_begin(ARGUMENTS, None, None)
    counts = counts_of(callback)
    for _ in range(20):
        callback.on_step_begin(ARGUMENTS, None, EVALUATING)
        callback.on_step_end(ARGUMENTS, IN_AN_EPOCH, EVALUATING, train_dataloader=Loader(24))
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
    callback.steps._listeners = [counts.append]
    return counts


def test_a_library_that_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)

    with pytest.raises(ProfileError, match=r"^TrainerCallback: transformers is not installed"):
        hugging_face_callback()
