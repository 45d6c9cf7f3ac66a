"""What a step does with every kind of model, batch, loss and loader, and how it names the part that
does not fit.
"""

import math
from collections import UserDict, namedtuple
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader, TensorDataset

from gpu_report.errors import MachineError, ProfileError
from gpu_report.measure.nested import tensors_of
from gpu_report.user_training.run import StepRun
from gpu_report.user_training.workload import (
    Loading,
    TrainingStep,
    UserWorkload,
    chosen_device,
    default_optimizer,
    on_device,
    require_parts,
    require_samples,
    samples_of,
    user_step,
)

CPU = torch.device("cpu")
X, Y = torch.randn(6, 3), torch.randn(6, 1)


class Model(nn.Module):
    """Returns what a test wants of its own output and a target."""

    def __init__(self, answer: Callable[[Tensor, Any], Any]) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.answer = answer

    def forward(self, inputs: Tensor, target: Any = None) -> Any:
        return self.answer(self.layer(inputs), target)


def step_of(
    model: nn.Module, batch: Any = None, *, loader: Any = None, **parts: Any
) -> TrainingStep:
    given = {"loss": None, "optimizer": None, "device": CPU, "keeps_arithmetic": True, **parts}
    return user_step(UserWorkload(model, batch, **given), batch, loader=loader, device=CPU)


def train(step: TrainingStep) -> Tensor:
    return step.once(step.take(phase=nullcontext), phase=nullcontext)


@pytest.mark.parametrize(
    ("batch", "answer", "loss"),
    [
        ((X, Y), lambda output, _: output, mse_loss),
        (((X, None), Y), lambda output, _: output, mse_loss),
        ([X, Y], lambda output, _: output, mse_loss),
        (({"inputs": X}, Y), lambda output, _: output, nn.MSELoss()),
        (
            {"inputs": X, "target": Y},
            lambda output, _: output,
            lambda output, batch: mse_loss(output, batch["target"]),
        ),
        (
            {"inputs": X, "target": Y},
            lambda output, target: {"loss": mse_loss(output, target)},
            None,
        ),
        (
            UserDict(inputs=X, target=Y),
            lambda *both: SimpleNamespace(loss=mse_loss(*both), logits=both[0]),
            None,
        ),
        ((X, Y), lambda output, target: (output, mse_loss(output, target)), None),
        ((X, Y), mse_loss, None),
        (X, lambda output, _: output.mean(), None),
    ],
    ids=[
        "pair", "tuple of inputs", "list", "mapping of inputs", "mapping and loss",
        "loss in a mapping", "like HF", "loss in a tuple", "loss alone", "tensor",
    ],
)  # fmt: skip
def test_a_step_trains_whatever_the_model_takes_and_returns(
    batch: Any, answer: Any, loss: Any
) -> None:
    model = Model(answer)
    before = model.layer.weight.detach().clone()
    step = step_of(model, batch, loss=loss)

    found = train(step)

    assert found.numel() == 1
    assert not torch.equal(model.layer.weight, before)
    assert model.layer.weight.grad is None
    assert step.samples == 6


@pytest.mark.parametrize(
    ("batch", "answer", "loss", "message"),
    [
        (
            (X, Y),
            lambda output, _: output,
            lambda *_: torch.ones(2, requires_grad=True),
            r"^loss: its shape is \(2,\)",
        ),
        ((X, Y), lambda output, _: output.detach(), mse_loss, "^loss: it needs no gradients"),
        ((X, Y), lambda output, _: output, lambda *_: 0.5, "^loss: it is a float"),
        (
            (X, Y),
            lambda output, _: {"logits": output},
            None,
            r"^loss: Model returned none; give loss=",
        ),
        (
            (X, Y, Y),
            lambda output, _: output,
            None,
            r"^loss: none was given, and Model does not take the 3 parts",
        ),
        (
            (X, Y, Y),
            lambda output, _: output,
            mse_loss,
            r"^batch: it is 3 parts; with loss= it must be a pair",
        ),
        (
            X,
            lambda output, _: output,
            mse_loss,
            "^batch: it is a Tensor; with loss= it must be a pair",
        ),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(
    batch: Any, answer: Any, loss: Any, message: str
) -> None:
    with pytest.raises(ProfileError, match=message) as raised:
        train(step_of(Model(answer), batch, loss=loss))

    assert "\n" not in str(raised.value)


def test_a_batch_must_be_on_the_device_that_is_named_for_it() -> None:
    step = step_of(Model(mse_loss), (X.to("meta"), Y), copies_batch=False)

    with pytest.raises(
        ProfileError,
        match=r"^batch: it is on meta and the model on cpu, where device= expects both",
    ):
        train(step)


def test_a_model_with_nothing_to_train_is_refused() -> None:
    with pytest.raises(
        ProfileError, match=r"^model: ReLU has no parameter that requires gradients"
    ):
        step_of(nn.ReLU(), X)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": Model}, "^model: it is a type; expected a torch.nn.Module that is built"),
        ({"model": nn.LazyLinear(2)}, "^model: LazyLinear has lazy parameters; call it once"),
        ({"batch": None}, "^batch: none was given"),
        ({"batch": (X.to("meta"), Y)}, "^batch: it is on meta, where tensors have no values"),
        (
            {"optimizer": torch.optim.SGD},
            "^optimizer: it is a type; expected a torch.optim.Optimizer",
        ),
        ({"loader": 3}, "^loader: it is a int; expected an iterable of batches"),
        ({"loss": "mse"}, "^loss: it is 'mse'; expected a function"),
        (
            {"loss": nn.MSELoss},
            "^loss: it is <class .*MSELoss'>; expected a function, or a module that is built",
        ),
        (
            {"model": nn.Linear(3, 1, device="meta")},
            "^model: Linear is on meta, where parameters have no values",
        ),
        (
            {"optimizer": torch.optim.SGD(nn.Linear(3, 1).parameters())},
            "^optimizer: SGD has no parameter of Model",
        ),
    ],
)
def test_parts_of_another_kind_are_refused(changed: Any, message: str) -> None:
    parts = {
        "model": Model(mse_loss),
        "batch": X,
        "loss": None,
        "optimizer": None,
        "loader": None,
        **changed,
    }

    with pytest.raises(ProfileError, match=message):
        require_parts(parts.pop("model"), parts.pop("batch"), **parts)


def test_the_tensors_of_a_nested_batch_are_found_and_moved_and_the_batch_itself_is_left() -> None:
    pair = namedtuple("pair", "a b")
    packed = pack_sequence([torch.ones(3, 1), torch.ones(2, 1)])
    batch = {
        "x": [torch.zeros(2), (torch.ones(3), "name")],
        "y": UserDict(z=pair(torch.zeros(1), 7)),
        "p": packed,
    }

    moved = on_device(batch, torch.device("meta"))

    assert [tuple(each.shape) for each in tensors_of(batch)] == [(2,), (3,), (1,)]
    assert {each.device.type for each in tensors_of(moved)} == {"meta"}
    assert {each.device.type for each in tensors_of(batch)} == {"cpu"}
    assert moved["x"][1][1] == "name"
    assert moved["y"]["z"].b == 7
    assert moved["p"].data.device.type == "meta"
    assert moved["p"].batch_sizes.device.type == "cpu"  # PyTorch wants them there


@pytest.mark.parametrize(
    "loader", [DataLoader(TensorDataset(X), batch_size=4), [1, 2]], ids=["DataLoader", "list"]
)
def test_a_loader_that_ends_is_iterated_anew(loader: Any) -> None:
    loading = Loading(loader)

    assert len([loading.take(phase=nullcontext) for _ in range(5)]) == 5


def test_blocks_have_the_samples_of_their_batches() -> None:
    """A loader's last batch may be smaller: a block with it has trained on fewer samples in its
    time.
    """
    step = step_of(
        nn.Linear(2, 1),
        loss=lambda output, _: output.mean(),
        loader=[(torch.ones(samples, 2), torch.ones(samples)) for samples in (4, 2)],
    )
    train(step)

    # A step in each block, after three of the first 20.
    found = StepRun(
        step,
        device=CPU,
        may_be_on_host=False,
        loader_workers=0,
        deadline_s=math.inf,
        most_steps=20,
        is_profiled=False,
    ).measure()

    assert found.block_steps == 1
    assert found.samples == pytest.approx(3, rel=0.05)
    assert {*found.block_samples} == {2, 4}
    assert found.throughputs_per_s == [
        samples * 1e3 / time_ms
        for samples, time_ms in zip(found.block_samples, found.block_times_ms, strict=True)
    ]


def test_an_iterator_that_ends_is_named() -> None:
    def batches() -> Iterator[Tensor]:
        yield X

    loading = Loading(batches())
    loading.take(phase=nullcontext)

    with pytest.raises(
        ProfileError,
        match=r"^loader: generator ended after 1 batches and cannot begin anew; give a Data",
    ):
        loading.take(phase=nullcontext)


def test_a_loader_that_raises_or_has_nothing_is_named() -> None:
    with pytest.raises(
        ProfileError,
        match=r"^loader: generator raised ZeroDivisionError: division by zero; expected",
    ):
        Loading(1 / 0 for _ in range(2)).take(phase=nullcontext)
    with pytest.raises(ProfileError, match=r"^loader: list has no batch; expected at least one"):
        Loading([]).take(phase=nullcontext)


def test_an_unknown_device_and_one_that_is_not_here_are_named() -> None:
    with pytest.raises(MachineError, match="'banana' is not a device"):
        chosen_device("banana", nn.Linear(2, 2))
    with pytest.raises(MachineError, match=r"^device: meta is not present"):
        chosen_device("auto", nn.Linear(2, 2, device="meta"))


def test_a_model_on_two_devices_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))

    with pytest.raises(
        ProfileError, match=r"^model: it is on cpu, meta; expected one device, or give step="
    ):
        chosen_device("auto", model)


def test_naming_the_device_of_the_model_asks_for_the_batch_there() -> None:
    assert chosen_device("cpu", nn.Linear(2, 2)) == (CPU, False)
    assert chosen_device("cpu", None) == (CPU, True)


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (torch.zeros(5, 3), 5),
        ((torch.zeros(5, 3), torch.zeros(5)), 5),
        ([[torch.zeros(5, 3), torch.zeros(5)], torch.zeros(5)], 5),
        ({"input_ids": torch.zeros(5, 3), "labels": torch.zeros(5), "scale": torch.tensor(2.0)}, 5),
        ((torch.zeros(5, 3), ["a name", None, 3, 0.5]), 5),
        ((torch.zeros(50, 4), torch.zeros(4)), None),
        (([torch.zeros(3, 8, 8), torch.zeros(3, 9, 9)], [{"boxes": torch.zeros(2, 4)}]), None),
        (SimpleNamespace(x=torch.zeros(20, 3), y=torch.zeros(5)), None),
        ((SimpleNamespace(x=torch.zeros(20, 3)), torch.zeros(5)), None),
        (torch.tensor(1.0), None),
    ],
)
def test_samples_are_counted_only_where_all_of_a_batch_agrees(batch: Any, samples: Any) -> None:
    assert samples_of(batch) == samples


def test_a_mapping_of_losses_is_trained_on_their_sum() -> None:
    model = Model(lambda output, _: {"class": output.mean(), "boxes": output.square().mean()})
    expected = sum(each.item() for each in model(X).values())

    loss = train(step_of(model, X))

    assert loss.item() == pytest.approx(expected)


def test_half_precision_trains_with_the_optimizer_that_is_given_by_default() -> None:
    layer = nn.Linear(3, 3).half()
    layer(X.half()).float().mean().backward()
    layer.bias.grad = torch.zeros_like(layer.bias)

    default_optimizer([*layer.parameters()]).step()

    assert all(each.isfinite().all() for each in layer.parameters())


@pytest.mark.parametrize("samples", [0, -1, 2.5, True, "8"])
def test_samples_that_are_no_count_are_refused(samples: Any) -> None:
    with pytest.raises(ProfileError, match=r"^samples: it is .*; expected a positive number"):
        require_samples(samples, of_step=False)


@pytest.mark.parametrize("count", [lambda batch: batch.no_such, lambda batch: batch.sum() / 3])
def test_a_function_that_counts_no_samples_is_named(count: Any) -> None:
    with pytest.raises(ProfileError, match=r"^samples: for a batch it raised or returned no"):
        train(step_of(Model(lambda output, _: output.mean()), X, samples=count))


def test_given_samples_are_counted_in_place_of_the_batch() -> None:
    number, function = (
        step_of(Model(lambda output, _: output.mean()), X, samples=samples)
        for samples in (4, lambda batch: len(batch) // 2)
    )

    for step in (number, function):
        train(step)

    assert number.samples == 4
    assert function.samples == len(X) // 2
