"""What options change in a model and its optimizer, and which workloads they refuse."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import NAdam, Rprop

from gpu_report.measure import building
from gpu_report.measure.arithmetic import ATTENTION_SWITCHES
from gpu_report.measure.building import build_optimizer, load_seeded, why_not_applied
from gpu_report.study.single import single_study
from gpu_report.study.variant import Variant
from gpu_report.workloads.gpt2 import GPT2LanguageModel
from gpu_report.workloads.protocol import WorkloadError, with_defaults
from tests.unit.measure.tiny_workloads import Tiny
from tests.unit.measure.trainings import build, pictures, tiny, train_quietly


class TwoRates(Tiny):
    """Trains its last layer twice as fast."""

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        first, last = list(model.parameters())[:2], list(model.parameters())[2:]
        groups: list[dict[str, Any]] = [{"params": first}, {"params": last, "lr": 0.2}]
        return torch.optim.AdamW(groups, lr=0.1, betas=(0.8, 0.9), weight_decay=0.5)


class CannotBeFused(Tiny):
    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return Rprop(model.parameters())


class RemembersItsMomentum(Tiny):
    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return NAdam(model.parameters())


def test_a_fused_optimizer_keeps_every_other_setting() -> None:
    workload = TwoRates(size="default", seed=0)
    model = workload.build_model()
    plain, fused = (
        build_optimizer(
            workload,
            Variant(workload="tiny", device="cpu", batch_size=4, epochs=2, options=options),
            model,
        )
        for options in ("none", "fused")
    )
    assert type(fused) is type(plain)
    assert [group["fused"] for group in fused.param_groups] == [True, True]
    for ours, theirs in zip(fused.param_groups, plain.param_groups, strict=True):
        assert {**ours, "fused": None} == theirs


def test_a_captured_optimizer_keeps_its_counters_on_the_device() -> None:
    workload = TwoRates(size="default", seed=0)
    variant = Variant(workload="tiny", device="cuda", batch_size=4, epochs=2, options="graphs")
    optimizer = build_optimizer(workload, variant, workload.build_model())
    assert all(group["capturable"] for group in optimizer.param_groups)


@pytest.mark.parametrize(
    ("workload", "options", "said"),
    [
        (CannotBeFused, "fused", "Rprop cannot be fused; leave fused out"),
        (RemembersItsMomentum, "graphs", r"graphs cannot capture NAdam .* use one of .*Adam"),
    ],
)
def test_an_optimizer_that_cannot_be_fused_or_captured_is_refused(
    workload: type[Tiny], options: str, said: str
) -> None:
    variant = Variant(workload="tiny", device="cuda", batch_size=4, epochs=2, options=options)
    with pytest.raises(WorkloadError, match=said):
        build_optimizer(workload(size="default", seed=0), variant, tiny().build_model())


def test_what_only_cuda_has_is_not_asked_of_another_accelerator() -> None:
    reason = why_not_applied("pinned+graphs", "bf16", torch.device("mps"))
    assert reason is not None
    assert "CUDA graphs" in reason
    assert "mps" in reason
    assert why_not_applied("pinned+graphs", "bf16", torch.device("cuda:1")) is None


@pytest.fixture
def every_kernel() -> Iterator[None]:
    """All attention kernels are allowed, and again after a test that allows some alone."""
    for allow, _ in ATTENTION_SWITCHES.values():
        allow(True)
    yield
    for allow, _ in ATTENTION_SWITCHES.values():
        allow(True)


def test_a_kernel_that_computes_in_short_formats_alone_is_skipped_in_fp32_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    reason = why_not_applied("flash", "fp32", gpu)
    assert reason is not None
    assert "flash attention (option flash) computes in fp16 and bf16" in reason
    assert why_not_applied("flash", "bf16", gpu) is None
    assert why_not_applied("efficient", "fp32", gpu) is None
    assert why_not_applied("flash", "fp32", torch.device("cpu")) is None
    assert "capability 8.9 or higher" in (why_not_applied("fp8", "bf16", gpu) or "")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    assert "capability 8.0 or higher" in (why_not_applied("flash", "fp16", gpu) or "")


def test_without_torchao_fp8_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "find_spec", lambda _: None)

    assert "pip install" in (why_not_applied("fp8", "bf16", torch.device("cuda")) or "")


def test_an_option_chooses_the_attention_kernel_else_the_workload_or_pytorch_does(
    every_kernel: None,
) -> None:
    gpt2 = GPT2LanguageModel(size="tiny", seed=0, train_samples=4, test_samples=1)

    def allowed() -> tuple[bool, bool]:
        cuda: Any = torch.backends.cuda
        return cuda.math_sdp_enabled(), cuda.flash_sdp_enabled()

    build(tiny())
    assert allowed() == (True, True)
    build(with_defaults(gpt2))
    assert allowed() == (True, False)
    build(with_defaults(gpt2), options="flash")
    assert allowed() == (False, True)


def test_channels_last_lays_out_weights_so_and_refuses_what_is_no_picture() -> None:
    weights = [
        weight
        for weight in build(pictures(), options="channelslast").model.parameters()
        if weight.dim() == 4
    ]
    assert weights
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)

    with pytest.raises(
        WorkloadError,
        match=r"channelslast is for inputs that are images .* Tiny has input 4 float32",
    ):
        build(tiny(), options="channelslast")


def test_a_checkpointed_block_is_computed_again_in_the_backward_pass() -> None:
    calls = {"none": 0, "checkpoint": 0}
    for options in calls:
        training = build(pictures(), options=options)
        convolution = next(
            module for module in training.model.modules() if isinstance(module, nn.Conv2d)
        )

        def count(*_: object, options: str = options) -> None:
            calls[options] += 1

        convolution.register_forward_hook(count)
        training.model(torch.randn(2, 3, 32, 32)).sum().backward()
    assert calls == {"none": 1, "checkpoint": 2}


def test_a_checkpointed_block_counts_each_batch_once_in_its_running_means() -> None:
    plain, checkpointed = (
        train_quietly(build(pictures(), options=options)) for options in ("none", "checkpoint")
    )
    assert [epoch.test_loss for epoch in checkpointed] == pytest.approx(
        [epoch.test_loss for epoch in plain], rel=1e-4
    )


def test_a_seed_decides_all_that_a_workload_of_ones_own_may_draw_from() -> None:
    study = single_study(
        "cnn", {"size": "small", "batch_size": 4, "epochs": 1, "device": "cpu"}, devices=["cpu"]
    )
    measurement = study.measurement(study.variants[0].slug)

    def drawn(seed: int) -> tuple[float, ...]:
        load_seeded(measurement, seed=seed)
        return random.random(), float(np.random.random()), float(torch.rand(1))

    assert drawn(1) == drawn(1)
    assert not set(drawn(1)) & set(drawn(2))
