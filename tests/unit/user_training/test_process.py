"""A training of the user's own in a fresh process: whatever happens there is a result with its
reason.
"""

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from gpu_report.errors import MachineError, ProfileError
from gpu_report.measure.processes import MeasurementInterruptedError, fresh_processes
from gpu_report.measure.run import Stopped
from gpu_report.user_training import process
from gpu_report.user_training.process import (
    OwnResult,
    OwnTraining,
    train_in_fresh_process,
    train_in_this_process,
)
from tests.unit.user_training import own_model

MODULE = "tests.unit.user_training.own_model"
TRAINING = OwnTraining(
    build=own_model.build,
    make_batch=own_model.make_batch,
    samples=4,
    device="cpu",
    memory_limit_mib=2000,
    seconds=0.5,
)


@pytest.fixture(autouse=True)
def one_server() -> None:
    """Each call ends its own, as for a user: that is tested here."""


def stopped(training: OwnTraining, *, patience_s: float = 60.0) -> Stopped:
    result = train_in_fresh_process(training, patience_s=patience_s)
    assert isinstance(result, Stopped)
    return result


@pytest.mark.parametrize(
    ("limits", "limit_mib"),
    [({"margin": 0.25}, 1500), ({"memory_limit_mib": 10**9, "host_available_mib": 4000}, 4000)],
    ids=["a margin is left", "no more than is free"],
)
def test_a_training_is_timed_with_its_memory_and_its_loss(
    limits: dict[str, Any], limit_mib: int
) -> None:
    parts: dict[str, Any] = {"accumulate": 3, "loss_steps": 2, "checkpoint": own_model.first_layer}

    result = train_in_fresh_process(replace(TRAINING, **parts, **limits))

    assert isinstance(result, OwnResult)
    assert result.measured.samples == 12
    assert result.measured.steps >= 2
    assert result.measured.memory_peak_mib == result.memory_taken_mib < limit_mib
    assert result.memory_limit_mib == limit_mib
    assert result.loss > 0
    assert result.measured.trace == b""


def test_the_same_seed_gives_the_same_loss_and_names_do_as_well_as_functions() -> None:
    named = replace(
        TRAINING, build=f"{MODULE}:build", make_batch=f"{MODULE}:make_batch_of_four", samples=None
    )

    results = [
        train_in_fresh_process(replace(named, loss_steps=3, seed=seed)) for seed in (1, 1, 2)
    ]

    losses = [result.loss for result in results if isinstance(result, OwnResult)]
    assert losses[0] == losses[1] != losses[2]


def test_a_step_that_takes_longer_than_the_seconds_is_timed_in_three_blocks_and_profiled() -> None:
    """Samples may be any axis, and the rate is of those asked for."""
    parts: dict[str, Any] = {
        "build": own_model.build_for_any_axes,
        "make_batch": own_model.make_along_the_second_axis,
    }

    result = train_in_fresh_process(
        replace(TRAINING, **parts, samples=5, seconds=0.001, least_s=60, is_profiled=True)
    )

    assert isinstance(result, OwnResult)
    assert len(result.measured.block_times_ms) == 3
    assert (result.measured.block_steps, result.measured.samples) == (1, 5)
    assert result.measured.trace


@pytest.mark.parametrize("is_made", [True, False])
def test_a_batch_that_the_model_changes_in_place_is_as_it_was(*, is_made: bool) -> None:
    batch = own_model.make_images()
    before = batch[0].clone()

    result = train_in_this_process(
        OwnTraining(
            build=own_model.build_in_place,
            make_batch=(lambda: batch) if is_made else batch,
            loss=own_model.image_loss,
            device="cpu",
            seconds=0.1,
        )
    )

    assert isinstance(result, OwnResult)
    assert torch.equal(batch[0], before)


def out_of_memory(*_: object) -> torch.optim.Optimizer:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.mark.parametrize(
    ("wrong", "status", "said"),
    [
        ({"make_batch": own_model.raise_key_error}, "failed", "KeyError: 'weights'"),
        ({"metric": own_model.be_no_number}, "failed", "TypeError"),
        ({"optimizer": out_of_memory}, "oom", "2.00 GiB"),
        ({"loss": threading.Lock()}, "failed", "pickle"),
        ({"options": ("pinned",)}, "skipped", "no batch is copied"),
        ({"options": ("channelslast",)}, "skipped", "four dimensions"),
        ({"options": ("graphs",)}, "skipped", "pass a function"),
    ],
)
def test_what_goes_wrong_in_this_process_is_a_result_too(
    wrong: dict[str, Any], status: str, said: str
) -> None:
    training = OwnTraining(
        build=own_model.build, make_batch=own_model.make_batch_of_four, device="cpu", seconds=0.1
    )

    result = train_in_this_process(replace(training, **wrong))

    assert isinstance(result, Stopped)
    assert result.status == status
    assert said in result.reason
    assert "\n" not in result.reason


LITTLE = {"build": own_model.build_large, "samples": 24, "memory_limit_mib": 1000}


@pytest.mark.parametrize(
    ("wrong", "status", "said"),
    [
        pytest.param({"samples": 10_000}, "oom", "MiB", marks=pytest.mark.slow),
        (LITTLE, "oom", "1000 MiB"),  # more than the limit and less than twice
        ({"build": f"{MODULE}:raise_key_error"}, "failed", "KeyError: 'weights'"),
        ({"build": f"{MODULE}:leave_without_a_word"}, "failed", "exit status 4"),
        ({"build": f"{MODULE}:nothing_of_this_name"}, "failed", "nothing_of_this_name"),
        ({"make_batch": own_model.make_of_100_rows, "samples": 1024}, "failed", "it gave 100"),
        ({"options": ("graphs",)}, "skipped", "CUDA graphs"),
    ],
    ids=["memory", "the limit", "an error", "an end", "a name", "too few samples", "an option"],
)
def test_what_goes_wrong_in_a_fresh_process_is_a_result_with_its_reason(
    wrong: dict[str, Any], status: str, said: str
) -> None:
    found = stopped(replace(TRAINING, **wrong))

    assert found.status == status
    assert said in found.reason
    assert "\n" not in found.reason


def test_a_process_that_is_killed_from_outside_is_no_result() -> None:
    with pytest.raises(MeasurementInterruptedError, match="SIGKILL"):
        train_in_fresh_process(replace(TRAINING, build=f"{MODULE}:be_killed"))


def test_a_function_that_hangs_is_ended_and_no_process_is_left() -> None:
    train_in_fresh_process(
        TRAINING
    )  # the server of fresh processes and its tracker of resources stay
    before = {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}

    found = stopped(replace(TRAINING, build=own_model.hang), patience_s=1.0)

    after = {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}
    assert "no answer within 1 s" in found.reason
    assert after <= before


def servers() -> list[int]:
    """Of fresh processes, those that run; an ended one is there until the next starts."""
    children = psutil.Process().children()
    return [
        each.pid
        for each in children
        if each.status() != "zombie" and "forkserver" in " ".join(each.cmdline())
    ]


@pytest.mark.slow
def test_after_a_search_no_server_is_left_and_the_next_search_starts_one() -> None:
    for _ in range(2):
        with process.own_server():
            assert isinstance(train_in_fresh_process(TRAINING), OwnResult)
            assert servers()
        assert not servers()


def test_a_server_that_another_measurement_left_is_not_used() -> None:
    fresh_processes()
    deadline_s = time.monotonic() + 60
    while not (left := servers()):  # until it has become another program than this one
        assert time.monotonic() < deadline_s

    with process.own_server():
        assert isinstance(train_in_fresh_process(TRAINING), OwnResult)
        assert left
        assert not set(servers()) & set(left)


def test_a_server_that_still_serves_a_process_stays() -> None:
    child = fresh_processes().Process(target=own_model.hang)
    child.start()
    try:
        with process.own_server():
            serving = servers()
        assert serving
        assert servers() == serving
    finally:
        child.kill()
        child.join()


UNGUARDED = f"""
from gpu_report import find_batch_size
from {MODULE} import build_images, image_loss, make_images
find_batch_size(build_images, make_images, loss=image_loss)
"""


def test_a_script_that_calls_without_the_guard_gets_one_error_that_says_so(tmp_path: Path) -> None:
    (script := tmp_path / "unguarded.py").write_text(UNGUARDED, "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment
    )

    assert ended.returncode == 1
    assert ended.stderr.count("Traceback") == 1
    assert ended.stderr.splitlines()[-1].startswith(
        "gpu_report.errors.ProfileError: each fresh process imports the"
    )
    assert "bootstrapping" not in ended.stderr


def test_a_function_that_cannot_be_sent_to_another_process_is_named() -> None:
    with pytest.raises(ProfileError, match=r"lambda.*module:function"):
        train_in_fresh_process(replace(TRAINING, build=lambda: None))


def test_the_allocator_of_any_accelerator_is_limited_to_a_fraction_of_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[tuple[float, torch.device]] = []
    module = SimpleNamespace(set_per_process_memory_fraction=lambda *given: limits.append(given))
    monkeypatch.setattr(torch, "get_device_module", lambda _device: module)
    monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda _device: (2**32, 2**33))
    device = torch.device("xpu", 1)

    for limit_mib in (2048, 1e6):
        process._limit_allocator(device, limit_mib)
    assert limits == [(0.25, device), (1.0, device)]

    del module.set_per_process_memory_fraction
    with pytest.raises(MachineError, match=r"^PyTorch cannot limit the memory of xpu.*margin\Z"):
        process._limit_allocator(device, 2048)
