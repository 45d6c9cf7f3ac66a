"""What an exception that ended a training is taken for."""

import torch

from gpu_report.measure.failures import classify


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except type(error) as caught:
        return caught


def test_memory_that_runs_out_is_told_from_other_errors() -> None:
    assert classify(raised(torch.OutOfMemoryError("Tried to allocate 2.00 GiB"))).status == "oom"
    assert classify(raised(MemoryError())).status == "oom"
    assert classify(raised(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))).status == "oom"
    assert classify(raised(RuntimeError("shapes cannot be multiplied"))).status == "failed"


def test_a_failure_names_type_message_and_place_in_one_line() -> None:
    reason = classify(raised(KeyError("first\n  second"))).reason
    assert reason.startswith("KeyError: ")
    assert "(test_failures.py, line " in reason
    assert "\n" not in reason


def test_only_a_worker_that_was_killed_may_have_been_killed_from_outside() -> None:
    killed = RuntimeError("DataLoader worker (pid 3) is killed by signal: Killed. ")
    crashed = RuntimeError("DataLoader worker (pid 3) is killed by signal: Segmentation fault. ")
    assert classify(raised(killed)).killed_worker
    assert not classify(raised(crashed)).killed_worker
