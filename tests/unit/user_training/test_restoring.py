"""A model, its optimizer and the random numbers are bit by bit what they were, however the steps
between ended.
"""

import random
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gpu_report.user_training.restoring import _modules_as_found, left_as_found, modules_within

CPU = torch.device("cpu")


class Counting(nn.Module):
    """Has whatever a step can change: parameters, one of them frozen, running means, modes and an
    attribute.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)
        )
        self.layers[0].bias.requires_grad_(False)
        self.register_buffer("last", torch.zeros(2))
        self.calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        outputs: torch.Tensor = self.layers(inputs)
        self.last = outputs.detach().mean(0)
        return outputs


def trained(optimizer_class: Any) -> tuple[Counting, torch.optim.Optimizer]:
    """A model in the middle of its training: with gradients, the optimizer's state, and one layer
    in another mode.
    """
    model = Counting()
    optimizer = optimizer_class([each for each in model.parameters() if each.requires_grad], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        step(model, optimizer)
    model.eval()
    model.layers[2].train()
    return model, optimizer


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Each object by its identity and each value by its bytes."""
    return {
        "tensors": [
            (name, id(each), each.data_ptr(), each.detach().numpy().tobytes(), each.requires_grad)
            for name, each in (*model.named_parameters(), *model.named_buffers())
        ],
        "gradients": [
            None if each.grad is None else (id(each.grad), each.grad.numpy().tobytes())
            for each in model.parameters()
        ],
        "modes": [each.training for each in model.modules()],
        "calls": model.calls,
        "optimizer": [
            (
                id(key),
                name,
                id(value),
                value.numpy().tobytes() if isinstance(value, torch.Tensor) else value,
            )
            for key, values in optimizer.state.items()
            for name, value in values.items()
        ],
        "groups": repr(
            [{**group, "params": [*map(id, group["params"])]} for group in optimizer.param_groups]
        ),
    }


def random_numbers() -> list[Any]:
    of_numpy = np.random.get_state(legacy=False)["state"]
    return [
        random.getstate(),
        of_numpy["pos"],
        of_numpy["key"].tobytes(),
        torch.get_rng_state().numpy().tobytes(),
    ]


@pytest.mark.parametrize("ending", [None, ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("optimizer_class", [torch.optim.AdamW, torch.optim.SGD])
def test_steps_leave_everything_as_it_was_bit_by_bit(
    optimizer_class: Any, ending: type[BaseException] | None
) -> None:
    model, optimizer = trained(optimizer_class)
    before, numbers = state_of(model, optimizer), random_numbers()

    def take_steps() -> None:
        with left_as_found([model], optimizer=optimizer, loader=None, device=CPU):
            assert model.training is True
            assert all(each.grad is None for each in model.parameters())
            step(model, optimizer)
            random.random()
            np.random.rand()
            model.requires_grad_(True)
            optimizer.param_groups[0]["lr"] = 5.0
            assert state_of(model, optimizer) != before
            if ending is not None:
                raise ending

    if ending is None:
        take_steps()
    else:
        with pytest.raises(ending):
            take_steps()

    assert state_of(model, optimizer) == before
    assert random_numbers() == numbers


def test_an_optimizer_that_has_not_stepped_and_a_loss_with_weights_are_restored_too() -> None:
    model, loss = Counting(), nn.BatchNorm1d(3)
    optimizer = torch.optim.AdamW(model.parameters())

    with left_as_found([model, loss], optimizer=optimizer, loader=None, device=CPU):
        step(model, optimizer)
        loss(torch.randn(4, 3))

    assert not optimizer.state
    assert loss.num_batches_tracked == 0


def test_the_next_epoch_of_a_loader_is_shuffled_as_if_it_had_not_been_used() -> None:
    samples = TensorDataset(torch.arange(100))
    loader, expected = (
        DataLoader(samples, shuffle=True, generator=torch.Generator().manual_seed(1))
        for _ in range(2)
    )

    with left_as_found([], optimizer=None, loader=loader, device=CPU):
        assert len([*loader]) == 100

    assert [int(each) for (each,) in loader] == [int(each) for (each,) in expected]


def test_a_model_that_goes_to_another_device_gets_the_very_tensors_back() -> None:
    model, optimizer = trained(torch.optim.AdamW)
    before = state_of(model, optimizer)

    with _modules_as_found([model], optimizer, torch.device("meta"), []):
        assert {each.device.type for each in (*model.parameters(), *model.buffers())} == {"meta"}
        for each in optimizer.state.values():
            each["step"] += 1

    assert state_of(model, optimizer) == before


def test_parameters_of_another_model_in_the_optimizer_are_left_alone() -> None:
    encoder, decoder = trained(torch.optim.AdamW)[0], nn.Linear(2, 4)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()])
    decoder(torch.randn(3, 2)).sum().backward()
    weights, gradient = decoder.weight.detach().clone(), decoder.weight.grad
    assert gradient is not None
    values = gradient.clone()

    with left_as_found([encoder], optimizer=optimizer, loader=None, device=CPU):
        step(encoder, optimizer)
        decoder(encoder(torch.randn(8, 4))).sum().backward()
        optimizer.step()

    assert torch.equal(decoder.weight, weights)
    assert decoder.weight.grad is gradient
    assert torch.equal(gradient, values)


def test_modules_that_a_loss_uses_keep_gradients_running_means_and_modes() -> None:
    critic: Any = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval()
    critic[1].train()
    critic(torch.randn(4, 2)).sum().backward()
    gradient, seen = critic[0].weight.grad, critic[1].num_batches_tracked.clone()
    values = gradient.clone()

    def loss(output: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = critic(output).mean()
        return result

    with left_as_found(
        [nn.Linear(2, 2)], optimizer=None, loader=None, device=CPU, beside=modules_within(loss)
    ):
        assert [each.training for each in critic] == [False, True]
        loss(torch.randn(4, 2), torch.zeros(4)).backward()  # type: ignore[no-untyped-call]

    assert critic[0].weight.grad is gradient
    assert torch.equal(gradient, values)
    assert critic[1].num_batches_tracked == seen


GLOBAL = nn.Linear(1, 1)
KEPT = nn.Linear(1, 1)


def of_a_global(output: Any, _: Any) -> Any:
    return GLOBAL(output)


def through_another_function(output: Any, target: Any) -> Any:
    return of_a_global(output, target)


class Perceptual:
    """Holds its networks in an object and in a dict of lists."""

    def __init__(self) -> None:
        self.nets, self.layers = SimpleNamespace(critic=KEPT), {"deep": [KEPT]}

    def __call__(self, output: Any, _: Any) -> Any:
        return self.layers["deep"][0](output)

    def compute(self, output: Any, target: Any) -> Any:
        return self(output, target)

    def loss(self) -> Any:
        return lambda output, _: self.nets.critic(output)


def test_a_module_is_found_wherever_a_loss_holds_it() -> None:
    loss: Any
    for loss in (of_a_global, through_another_function):
        assert modules_within(loss) == [GLOBAL]
    for loss in (
        KEPT,
        KEPT.forward,
        partial(lambda output, _, module: module(output), module=KEPT),
        lambda output, _, module=KEPT: module(output),
        Perceptual(),
        Perceptual().compute,
        Perceptual().loss(),
    ):
        assert modules_within(loss) == [KEPT]
    for loss in (None, nn.functional.cross_entropy, max, int, KEPT.weight.sum):
        assert modules_within(loss) == []


def test_arithmetic_and_threads_that_a_measurement_sets_are_put_back() -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision, torch.get_num_threads()

    def change_and_fail() -> None:
        matmul.fp32_precision = "ieee" if before[0] == "tf32" else "tf32"
        torch.set_num_threads(before[1] + 1)
        raise LookupError

    with pytest.raises(LookupError), left_as_found([], optimizer=None, loader=None, device=CPU):
        change_and_fail()

    assert (matmul.fp32_precision, torch.get_num_threads()) == before


def test_what_a_loss_reaches_and_no_step_can_change_is_left_alone() -> None:
    with torch.inference_mode():
        teacher = nn.Linear(2, 2)
    masked = nn.Module()
    masked.register_buffer("mask", torch.ones(1, 2).expand(3, 2))
    beside = [teacher, masked, nn.Linear(2, 2, device="meta"), nn.LazyLinear(2)]

    with left_as_found([nn.Linear(2, 2)], optimizer=None, loader=None, device=CPU, beside=beside):
        pass

    assert not teacher.weight.requires_grad or teacher.weight.grad is None
