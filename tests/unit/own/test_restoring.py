"""A model, its optimizer and the random numbers are bit by bit what they were, however the steps
between ended.
"""

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gpu_report.errors import ProfileError
from gpu_report.own.restoring import (
    ambient_state,
    left_as_found,
    memory_peak_as_found,
    modules_as_found,
)

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


def test_an_optimizer_that_has_not_stepped_has_no_state_afterwards() -> None:
    model = Counting()
    optimizer = torch.optim.AdamW(model.parameters())

    with left_as_found([model], optimizer=optimizer, loader=None, device=CPU):
        step(model, optimizer)

    assert not optimizer.state


def test_a_loss_with_weights_of_its_own_is_restored_too() -> None:
    loss = nn.BatchNorm1d(3)

    with left_as_found([nn.Linear(2, 2), loss], optimizer=None, loader=None, device=CPU):
        loss(torch.randn(4, 3))

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

    with modules_as_found(nn.ModuleList([model]), optimizer, torch.device("meta")):
        assert {each.device.type for each in (*model.parameters(), *model.buffers())} == {"meta"}
        for each in optimizer.state.values():
            each["step"] += 1

    assert state_of(model, optimizer) == before


class Allocator:
    """What is asked of CUDA: it rounds up to 512 bytes, and gives up to 1 MiB more where a block is
    large.
    """

    def __init__(self) -> None:
        self.allocated = self.peak = 0

    def take(self, asked: int) -> int:
        taken = -(-asked // 512) * 512 + (0 if asked <= 2**20 else 2**20 - 512)
        self.allocated += taken
        self.peak = max(self.peak, self.allocated)
        return taken

    def reset(self, _: object) -> None:
        self.peak = self.allocated

    def empty(self, asked: int, **_: object) -> "Taken":
        return Taken(self, self.take(asked))


class Taken:
    def __init__(self, allocator: Allocator, taken: int) -> None:
        self.allocator, self.taken = allocator, taken

    def __del__(self) -> None:
        self.allocator.allocated -= self.taken


@pytest.mark.parametrize("peak", [0, 512, 5 * 2**20, 40 * 2**20 + 512, 70 * 2**30])
def test_the_peak_of_the_allocator_is_the_one_before_to_the_byte(
    peak: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocator = Allocator()
    model = allocator.empty(512 * 3)
    allocator.peak = max(peak, allocator.allocated)
    before = allocator.peak
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: allocator.peak)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: allocator.allocated)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", allocator.reset)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch, "empty", allocator.empty)

    with memory_peak_as_found(torch.device("cuda", 0)):
        allocator.empty(90 * 2**30)

    assert allocator.peak == before
    assert allocator.allocated == model.taken


KEPT: list[Any] = []


def enter_autocast() -> None:
    KEPT.append(torch.autocast("cpu", torch.bfloat16))
    KEPT[-1].__enter__()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (
            lambda: torch.set_default_dtype(torch.float64),
            "the default dtype from torch.float32 to torch.float64",
        ),
        (lambda: torch.set_default_device("meta"), "the default device from cpu to meta"),
        (lambda: torch.set_grad_enabled(False), "the gradient mode from True to False"),
        (enter_autocast, "autocast on cpu from False to True"),
    ],
    ids=["dtype", "device", "gradients", "autocast"],
)
def test_a_change_of_how_later_code_computes_is_named_and_undone(change: Any, name: str) -> None:
    before = ambient_state(CPU)

    with (
        pytest.raises(ProfileError, match=f"^step: it changed {name}, which is restored"),
        left_as_found([], optimizer=None, loader=None, device=CPU),
    ):
        change()

    assert ambient_state(CPU) == before


def test_a_default_device_of_the_users_own_stays() -> None:
    torch.set_default_device("meta")
    try:
        with (
            pytest.raises(ProfileError, match="the default device from meta to cpu"),
            left_as_found([], optimizer=None, loader=None, device=CPU),
        ):
            torch.set_default_device("cpu")

        assert torch.zeros(1).is_meta
    finally:
        torch.set_default_device(None)


BACKENDS = torch.backends


@pytest.mark.parametrize(
    ("read", "change"),
    [
        (
            lambda: BACKENDS.cudnn.deterministic,
            lambda: setattr(BACKENDS.cudnn, "deterministic", True),
        ),
        (lambda: BACKENDS.cudnn.enabled, lambda: setattr(BACKENDS.cudnn, "enabled", False)),
        (
            lambda: BACKENDS.cudnn.benchmark_limit,
            lambda: setattr(BACKENDS.cudnn, "benchmark_limit", 3),
        ),
        (lambda: BACKENDS.mkldnn.enabled, lambda: setattr(BACKENDS.mkldnn, "enabled", False)),
        (BACKENDS.cuda.flash_sdp_enabled, lambda: BACKENDS.cuda.enable_flash_sdp(False)),
        (
            BACKENDS.cuda.mem_efficient_sdp_enabled,
            lambda: BACKENDS.cuda.enable_mem_efficient_sdp(False),
        ),
        (BACKENDS.cuda.math_sdp_enabled, lambda: BACKENDS.cuda.enable_math_sdp(False)),
        (BACKENDS.cuda.cudnn_sdp_enabled, lambda: BACKENDS.cuda.enable_cudnn_sdp(False)),
        (BACKENDS.mha.get_fastpath_enabled, lambda: BACKENDS.mha.set_fastpath_enabled(False)),
        (torch.is_anomaly_enabled, lambda: torch.set_anomaly_enabled(True)),
        (
            lambda: BACKENDS.cuda.matmul.allow_bf16_reduced_precision_reduction,
            lambda: setattr(BACKENDS.cuda.matmul, "allow_bf16_reduced_precision_reduction", False),
        ),
    ],
)
def test_a_switch_that_a_model_sets_is_as_before(read: Any, change: Any) -> None:
    before = read()

    with left_as_found([], optimizer=None, loader=None, device=CPU):
        change()
        assert read() != before

    assert read() == before


def test_a_reduction_in_one_part_stays_one() -> None:
    matmul = BACKENDS.cuda.matmul
    matmul.allow_fp16_reduced_precision_reduction = (False, False)
    try:
        with left_as_found([], optimizer=None, loader=None, device=CPU):
            matmul.allow_fp16_reduced_precision_reduction = True

        assert torch._C._get_cublas_allow_fp16_reduced_precision_reduction() == (False, False)
    finally:
        matmul.allow_fp16_reduced_precision_reduction = True


def test_switches_of_arithmetic_and_threads_are_put_back_after_an_exception() -> None:
    convolutions: Any = getattr(torch.backends.cudnn, "conv")  # noqa: B009 - it has no type

    def switches() -> list[Any]:
        return [
            # PyTorch refuses to read its older switches where an earlier test has mixed them with
            # these.
            torch.backends.cuda.matmul.fp32_precision,
            convolutions.fp32_precision,
            torch.backends.cudnn.benchmark,
            torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(),
        ]

    before = switches()

    def change_and_fail() -> None:
        for switch in (torch.backends.cuda.matmul, convolutions):
            switch.fp32_precision = "ieee" if switch.fp32_precision == "tf32" else "tf32"
        torch.backends.cudnn.benchmark = True
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.use_deterministic_algorithms(True)
        raise LookupError

    with pytest.raises(LookupError), left_as_found([], optimizer=None, loader=None, device=CPU):
        change_and_fail()

    assert switches() == before
