"""What ended a training, and what is known of memory that ran out."""

import signal
from pathlib import Path

import psutil
import pytest
import torch

from gpu_report.measure import failures
from gpu_report.measure.failures import (
    asked_mib,
    available_mib,
    classify,
    unless_memory_ran_out,
    without_result,
)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except type(error) as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (torch.OutOfMemoryError("Tried to allocate 2.00 GiB"), "oom"),
        (MemoryError(), "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "oom"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "oom"),
        (RuntimeError("CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"), "oom"),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "oom"),
        (RuntimeError("CUDA error: out of memory"), "oom"),
        (RuntimeError("MPS backend out of memory (MPS allocated: 1 GiB)"), "oom"),
        (RuntimeError("shapes cannot be multiplied"), "failed"),
    ],
)
def test_memory_that_runs_out_is_not_another_error(error: Exception, status: str) -> None:
    assert classify(raised(error)).status == status


def test_a_failure_names_type_message_and_place_in_one_line() -> None:
    reason = classify(raised(KeyError("first\n  second"))).reason
    assert reason.startswith("KeyError: ")
    assert "(test_failures.py, line " in reason
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("names", "is_from_outside"),
    [
        ("SIGKILL SIGTERM SIGQUIT SIGUSR1 SIGXCPU", True),
        ("SIGSEGV SIGABRT SIGBUS SIGFPE SIGILL", False),
    ],
)
def test_a_loader_worker_is_ended_from_outside_by_the_same_signals_as_its_training(
    names: str, *, is_from_outside: bool
) -> None:
    for name in names.split():
        number = signal.Signals[name]
        ended = without_result("the process", -number)
        words = f"DataLoader worker (pid 3) is killed by signal: {signal.strsignal(number)}. "
        of_worker = classify(raised(RuntimeError(words)))

        assert ended.status == "failed"
        assert name in ended.reason
        assert bool(ended.interrupted_by) == bool(of_worker.interrupted_by) == is_from_outside


def test_memory_that_ran_out_is_a_result_and_a_signal_from_outside_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = tmp_path / "vmstat"
    monkeypatch.setattr(failures, "_VMSTAT", counter)
    monkeypatch.setattr(failures, "group_folders", lambda _: [])
    counter.write_text("oom_kill 3\n")
    killed, ended = (
        without_result("rank 1", -number) for number in (signal.SIGKILL, signal.SIGTERM)
    )

    assert unless_memory_ran_out(killed, 3) == killed

    counter.write_text("oom_kill 4\n")
    assert unless_memory_ran_out(killed, 3).status == "oom"
    assert unless_memory_ran_out(ended, 3) == ended


def test_a_gpu_that_another_process_has_to_itself_is_said_to_be_in_use() -> None:
    message = (
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable\nSearch for "
        "`cudaErrorDevicesUnavailable'\nCUDA kernel errors might be asynchronously reported"
    )
    stopped = classify(raised(RuntimeError(message)))
    assert stopped.status == "failed"
    assert "in use by another process" in stopped.reason
    assert "asynchronously" not in stopped.reason


def test_memory_that_ran_out_is_found_though_ending_a_capture_raised_another_error() -> None:
    capture_broken = RuntimeError("CUDA error: operation failed due to a previous error")
    capture_broken.__context__ = torch.OutOfMemoryError("CUDA out of memory. Tried 2.50 GiB.")

    stopped = classify(raised(capture_broken))

    assert (stopped.status, stopped.reason) == ("oom", "CUDA out of memory. Tried 2.50 GiB.")


def test_running_out_of_memory_says_what_was_asked_and_what_there_was() -> None:
    message = (
        "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 79 GiB. If reserved but "
        "unallocated memory is"
    )
    stopped = classify(raised(torch.OutOfMemoryError(message)))
    assert stopped.reason == "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 79 GiB."
    assert stopped.out_of_memory is not None
    assert stopped.out_of_memory.asked_mib == 2560.0
    assert stopped.out_of_memory.free_mib is not None
    assert stopped.out_of_memory.free_mib < stopped.out_of_memory.total_mib


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has", 2048.0),
        ("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has", 20.0),
        (
            "can't allocate memory: you tried to allocate 1125899906842624 bytes. Error code 12",
            2.0**30,
        ),
        ("CUDNN_STATUS_ALLOC_FAILED", None),
    ],
)
def test_what_was_asked_for_is_read_from_the_message(message: str, asked: float | None) -> None:
    assert asked_mib(message) == asked


@pytest.mark.parametrize(
    ("limit", "usage", "kind"),
    [
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ("memory.max", "memory.current", "inactive_file"),
    ],
)
def test_the_page_cache_of_the_groups_inside_counts_as_available(
    limit: str, usage: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {"inactive_file": 1048576, kind: 104857600}
    lines = [f"{name} {count}\n" for name, count in kinds.items()]
    (tmp_path / limit).write_text("314572800\n")
    (tmp_path / usage).write_text("209715200\n")
    (tmp_path / "memory.stat").write_text("".join(lines))
    monkeypatch.setattr(failures, "group_folders", lambda _controller: [tmp_path])
    assert psutil.virtual_memory().available > 2**30

    assert available_mib() == 200
