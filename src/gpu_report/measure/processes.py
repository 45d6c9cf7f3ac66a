"""Fresh processes, started in a moment: a server that has PyTorch imported, and nothing else done,
forks them.

The server touches no device and runs no tensor operation, so each process starts as if it had just
imported PyTorch, and the process that asks need not import it. Where forking is not safe each
process imports it for itself.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any, Final, Self

import psutil

from gpu_report.errors import GpuReportError, MachineError
from gpu_report.measure.children import exit_status_of, stopped_processes
from gpu_report.measure.failures import read_oom_kills, unless_memory_ran_out, without_result
from gpu_report.measure.run import (
    PATIENCE_S,
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
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS

# Building an optimizer imports torch._dynamo, which takes seconds that the server spends once, as
# do jsonschema and yaml, which check the configuration of a built-in workload. A user's module may
# do anything when imported, so it is left to the process that trains.
_PRELOADED: Final = (
    "gpu_report.measure.training_process",
    "gpu_report.measure.calibration_process",
    "gpu_report.measure.link_process",
    "gpu_report.user_training.process",
    "torch._dynamo",
    "torch.profiler",
    "jsonschema",
    "yaml",
    *sorted({ours.class_path.partition(":")[0] for ours in BUILT_IN_WORKLOADS.values()}),
)
_SAID_AFTER_S: Final = 30.0
_LOOK_S: Final = 5.0
SERVER_GONE: Final = 255
"""The exit status that multiprocessing reports of a process whose server ended first."""


class MeasurementInterruptedError(GpuReportError):
    """Someone outside ended a training, so there is no result to record."""


@dataclass(kw_only=True)
class Outcome:
    """What a process sent before it ended, and how it ended."""

    environment: dict[str, EnvironmentValue] = field(default_factory=dict)
    facts: WorkloadFacts | None = None
    end: TimedRun | ProfiledRun | Stopped


def fresh_processes() -> ForkServerContext | SpawnContext:
    """Where fresh processes come from: on Linux a server that has imported PyTorch and what any of
    them needs, and that ignores Ctrl-C.

    A terminal sends SIGINT to every process. This one ends those that it started; the server would
    answer in the middle of importing PyTorch, with a traceback. So the server inherits that SIGINT
    is blocked, and so does what it forks, see `take_interruptions`. Where forking is not safe each
    process imports for itself.

    Raises:
        MachineError: the path of the temporary folder is too long for the server's socket.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    # No other thread may change what a signal does, and one that was ignored from the start stays
    # so.
    may_ask = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) != signal.SIG_IGN
    )
    with _interruptions_answered_afterwards() if may_ask else nullcontext():
        try:
            forkserver.ensure_running()
        except OSError as error:
            if "AF_UNIX path too long" not in str(error):
                raise
            raise MachineError(
                f"TMPDIR: {tempfile.gettempdir()} is too long a path for the sockets of fresh "
                "processes; set TMPDIR to a shorter one, such as /tmp"
            ) from error
    return context


def server_pid() -> int | None:
    """The server's process; None where none runs, or none forks."""
    return getattr(getattr(forkserver, "_forkserver", None), "_forkserver_pid", None)


def start(process: BaseProcess) -> None:
    """Start a fresh process.

    Raises:
        MeasurementInterruptedError: the server has ended before it could fork; the next start
            begins with a new one.
    """
    pid = server_pid()
    try:
        process.start()
    except (EOFError, ConnectionError) as error:
        ended = without_result("the server that forks fresh processes", exit_status_of(pid)).reason
        raise MeasurementInterruptedError(
            f"{ended}, before {process.name} began; nothing is recorded; run the same command "
            "again, and raise `ulimit -v` if that limits its memory"
        ) from error


class Output:
    """Standard output and error of this process, for one that it has a server fork: the server has
    those that it was started with.
    """

    def __init__(self) -> None:
        # Connections, since multiprocessing hands over the files of those.
        self._files = {}
        for number in (1, 2):
            with suppress(OSError):  # it may be closed
                self._files[number] = Connection(os.dup(number), readable=False)

    def take(self) -> None:
        """Make them those of the process that was forked."""
        for number, file in self._files.items():
            os.dup2(file.fileno(), number)


class FreshProcess:
    """A fresh process that calls `target` with the arguments and a pipe, and what it sends through
    it; where the context ends, it is ended.

    Raises:
        MeasurementInterruptedError: as `start`.
    """

    def __init__(self, target: Callable[..., None], *arguments: Any, name: str) -> None:
        context = fresh_processes()
        self._server = server_pid()
        self._receiving, sending = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_begin, args=(Output(), target, *arguments, sending), name=name
        )
        start(self._process)
        sending.close()
        self.exit_status: int | None = None
        self.is_silent = False
        """Whether it has sent nothing for as long as was waited for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self.exit_status = self._process.exitcode
        self._process.close()  # ends it also where its server is gone, see `end_with_parent`
        self._receiving.close()

    def messages(self, patience_s: float | None = None) -> Iterator[Any]:
        """Until the process has ended and everything it sent is read, or none came for that long; a
        killed one may leave a message cut short.
        """
        while ready := wait([self._receiving, self._process.sentinel], patience_s):
            if self._receiving not in ready:
                return
            try:
                message = self._receiving.recv()
            except (EOFError, OSError):
                return
            yield message
        self.is_silent = True

    def wait_for_end(self, within_s: float | None = None) -> None:
        """Return when it has ended, or after this time."""
        self._process.join(within_s)

    def end(self) -> Stopped:
        """What it means that it has ended and sent no result."""
        if self.exit_status != SERVER_GONE:
            return without_result("the process", self.exit_status)
        # Only SIGKILL ends the server, where nobody knows its status any more.
        status = exit_status_of(self._server)
        end = without_result(
            "the server that forks fresh processes", -signal.SIGKILL if status is None else status
        )
        return replace(end, interrupted_by=end.interrupted_by or "the end of its server")


def _begin(output: Output, target: Callable[..., None], *arguments: Any) -> None:
    output.take()
    target(*arguments)


@contextmanager
def _interruptions_answered_afterwards() -> Iterator[None]:
    # which the server needs, and which unblocks SIGINT when it has started
    resource_tracker.ensure_running()
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


@dataclass(kw_only=True)
class Waiting:
    """When a message last came, on `time.monotonic`, and which process was ended as stopped for too
    long.
    """

    heard_s: float = field(default_factory=time.monotonic)
    ended: str = ""


@contextmanager
def ending_stopped(what: str, *, patience_s: float = PATIENCE_S) -> Iterator[Waiting]:
    """End any process below this one that has been stopped, as by SIGSTOP, for `patience_s`, until
    the context ends.

    Silence is no evidence, since a training may compile or read for long; the state of a process
    is. Nobody looks while messages come, since looking takes time from a training.
    """
    waiting, is_over = Waiting(), threading.Event()

    def look() -> None:
        look_s = min(_LOOK_S, patience_s / 2)
        looks: dict[psutil.Process, int] = {}  # and no seconds: Ctrl-Z stops this process as well
        while not is_over.wait(look_s):
            if time.monotonic() < waiting.heard_s + look_s:
                continue
            looks = {process: looks.get(process, 0) + 1 for process in stopped_processes()}
            for process, count in looks.items():
                if count == round(_SAID_AFTER_S / look_s):
                    print(
                        f"{what} waits for process {process.pid}, which is stopped; `kill -CONT "
                        f"{process.pid}` lets it go on, else it is ended after {patience_s:.0f} s",
                        file=sys.stderr,
                        flush=True,
                    )
                if count * look_s >= patience_s:
                    waiting.ended = f"process {process.pid} was stopped for {patience_s:.0f} s"
                    with suppress(psutil.NoSuchProcess):
                        process.kill()

    looking = threading.Thread(target=look, name="stopped", daemon=True)
    looking.start()
    try:
        yield waiting
    finally:
        is_over.set()
        looking.join()


def carry_out_in_fresh_process(run: Run, on_progress: OnProgress) -> Outcome:
    """Carry out a run in a process of its own; the process has ended when this returns or raises.

    Meanwhile the driver of an NVIDIA device is polled, which gives the repetition's telemetry.

    Raises:
        MeasurementInterruptedError: the process, one of several, or the server was ended from
            outside.
        GpuReportError: a mistake that a person can fix, for instance a setting the workload does
            not have.
    """
    kills_before = read_oom_kills()
    with (
        watch_device(run.measurement.variant.device_type) as watch,
        ending_stopped(
            f"{run.measurement.variant.slug}: {run.title}", patience_s=run.patience_s
        ) as waiting,
    ):
        messages, end = _until_ended(run, on_progress, watch, waiting)
    outcome = _outcome(run, messages, end, kills_before=kills_before, stopped=waiting.ended)
    if isinstance(outcome.end, TimedRun):
        repetition = outcome.end.repetition
        telemetry = watch.telemetry(outcome.end.epoch_windows_s[repetition.warm_up_epochs :])
        if telemetry is not None and run.measurement.variant.devices > 1:
            # One device is watched, and others draw power too.
            telemetry = telemetry.model_copy(update={"energy_j": None})
        outcome.end = replace(
            outcome.end, repetition=repetition.model_copy(update={"telemetry": telemetry})
        )
    return outcome


def _until_ended(
    run: Run, on_progress: OnProgress, watch: DeviceWatch, waiting: Waiting
) -> tuple[list[Message], Stopped]:
    """The messages of the process, without its progress, and what its end means where none of them
    says it.
    """
    messages: list[Message] = []
    with FreshProcess(_carry_out, run, name=run.title) as process:
        for message in process.messages():
            waiting.heard_s = time.monotonic()
            if isinstance(message, Progress):
                on_progress(message)
                continue
            if isinstance(message, Started):
                watch.begin(message.device_uuid)
            messages.append(message)
        process.wait_for_end()
    return messages, process.end()


def _carry_out(run: Run, pipe: Connection) -> None:
    from gpu_report.measure.training_process import carry_out

    carry_out(run, pipe)


def _outcome(
    run: Run, messages: list[Message], end: Stopped, *, kills_before: int, stopped: str
) -> Outcome:
    environment = next(
        (message.environment for message in messages if isinstance(message, Started)), {}
    )
    facts = next((message.facts for message in messages if isinstance(message, Built)), None)
    last = messages[-1] if messages else None
    if isinstance(last, Exception):
        raise last
    if isinstance(last, TimedRun | ProfiledRun):
        return Outcome(environment=environment, facts=facts, end=last)
    if not isinstance(last, Stopped):
        end = unless_memory_ran_out(end, kills_before)
    else:
        # What has become of ranks was decided where they ran.
        end = (
            last if run.measurement.variant.has_ranks else unless_memory_ran_out(last, kills_before)
        )
    if end.interrupted_by or stopped:
        raise MeasurementInterruptedError(
            f"{run.measurement.variant.slug}: {run.title} was ended from outside "
            f"({stopped or end.reason}), nothing is "
            "recorded; run the same command again"
        )
    return Outcome(environment=environment, facts=facts, end=end)
