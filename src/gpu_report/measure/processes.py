"""Fresh processes, started in a moment: a server that has PyTorch imported, and nothing else done, forks them.

The server touches no device and runs no tensor operation, so each process starts as if it had just imported PyTorch,
and the process that asks need not import it. Where forking is not safe each process imports it for itself.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from gpu_report.errors import GpuReportError, MachineError
from gpu_report.measure.failures import host_out_of_memory, read_oom_kills
from gpu_report.measure.run import (
    Built,
    EnvironmentValue,
    Message,
    OnProgress,
    ProfiledRun,
    Progress,
    Run,
    Started,
    Stopped,
    TimedRun,
)
from gpu_report.measure.telemetry import DeviceWatch, watch_device
from gpu_report.records.record import WorkloadFacts
from gpu_report.study.modules import OUR_WORKLOADS

# Building an optimizer imports torch._dynamo, which takes a second that the server spends once.
_PRELOADED: Final = ("gpu_report.measure.training_process", "torch._dynamo", "torch.profiler")
_FROM_OUTSIDE: Final = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
SERVER_GONE: Final = 255
"""The exit status that multiprocessing reports of a process whose server ended first."""
_OUT_OF_MEMORY_SCORE: Final = Path("/proc/self/oom_score_adj")
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


class MeasurementInterruptedError(GpuReportError):
    """Someone outside ended a training, so there is no result to record."""


@dataclass(kw_only=True)
class Outcome:
    """What a process sent before it ended, and how it ended."""

    environment: dict[str, EnvironmentValue] = field(default_factory=dict)
    facts: WorkloadFacts | None = None
    end: TimedRun | ProfiledRun | Stopped


def fresh_processes(preloaded: Sequence[str]) -> ForkServerContext | SpawnContext:
    """Where fresh processes come from: on Linux a server that has imported these modules, and that ignores Ctrl-C.

    A terminal sends SIGINT to every process. This one ends those that it started; the server would answer in the middle
    of importing PyTorch, with a traceback. So the server inherits that SIGINT is blocked, and so does what it forks,
    see `take_interruptions`. Where forking is not safe each process imports for itself.

    Raises:
        MachineError: the path of the temporary folder is too long for the server's socket.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preloaded))
    is_main = threading.current_thread() is threading.main_thread()  # no other may change what a signal does
    with _interruptions_answered_afterwards() if is_main else nullcontext():
        try:
            forkserver.ensure_running()
        except OSError as error:
            if "AF_UNIX path too long" not in str(error):
                raise
            raise MachineError(
                f"TMPDIR: {tempfile.gettempdir()} is too long a path for the sockets of fresh processes; set TMPDIR to "
                "a shorter one, such as /tmp"
            ) from error
    return context


@contextmanager
def _interruptions_answered_afterwards() -> Iterator[None]:
    resource_tracker.ensure_running()  # which the server needs, and which unblocks SIGINT when it has started
    interruptions: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: interruptions.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, before)
    if interruptions:
        signal.raise_signal(signal.SIGINT)


def take_interruptions() -> None:
    """Let SIGINT end this fresh process at once.

    Python would turn an interruption into an exception, and that would look like a failure of what is trained.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def end_with_parent(_worker_id: int = 0) -> None:
    """End when the parent ends; takes a worker's number so that it serves as `worker_init_fn` of a DataLoader.

    The thread sleeps in a read on a pipe that only the parent holds open, and costs a training nothing.
    """
    threading.Thread(target=_end_after_parent, name="parent_watch", daemon=True).start()


def be_killed_before_others() -> None:
    """Make the OOM killer choose this process before the user's other programs, where that is allowed."""
    with suppress(OSError):
        if _OUT_OF_MEMORY_SCORE.exists():
            _OUT_OF_MEMORY_SCORE.write_text("500", "ascii")


def _end_after_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), _KILL)


def carry_out_in_fresh_process(run: Run, on_progress: OnProgress) -> Outcome:
    """Carry out a run in a process of its own; the process has ended when this returns or raises.

    Meanwhile the driver of an NVIDIA device is polled, which gives the repetition's telemetry.

    Raises:
        MeasurementInterruptedError: the process was killed from outside.
        GpuReportError: a mistake that a person can fix, for instance a setting the workload does not have.
    """
    oom_kills_before = read_oom_kills()
    with watch_device(run.measurement.variant.device_type) as watch:
        messages, exit_status = _until_ended(run, on_progress, watch)
    outcome = _outcome(run, messages, exit_status, memory_ran_out=read_oom_kills() > oom_kills_before)
    if isinstance(outcome.end, TimedRun):
        repetition = outcome.end.repetition
        telemetry = watch.telemetry(outcome.end.epoch_windows_s[repetition.warm_up_epochs :])
        if telemetry is not None and run.measurement.variant.devices > 1:
            # One device is watched, and others draw power too.
            telemetry = telemetry.model_copy(update={"energy_j": None})
        outcome.end = replace(outcome.end, repetition=repetition.model_copy(update={"telemetry": telemetry}))
    return outcome


def _until_ended(run: Run, on_progress: OnProgress, watch: DeviceWatch) -> tuple[list[Message], int | None]:
    """The messages of the process, without its progress, and its exit status."""
    module = run.measurement.workload.class_path.partition(":")[0]
    # A user's module may do anything when imported, so it is left to the process that trains.
    context = fresh_processes([*_PRELOADED, *([module] if module.startswith(OUR_WORKLOADS) else [])])
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
    if isinstance(last, TimedRun | ProfiledRun | Stopped) and not (
        isinstance(last, Stopped) and (last.killed_worker or last.was_killed)
    ):
        return Outcome(environment=environment, facts=facts, end=last)
    if isinstance(last, Stopped) and last.was_killed and not memory_ran_out:
        return Outcome(environment=environment, facts=facts, end=last)
    if isinstance(last, Stopped) or (exit_status == SERVER_GONE and memory_ran_out):
        # Until the training's memory is free again, the kernel may take the server that forked it as well.
        end = _ended_by(run, "SIGKILL", memory_ran_out=memory_ran_out)
    elif exit_status is None or exit_status >= 0:
        end = Stopped(status="failed", reason=f"the process ended by itself with exit status {exit_status}")
    else:
        end = _ended_by(run, signal.Signals(-exit_status).name, memory_ran_out=memory_ran_out)
    return Outcome(environment=environment, facts=facts, end=end)


def _ended_by(run: Run, signal_name: str, *, memory_ran_out: bool) -> Stopped:
    if signal_name == "SIGKILL" and memory_ran_out:
        memory = host_out_of_memory()
        reason = f"the training was killed by the OOM killer; the machine has {memory.total_mib / 1024:.1f} GiB"
        # What is free now is free because the training is gone.
        return Stopped(status="oom", reason=reason, out_of_memory=memory.model_copy(update={"free_mib": None}))
    if signal_name in _FROM_OUTSIDE:
        raise MeasurementInterruptedError(
            f"{run.measurement.variant.slug}: {run.title} was ended from outside ({signal_name}), nothing is recorded; "
            "run the same command again"
        )
    crashed = signal_name == signal.SIGSEGV.name
    return Stopped(status="failed", reason=f"the process was ended by {signal_name}", crashed=crashed)
