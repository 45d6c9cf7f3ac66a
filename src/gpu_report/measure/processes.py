"""Fresh processes, started in a moment: a server that has PyTorch imported, and nothing else done, forks them.

The server touches no device and runs no tensor operation, so each process starts as if it had just imported PyTorch.
Whoever asks for them need not import PyTorch at all. Where forking is not safe each process imports it for itself.
"""

import signal
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import Final

from gpu_report.errors import GpuReportError
from gpu_report.measure.messages import (
    Built,
    EnvironmentValue,
    Message,
    OnProgress,
    ProfiledRun,
    Progress,
    Started,
    Stopped,
    TimedRun,
)
from gpu_report.measure.out_of_memory import host_out_of_memory, read_oom_kills
from gpu_report.measure.parent_watch import fresh_processes
from gpu_report.measure.run import Run
from gpu_report.measure.telemetry import DeviceWatch, watch_device
from gpu_report.modules import OUR_WORKLOADS
from gpu_report.records import WorkloadFacts

# Building an optimizer imports torch._dynamo, which takes a second that the server spends once.
_PRELOADED: Final = ("gpu_report.measure.training_process", "torch._dynamo", "torch.profiler")
_FROM_OUTSIDE: Final = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
_SERVER_GONE: Final = 255
"""What multiprocessing says of a process whose server ended before it could tell."""
_MIB_PER_GIB: Final = 1024


class MeasurementInterruptedError(GpuReportError):
    """Someone outside ended a training, so there is no result to record."""


@dataclass(kw_only=True)
class Outcome:
    """What a process told before it ended, and how it ended."""

    environment: dict[str, EnvironmentValue] = field(default_factory=dict)
    facts: WorkloadFacts | None = None
    end: TimedRun | ProfiledRun | Stopped


def carry_out_in_fresh_process(run: Run, on_progress: OnProgress) -> Outcome:
    """Carry out a run in a process of its own; whatever happens, the process has ended when this returns or raises.

    Meanwhile the driver of an NVIDIA device is asked how it fares, which becomes the repetition's telemetry.

    Raises:
        MeasurementInterruptedError: the process was killed from outside.
        GpuReportError: a mistake that a person can mend, for instance a setting the workload does not have.
    """
    oom_kills_before = read_oom_kills()
    with watch_device(run.measurement.variant.device_type) as watch:
        messages, exit_status = _until_ended(run, on_progress, watch)
    outcome = _outcome(run, messages, exit_status, memory_ran_out=read_oom_kills() > oom_kills_before)
    if isinstance(outcome.end, TimedRun):
        outcome.end = _with_telemetry(outcome.end, watch)
    return outcome


def _until_ended(run: Run, on_progress: OnProgress, watch: DeviceWatch) -> tuple[list[Message], int | None]:
    """What the process told, less its progress, and its exit status."""
    context = _context(run)
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_carry_out, args=(run, sending), name=run.title)
    process.start()
    sending.close()
    messages: list[Message] = []
    try:
        for message in _messages(process, receiving):
            if isinstance(message, Progress):
                on_progress(message)
                continue
            if isinstance(message, Started):
                watch.begin(message.device_uuid)
            messages.append(message)
        process.join()
    finally:
        process.kill()
        process.join()
        receiving.close()
    return messages, process.exitcode


def _with_telemetry(timed_run: TimedRun, watch: DeviceWatch) -> TimedRun:
    """What was sampled during the warm-up is left out."""
    telemetry = watch.telemetry(timed_run.epoch_windows_s[timed_run.repetition.warm_up_epochs :])
    return replace(timed_run, repetition=timed_run.repetition.model_copy(update={"telemetry": telemetry}))


def _context(run: Run) -> ForkServerContext | SpawnContext:
    module = run.measurement.workload.class_path.partition(":")[0]
    # A user's module may do anything when imported, so it is left to the process that trains.
    return fresh_processes([*_PRELOADED, *([module] if module.startswith(OUR_WORKLOADS) else [])])


def _carry_out(run: Run, pipe: Connection) -> None:
    from gpu_report.measure.training_process import carry_out

    carry_out(run, pipe)


def _messages(process: BaseProcess, receiving: Connection) -> Iterator[Message]:
    """Until the process has ended and everything it sent is read; a killed one may leave a message cut short."""
    while receiving in wait([receiving, process.sentinel]):
        try:
            message = receiving.recv()
        except (EOFError, OSError):
            return
        yield message


def _outcome(run: Run, messages: list[Message], exit_status: int | None, *, memory_ran_out: bool) -> Outcome:
    environment = next((message.environment for message in messages if isinstance(message, Started)), {})
    facts = next((message.facts for message in messages if isinstance(message, Built)), None)
    last = messages[-1] if messages else None
    if isinstance(last, Exception):
        raise last
    if isinstance(last, Stopped) and last.killed_worker:
        last = _ended_by(run, signal.SIGKILL.name, memory_ran_out=memory_ran_out)
    if not isinstance(last, TimedRun | ProfiledRun | Stopped):
        last = _ended_without_a_word(run, exit_status, memory_ran_out=memory_ran_out)
    return Outcome(environment=environment, facts=facts, end=last)


def _ended_without_a_word(run: Run, exit_status: int | None, *, memory_ran_out: bool) -> Stopped:
    if exit_status == _SERVER_GONE and memory_ran_out:
        # Until the training's memory is free again, the kernel may take the server that forked it as well.
        return _ended_by(run, signal.SIGKILL.name, memory_ran_out=True)
    if exit_status is None or exit_status >= 0:
        return Stopped(status="failed", reason=f"the process ended by itself with exit status {exit_status}")
    return _ended_by(run, signal.Signals(-exit_status).name, memory_ran_out=memory_ran_out)


def _ended_by(run: Run, signal_name: str, *, memory_ran_out: bool) -> Stopped:
    if signal_name == "SIGKILL" and memory_ran_out:
        there_was = host_out_of_memory()
        return Stopped(
            status="oom",
            reason="the kernel killed the training for want of memory; the machine has "
            f"{there_was.total_mib / _MIB_PER_GIB:.1f} GiB",
            # What is free now is free because the training is gone.
            out_of_memory=there_was.model_copy(update={"free_mib": None}),
        )
    if signal_name in _FROM_OUTSIDE:
        raise MeasurementInterruptedError(
            f"{run.measurement.variant.slug}: {run.title} was ended from outside ({signal_name}), nothing is recorded; "
            "run the same command again"
        )
    return Stopped(status="failed", reason=f"the process was ended by {signal_name}")
