"""Every option takes effect on a GPU, as its trace shows, and trains as the eager baseline does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import torch

from gpu_report.measure.batches import example_batch
from gpu_report.measure.training import build_training, eager_step, prepare, train_step
from gpu_report.measure.variant_run import measure_variant
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant
from gpu_report.workloads.protocol import WorkloadError
from tests.gpu.trainings import (
    BATCH_SIZE,
    CUDA,
    SAMPLES,
    STEPS,
    Events,
    build,
    cnn,
    kernels,
    losses,
    lstm,
    trace,
    train_epoch,
    unet,
)

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="these options are CUDA's"),
    # The compiler warns of settings that are the variant's own choice.
    pytest.mark.filterwarnings("default"),
]

EVERYTHING: Final = "autotune+channelslast+fused+resident+graphs+compile"


@pytest.fixture(autouse=True)
def _compile_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


def copies_to_device(events: Events) -> Events:
    return [
        event for event in events if event.get("cat") == "gpu_memcpy" and "HtoD" in event["name"]
    ]


def calls(events: Events, name: str) -> int:
    return sum(event["name"] == name for event in events if event.get("cat") == "cuda_runtime")


def test_the_eager_baseline_copies_from_pageable_memory_and_waits(tmp_path: Path) -> None:
    events = trace(build(cnn()), tmp_path)
    assert {event["name"] for event in copies_to_device(events)} == {
        "Memcpy HtoD (Pageable -> Device)"
    }
    assert calls(events, "cudaStreamSynchronize") >= 2 * STEPS


def test_pinned_batches_are_copied_from_page_locked_memory_without_waiting(tmp_path: Path) -> None:
    events = trace(build(cnn(), options="pinned"), tmp_path)
    assert [event["name"] for event in copies_to_device(events)] == [
        "Memcpy HtoD (Pinned -> Device)"
    ] * 2 * STEPS
    assert calls(events, "cudaStreamSynchronize") == 0


def test_prefetched_batches_are_copied_on_a_stream_without_kernels(tmp_path: Path) -> None:
    events = trace(build(cnn(), options="prefetch"), tmp_path)
    copying = {event["args"]["stream"] for event in copies_to_device(events)}
    computing = {event["args"]["stream"] for event in events if event.get("cat") == "kernel"}
    assert len(copying) == 1
    assert copying.isdisjoint(computing)


def test_resident_data_sends_an_epoch_s_order_and_nothing_else(tmp_path: Path) -> None:
    sent = copies_to_device(trace(build(cnn(), options="resident"), tmp_path))
    assert sum(event["args"]["bytes"] for event in sent) == 8 * SAMPLES


def test_autotuning_is_switched_on_for_the_variant_alone() -> None:
    build(cnn(), options="autotune")
    assert torch.backends.cudnn.benchmark
    build(cnn())
    assert not torch.backends.cudnn.benchmark


def test_channels_last_spares_changes_of_layout(tmp_path: Path) -> None:
    plain, channels_last = (
        kernels(trace(build(unet(), precision="bf16", options=options), tmp_path))
        for options in ("none", "channelslast")
    )
    assert any("nhwc" in name.lower() for name in channels_last)
    assert _layout_changes(channels_last) < _layout_changes(plain)


def _layout_changes(names: list[str]) -> int:
    return sum("nchwToNhwc" in name or "nhwcToNchw" in name for name in names)


def test_a_fused_optimizer_updates_in_its_own_kernels(tmp_path: Path) -> None:
    fused, plain = (
        kernels(trace(build(cnn(), options=options), tmp_path)) for options in ("fused", "none")
    )
    assert any("FusedAdam" in name for name in fused)
    assert not any("FusedAdam" in name for name in plain)


def test_each_captured_step_is_one_launch(tmp_path: Path) -> None:
    captured, plain = (
        trace(build(cnn(), options=options), tmp_path)
        for options in ("resident+graphs", "resident")
    )
    assert calls(captured, "cudaGraphLaunch") == STEPS
    assert calls(plain, "cudaGraphLaunch") == 0
    assert 4 * calls(captured, "cudaLaunchKernel") < calls(plain, "cudaLaunchKernel")


def test_a_compiled_model_runs_kernels_of_the_compiler(tmp_path: Path) -> None:
    compiled, plain = (
        kernels(trace(build(cnn(), options=options), tmp_path)) for options in ("compile", "none")
    )
    assert any(name.startswith("triton_") for name in compiled)
    assert not any(name.startswith("triton_") for name in plain)


def test_checkpointing_keeps_less_for_the_backward_pass() -> None:
    """The peak says little here: in fp32 the workspace of cuDNN's convolutions is the larger part
    of it.
    """
    assert _kept_bytes(options="checkpoint") < 0.6 * _kept_bytes()


def _kept_bytes(**fields: Any) -> int:
    training = build(unet(size="128px"), **fields)
    inputs, target = (part.to(CUDA) for part in example_batch(training.train_data, BATCH_SIZE))
    training.model.train()
    before = torch.cuda.memory_allocated()
    loss = training.loss(inputs, target)
    kept = torch.cuda.memory_allocated() - before
    loss.backward()  # type: ignore[no-untyped-call]
    return kept


def test_accumulating_takes_less_memory() -> None:
    assert _peak_bytes(accumulation=4) < 0.9 * _peak_bytes()


def _peak_bytes(**fields: Any) -> int:
    """With batches large enough that activations fill the memory, and not the workspace of a
    convolution.
    """
    variant = Variant(workload="tiny", device="cuda", batch_size=64, epochs=2, **fields)
    training = build_training(unet(size="128px"), variant, device=CUDA, seed=0, steps_per_epoch=1)
    train_epoch(training)
    torch.cuda.reset_peak_memory_stats()
    train_epoch(training)
    return torch.cuda.max_memory_allocated()


@pytest.mark.parametrize(
    "fields",
    [
        {"options": "pinned"},
        {"options": "prefetch"},
        {"options": "pinned+prefetch", "workers": 2},
        {"options": "autotune"},
        {"options": "channelslast"},
        {"options": "fused"},
        {"options": "resident"},
        {"options": "graphs"},
        {"options": "pinned+prefetch+fused+graphs"},
        {"options": "compile"},
        {"options": "checkpoint"},
        {"options": EVERYTHING},
        {"precision": "tf32"},
    ],
    ids=lambda fields: "-".join(map(str, fields.values())),
)
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_options_do_not_change_what_it_comes_to(fields: dict[str, Any]) -> None:
    assert losses(build(cnn(), **fields)) == pytest.approx(losses(build(cnn())), rel=0.05)


@pytest.mark.parametrize(
    "fields",
    [
        {"options": "fused"},
        {"options": "resident+graphs"},
        {"options": "fused+resident+graphs+compile"},
        {"accumulation": 4},
        {"options": "resident+graphs", "accumulation": 2},
        {"options": "compile", "accumulation": 2},
        {"precision": "tf32", "options": "graphs"},
    ],
    ids=lambda fields: "-".join(map(str, fields.values())),
)
def test_a_recurrent_network_learns_the_same_however_it_is_run(fields: dict[str, Any]) -> None:
    assert losses(build(lstm(), **fields)) == pytest.approx(losses(build(lstm())), rel=0.01)


@pytest.mark.parametrize("options", ["fused+graphs", "graphs", "compile", "graphs+compile"])
def test_preparing_leaves_weights_buffers_and_random_numbers_as_they_were(options: str) -> None:
    training, plain = build(cnn(), options=options), build(cnn())
    random_state = torch.cuda.get_rng_state()

    assert prepare(training) > 0

    ours, theirs = training.model.state_dict(), plain.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert all(
        not value.any() for state in training.optimizer.state.values() for value in state.values()
    )
    assert torch.equal(torch.cuda.get_rng_state(), random_state)


def test_a_captured_training_can_still_be_stepped_operator_by_operator(tmp_path: Path) -> None:
    training, plain = build(cnn(), options="resident+graphs"), build(cnn())
    prepare(training)
    batch = next(iter(training.train_loader))
    assert eager_step(training, batch).item() == pytest.approx(
        train_step(plain, batch).item(), rel=1e-4
    )


def test_a_shape_that_was_not_captured_is_refused() -> None:
    training = build(cnn(), options="graphs")
    prepare(training)
    inputs, target = next(iter(training.train_loader))
    with pytest.raises(
        WorkloadError, match=r"captured for inputs of \(8, 3, 32, 32\), \(4, 3, 32, 32\)"
    ):
        train_step(training, [inputs[:3], target[:3]])


def test_only_the_first_process_of_a_variant_compiles_from_nothing(tmp_path: Path) -> None:
    asked = Measurement(
        variant=Variant(
            workload="cnn",
            size="small",
            device="cuda",
            batch_size=BATCH_SIZE,
            epochs=2,
            precision="bf16",
            options=EVERYTHING,
        ),
        workload=Workload(
            name="cnn",
            class_path="gpu_report.workloads.cnn:CNNClassification",
            settings={"train_samples": SAMPLES, "test_samples": 8},
        ),
        protocol=Protocol(repetitions=2, profile_steps=2, timed_epochs=1, timed_seconds=0),
    )

    record = measure_variant(asked, machine="here", trace_folder=tmp_path / "trace")

    assert (record.status, record.reason) == ("ok", "")
    assert [repetition.preparation_cache for repetition in record.repetitions] == [
        "empty",
        "filled",
    ]
    assert all(repetition.preparation_time_s > 0 for repetition in record.repetitions)
