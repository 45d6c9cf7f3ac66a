"""What a step does with every kind of model, batch, loss and loader, and how it names the part that
does not fit.
"""

import math
from collections import UserDict, namedtuple
from collections.abc import Callable
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
    given = {"loss": None, "build_optimizer": None, "device": CPU, "keeps_settings": True, **parts}
    workload = UserWorkload(lambda: model, batch, **given)
    return user_step(workload, batch, loader=loader, device=CPU)


def train(step: TrainingStep) -> Tensor:
    return step.once(step.take(phase=nullcontext), phase=nullcontext)


def output_alone(output: Tensor, _: Any) -> Tensor:
    return output


def loss_of_mapping(output: Tensor, batch: Any) -> Tensor:
    return mse_loss(output, batch["target"])


def like_hf(output: Tensor, target: Tensor) -> Any:
    return SimpleNamespace(loss=mse_loss(output, target), logits=output)


@pytest.mark.parametrize(
    ("batch", "answer", "loss"),
    [
        ((X, Y), output_alone, mse_loss),
        (((X, None), Y), output_alone, mse_loss),
        ([X, Y], output_alone, mse_loss),
        (({"inputs": X}, Y), output_alone, nn.MSELoss()),
        ({"inputs": X, "target": Y}, output_alone, loss_of_mapping),
        ({"inputs": X, "target": Y}, lambda *both: {"loss": mse_loss(*both)}, None),
        (UserDict(inputs=X, target=Y), like_hf, None),
        ((X, Y), lambda *both: (both[0], mse_loss(*both)), None),
        ((X, Y), mse_loss, None),
        (X, lambda output, _: output.mean(), None),
    ],
)
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
        ((X, Y), output_alone, lambda *_: torch.ones(2, requires_grad=True), r"^loss: its shape"),
        ((X, Y), lambda output, _: output.detach(), mse_loss, "^loss: it needs no gradients"),
        ((X, Y), output_alone, lambda *_: 0.5, "^loss: it is a float"),
        ((X, Y), lambda output, _: {"logits": output}, None, r"^loss: Model returned none; give"),
        ((X, Y, Y), output_alone, None, r"^loss: none was given, and Model does not take the 3"),
        ((X, Y, Y), output_alone, mse_loss, r"^batch: it is 3 parts; with loss= it must be a pair"),
        (X, output_alone, mse_loss, "^batch: it is a Tensor; with loss= it must be a pair"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(
    batch: Any, answer: Any, loss: Any, message: str
) -> None:
    with pytest.raises(ProfileError, match=message) as raised:
        train(step_of(Model(answer), batch, loss=loss))

    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": Model}, "^model: it is a type; expected a torch.nn.Module that is built"),
        ({"model": nn.LazyLinear(2)}, "^model: LazyLinear has lazy parameters; call it once"),
        ({"batch": None}, "^batch: none was given"),
        ({"optimizer": torch.optim.SGD}, "^optimizer: it is a type; expected a torch.optim"),
        (
            {"optimizer": torch.optim.SGD(nn.Linear(3, 1).parameters())},
            "^optimizer: SGD has no parameter of Model",
        ),
        ({"loader": 3}, "^loader: it is a int; expected an iterable of batches"),
        ({"loss": "mse"}, "^loss: it is 'mse'; expected a function"),
        ({"loss": nn.MSELoss}, "^loss: it is <class .*MSELoss'>; .* or a module that is built"),
    ],
)
def test_parts_of_another_kind_are_refused(changed: Any, message: str) -> None:
    rest = {"loss": None, "optimizer": None, "loader": None}
    parts: dict[str, Any] = {"model": Model(mse_loss), "batch": X, **rest, **changed}

    with pytest.raises(ProfileError, match=message):
        require_parts(parts.pop("model"), parts.pop("batch"), **parts)


def test_a_model_with_nothing_to_train_is_refused() -> None:
    with pytest.raises(
        ProfileError, match=r"^model: ReLU has no parameter that requires gradients"
    ):
        step_of(nn.ReLU(), X)


def test_the_tensors_of_a_nested_batch_are_moved_and_the_batch_itself_is_left() -> None:
    pair = namedtuple("pair", "a b")
    packed = pack_sequence([torch.ones(3, 1), torch.ones(2, 1)])
    batch = {"x": [torch.zeros(2), "name"], "y": UserDict(z=pair(torch.zeros(1), 7)), "p": packed}

    moved = on_device(batch, torch.device("meta"))

    assert {each.device.type for each in tensors_of(moved)} == {"meta"}
    assert {each.device.type for each in tensors_of(batch)} == {"cpu"}
    assert (moved["x"][1], moved["y"]["z"].b) == ("name", 7)
    assert moved["p"].data.device.type == "meta"
    assert moved["p"].batch_sizes.device.type == "cpu"  # PyTorch wants them there


@pytest.mark.parametrize(
    "loader", [DataLoader(TensorDataset(X), batch_size=4), [1, 2]], ids=["DataLoader", "list"]
)
def test_a_loader_that_ends_is_iterated_anew(loader: Any) -> None:
    loading = Loading(loader)

    assert len([loading.take(phase=nullcontext) for _ in range(5)]) == 5


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (iter([X]), r"^loader: list_iterator ended after 1 batches and cannot begin anew; give a"),
        ((1 / 0 for _ in range(2)), r"^loader: generator raised ZeroDivisionError: division by"),
        ([], r"^loader: list has no batch; expected at least one"),
    ],
    ids=["ends", "raises", "is empty"],
)
def test_a_loader_that_gives_no_batch_is_named(loader: Any, message: str) -> None:
    loading = Loading(loader)

    with pytest.raises(ProfileError, match=message):
        [loading.take(phase=nullcontext) for _ in range(2)]


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


def test_the_device_is_that_of_the_model_and_one_that_cannot_be_had_is_named() -> None:
    on_meta = nn.Linear(2, 2, device="meta")

    assert chosen_device("cpu", nn.Linear(2, 2)) == chosen_device("cpu", None) == CPU
    with pytest.raises(MachineError, match="'banana' is not a device"):
        chosen_device("banana", nn.Linear(2, 2))
    with pytest.raises(MachineError, match=r"^device: meta is not present"):
        chosen_device("auto", on_meta)
    with pytest.raises(ProfileError, match=r"^model: it is on cpu, meta; expected one device, or"):
        chosen_device("auto", nn.Sequential(nn.Linear(2, 2), on_meta))


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

    default_optimizer(layer).step()

    assert all(each.isfinite().all() for each in layer.parameters())


def test_given_samples_are_counted_in_place_of_the_batch() -> None:
    def step_with(samples: Any) -> TrainingStep:
        return step_of(Model(lambda output, _: output.mean()), X, samples=samples)

    for samples, count in ((4, 4), (lambda batch: len(batch) // 2, 3)):
        train(step := step_with(samples))
        assert step.samples == count
    for wrong in (lambda batch: batch.no_such, lambda batch: batch.sum() / 3):
        with pytest.raises(ProfileError, match=r"^samples: for a batch it raised or returned no"):
            train(step_with(wrong))
