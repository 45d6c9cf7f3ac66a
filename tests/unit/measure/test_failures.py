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


def test_memory_that_runs_out_is_not_another_error() -> None:
    assert classify(raised(torch.OutOfMemoryError("Tried to allocate 2.00 GiB"))).status == "oom"
    assert classify(raised(MemoryError())).status == "oom"
    assert (
        classify(
            raised(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))
        ).status
        == "oom"
    )
    assert classify(raised(RuntimeError("shapes cannot be multiplied"))).status == "failed"


def test_a_failure_names_type_message_and_place_in_one_line() -> None:
    reason = classify(raised(KeyError("first\n  second"))).reason
    assert reason.startswith("KeyError: ")
    assert "(test_failures.py, line " in reason
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("name", "is_from_outside"),
    [
        ("SIGKILL", True),
        ("SIGTERM", True),
        ("SIGQUIT", True),
        ("SIGUSR1", True),
        ("SIGXCPU", True),
        ("SIGSEGV", False),
    ],
)
def test_a_loader_worker_is_ended_from_outside_by_the_same_signals_as_its_training(
    name: str, *, is_from_outside: bool
) -> None:
    ended = without_result("the process", -signal.Signals[name])
    of_worker = RuntimeError(
        f"DataLoader worker (pid 3) is killed by signal: {signal.strsignal(signal.Signals[name])}. "
    )

    assert bool(ended.interrupted_by) == is_from_outside
    assert bool(classify(raised(of_worker)).interrupted_by) == is_from_outside


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


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"])
def test_a_signal_that_a_process_gets_for_its_own_fault_is_a_failure(name: str) -> None:
    stopped = without_result("the process", -signal.Signals[name])

    assert (stopped.status, stopped.interrupted_by) == ("failed", "")
    assert name in stopped.reason


def test_a_gpu_that_another_process_has_to_itself_is_said_to_be_in_use() -> None:
    message = (
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable\nSearch for "
        "`cudaErrorDevicesUnavailable' in https://docs.nvidia.com\nCUDA kernel errors might be "
        "asynchronously reported at some other API call"
    )
    stopped = classify(raised(RuntimeError(message)))
    assert stopped.status == "failed"
    assert "in use by another process" in stopped.reason
    assert "asynchronously" not in stopped.reason


def test_libraries_that_lack_memory_of_the_device_are_out_of_memory_too() -> None:
    for message in (
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA error: out of memory",
        "MPS backend out of memory (MPS allocated: 1 GiB)",
    ):
        assert classify(raised(RuntimeError(message))).status == "oom"


def test_memory_that_ran_out_is_found_though_ending_a_capture_raised_another_error() -> None:
    capture_broken = RuntimeError(
        "CUDA error: operation failed due to a previous error during capture"
    )
    capture_broken.__context__ = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.50 GiB."
    )

    stopped = classify(raised(capture_broken))

    assert (stopped.status, stopped.reason) == (
        "oom",
        "CUDA out of memory. Tried to allocate 2.50 GiB.",
    )


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


def test_what_was_asked_is_none_where_the_message_lacks_it() -> None:
    stopped = classify(raised(MemoryError()))
    assert stopped.out_of_memory is not None
    assert stopped.out_of_memory.asked_mib is None


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
    ("limit", "usage", "kinds"),
    [
        (
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "inactive_file 1048576\ntotal_inactive_file 104857600\n",
        ),
        ("memory.max", "memory.current", "active_file 7\ninactive_file 104857600\n"),
    ],
    ids=["version 1", "version 2"],
)
def test_the_page_cache_of_the_groups_inside_counts_as_available(
    limit: str, usage: str, kinds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / limit).write_text("314572800\n")
    (tmp_path / usage).write_text("209715200\n")
    (tmp_path / "memory.stat").write_text(kinds)
    monkeypatch.setattr(failures, "group_folders", lambda _controller: [tmp_path])
    assert psutil.virtual_memory().available > 2**30

    assert available_mib() == 200
