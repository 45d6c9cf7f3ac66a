"""A training by several processes: torchrun's agent starts them, one for each device, and ends them
when one fails.

This runs in the fresh process of a run in place of the training, once on each host, and passes on
what the first rank here sends. Which rank failed first, and why, is found here: those that lose it
stop with errors of their own.
"""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from torch.distributed import DistError
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from gpu_report.errors import GpuReportError
from gpu_report.measure.children import exit_status_of, stopped_processes
from gpu_report.measure.failures import read_oom_kills, unless_memory_ran_out, without_result
from gpu_report.measure.rendezvous import PATIENCE_S, NotMetError, Rendezvous, Verdict, Weight, meet
from gpu_report.measure.run import (
    Built,
    Present,
    ProfiledRun,
    Progress,
    Run,
    Started,
    Stopped,
    TimedRun,
)

Returned = TypeVar("Returned")

_GRACE_S: Final = 4
"""After a rank has failed the agent asks the others to end; after this time they are killed."""
_HANDLED: Final = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
"""Signals that the agent answers by ending its ranks, unless this process was started so that it
ignores them.
"""


CarryOut = Callable[[Run, Connection], None]
"""Does a rank's part of a run and sends its messages."""


def launch(run: Run, pipe: Connection, carry_out_rank: CarryOut) -> None:
    """Start the run's ranks on this host, pass on their messages, and send as the last one how the
    run ended.
    """
    hosts, kills_before = run.hosts, read_oom_kills()
    try:
        rendezvous = meet(run)
    except NotMetError as error:
        pipe.send(Stopped(status="failed", reason=str(error)))
        return
    pairs = [Pipe(duplex=False) for _ in range(run.measurement.variant.devices // hosts.count)]
    relay = _Relay(pipe, pairs, rendezvous)
    reader = threading.Thread(target=relay.read, name="relay", daemon=True)
    reader.start()
    failed: dict[int, int] | None = None
    verdict: Verdict | None = None
    try:
        start_ranks(
            len(pairs),
            _be_rank,
            carry_out_rank,
            run,
            [sending for _, sending in pairs],
            log_folder=run.cache_folder / "ranks",
            run_id=rendezvous.run_id,
            min_nodes=hosts.count,
            max_nodes=hosts.count,
            rdzv_endpoint=rendezvous.endpoint,
            rdzv_configs={"is_host": rendezvous.is_host, "join_timeout": int(PATIENCE_S)},
            local_addr=rendezvous.address,
        )
    except ChildFailedError as error:
        failed = {rank: failure.exitcode for rank, failure in error.failures.items()}
    except (RendezvousError, DistError) as error:
        reason = (
            f"host {hosts.index}: torchrun's agent lost the rendezvous: {type(error).__name__}: "
            f"{error}"
        )
        verdict = Verdict(
            weight=Weight.LOST_OTHERS, message=Stopped(status="failed", reason=reason)
        )
        rendezvous.say_failed()
    relay.close_sending()
    reader.join()
    verdict = verdict or relay.end(failed)
    if isinstance(verdict.message, Stopped):
        # Here, since the other hosts do not see what this one's kernel does.
        verdict = replace(verdict, message=unless_memory_ran_out(verdict.message, kills_before))
    pipe.send(rendezvous.agree(verdict).message or relay.result)


def start_ranks(
    ranks: int,
    be_rank: Callable[..., Returned],
    *arguments: Any,
    log_folder: Path,
    run_id: str,
    **meeting: Any,
) -> dict[int, Returned]:
    """Call a function with these arguments in every rank of this host; what each returned, by rank.

    This process has imported PyTorch and touched no device, so that it can be forked. No other
    launch has this `run_id`. `meeting` are the fields of LaunchConfig that say where the agents of
    several hosts meet.

    Raises:
        ChildFailedError: a rank failed, and the others were ended.
    """
    # LaunchConfig counts the GPUs; any other way of it would keep the ranks, which are forked, from
    # using them.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    config = LaunchConfig(
        nproc_per_node=ranks,
        rdzv_backend="c10d",
        run_id=run_id,
        max_restarts=0,
        # Forked, they need not import PyTorch again.
        start_method="fork" if sys.platform == "linux" else "spawn",
        logs_specs=DefaultLogsSpecs(log_dir=str(log_folder)),
        signals_to_handle=",".join(
            name for name in _HANDLED if signal.getsignal(signal.Signals[name]) != signal.SIG_IGN
        ),
        **{
            "min_nodes": 1,
            "max_nodes": 1,
            "rdzv_endpoint": "localhost:0",
            "local_addr": "localhost",
            **meeting,
        },
    )
    # torchrun would keep each rank on the cores next to its GPU; one plain process, the base, is on
    # all of them.
    config.numa_options = None
    try:
        returned: dict[int, Returned] = elastic_launch(config, _without_handlers)(
            be_rank, *arguments
        )
    except SignalException as ended:
        # Somebody ends the measuring, which is no result; the ranks end with this process.
        signal.signal(ended.sigval, signal.SIG_DFL)
        os.kill(os.getpid(), ended.sigval)
        raise
    return returned


def _without_handlers(be_rank: Callable[..., Returned], *arguments: Any) -> Returned:
    for handled in map(signal.Signals.__getitem__, _HANDLED):
        # Forked, it has the agent's handlers, which raise; ended by the agent, it has nothing to
        # say of its own.
        if callable(signal.getsignal(handled)):
            signal.signal(handled, signal.SIG_DFL)
    return be_rank(*arguments)


def _be_rank(carry_out_rank: CarryOut, run: Run, pipes: Sequence[Connection]) -> None:
    own = pipes[int(os.environ["LOCAL_RANK"])]
    for each in pipes:
        if each is not own:
            each.close()
    carry_out_rank(run, own)


@dataclass(frozen=True, kw_only=True)
class _End:
    """When a rank ended, on `time.monotonic`, and its last message, or else its exit status,
    negative for a signal.
    """

    moment_s: float
    message: TimedRun | ProfiledRun | Stopped | GpuReportError | None = None
    exit_status: int | None = None


class _Relay:
    """Reads what the ranks send until all have ended, and passes on what is not an end."""

    def __init__(
        self,
        pipe: Connection,
        pairs: Sequence[tuple[Connection, Connection]],
        rendezvous: Rendezvous,
    ) -> None:
        self._pipe, self._rendezvous = pipe, rendezvous
        # By their number on this host; `_first` is the rank of the first of them.
        self._ranks = {receiving: rank for rank, (receiving, _) in enumerate(pairs)}
        self._first: int | None = None
        self._sending = [sending for _, sending in pairs]
        self._ends: dict[int, _End] = {}
        self._pids: dict[int, int] = {}
        self._stopped: list[int] = []
        """Processes that somebody had stopped when the first rank failed, for which it may have
        waited too long.
        """
        self._failed_s: float | None = None
        self._lost_s = math.inf
        """When a rank here has said that it lost another, or another host that it has failed."""

    def read(self) -> None:
        """Until every rank has ended; one that a failure of another does not end is killed."""
        reading = dict(self._ranks)
        while reading:
            timeout_s = self._rendezvous.poll_s if self._failed_s is None else _GRACE_S
            ready = cast("list[Connection]", wait(list(reading), timeout=timeout_s))
            if self._failed_s is None and self._rendezvous.poll_s and self._rendezvous.has_failed():
                self._lost_s = time.monotonic()
                self._fail()
            if self._failed_s is not None and time.monotonic() > self._failed_s + _GRACE_S:
                for pid in (self._pids.get(rank) for rank in reading.values()):
                    with suppress(ProcessLookupError):
                        if pid is not None:
                            os.kill(pid, signal.SIGKILL)
            for connection in ready:
                rank = reading[connection]
                try:
                    message = connection.recv()
                except (EOFError, OSError):
                    del reading[connection]
                    if rank not in self._ends:
                        self._ends[rank] = _End(
                            moment_s=time.monotonic(),
                            exit_status=exit_status_of(self._pids.get(rank)),
                        )
                        self._fail()
                    continue
                if isinstance(message, Present):
                    self._first, self._pids[rank] = message.rank - rank, message.pid
                    if len(self._pids) == len(self._ranks):
                        # While this process holds them open too, no end of a rank is seen.
                        self.close_sending()
                elif isinstance(message, Started | Built | Progress):
                    self._pipe.send(message)
                else:
                    # A rank may still fail after its result, when it gives back its connections.
                    self._ends[rank] = _End(moment_s=time.monotonic(), message=message)
                    if not isinstance(message, TimedRun | ProfiledRun):
                        self._fail()

    def _fail(self) -> None:
        if self._failed_s is None:
            self._failed_s = time.monotonic()
            self._stopped = [process.pid for process in stopped_processes()]
            self._rendezvous.say_failed()

    def close_sending(self) -> None:
        """Let the ranks alone hold the sending ends."""
        for sending in self._sending:
            sending.close()

    @property
    def result(self) -> TimedRun | ProfiledRun:
        """What the first rank here has sent, when all have finished."""
        return cast("TimedRun | ProfiledRun", self._ends[0].message)

    def end(self, failed: Mapping[int, int] | None) -> Verdict:
        """How the run ended here: as the first rank of this host says, or with what went wrong
        first.

        `failed` has the exit statuses of ranks that the agent saw fail, which it may have asked for
        before we could.

        What a rank says of its own comes before what one says that has lost another. Else a rank
        that ended without an error is at fault: one that was killed, or one that did not answer
        until it was ended.
        """
        if failed is None:
            return Verdict(weight=Weight.FINISHED)
        first = min(failed) if self._first is None else self._first
        ends = {first + number: end for number, end in self._ends.items()}
        for rank, end in ends.items():
            if end.exit_status is None:
                ends[rank] = replace(end, exit_status=failed.get(rank))
        by_time = sorted(ends.items(), key=lambda item: item[1].moment_s)
        for rank, end in by_time:
            if isinstance(end.message, GpuReportError):
                return Verdict(weight=Weight.CAUSE, message=end.message)
            if isinstance(end.message, Stopped) and not end.message.lost_others:
                return Verdict(
                    weight=Weight.CAUSE,
                    message=replace(end.message, reason=_named(rank, end.message)),
                )
        lost_s = min(
            [
                self._lost_s,
                *(
                    end.moment_s
                    for _, end in by_time
                    if isinstance(end.message, Stopped) or _was_aborted(end)
                ),
            ]
        )
        for rank, end in by_time:
            # The agent sees no other rank fail than the first, before it ends the rest by SIGTERM.
            was_first = failed.get(rank) == end.exit_status == -signal.SIGTERM
            if not isinstance(end.message, Stopped) and (was_first or _is_its_own_end(end, lost_s)):
                return Verdict(
                    weight=Weight.CAUSE, message=without_result(f"rank {rank}", end.exit_status)
                )
        # A rank that does not answer ends only when it is killed, after those that waited for it.
        # NCCL aborts them.
        killed_s = (self._failed_s or 0) + _GRACE_S / 2
        silent = [
            f"rank {rank} did not answer"
            for rank, end in by_time
            if not end.message and end.moment_s > killed_s and not _was_aborted(end)
        ]
        names = {pid: f"rank {first + number}" for number, pid in self._pids.items()}
        stopped = [f"{names.get(pid, f'process {pid}')} was stopped" for pid in self._stopped]
        aborted = [
            without_result(f"rank {rank}", end.exit_status).reason
            for rank, end in by_time
            if _was_aborted(end)
        ]
        lost = [
            _named(rank, end.message) for rank, end in by_time if isinstance(end.message, Stopped)
        ]
        return Verdict(
            weight=Weight.DID_NOT_ANSWER if stopped or silent else Weight.LOST_OTHERS,
            message=Stopped(
                status="failed",
                reason="; ".join([*(stopped or silent)[:1], *(aborted or lost)[:1]])
                or without_result(f"rank {by_time[0][0]}", by_time[0][1].exit_status).reason,
                interrupted_by="SIGSTOP" if stopped else "",
            ),
        )


def _was_aborted(end: _End) -> bool:
    """NCCL ends a process so that has waited for others too long."""
    return end.message is None and end.exit_status == -signal.SIGABRT


def _is_its_own_end(end: _End, lost_s: float) -> bool:
    """Whether the agent did not end it, which comes after a rank has said that it lost another, and
    is asked first.

    A killed rank's connections close one after the other, so that others may have said so a little
    before.
    """
    # Of one whose exit status is not known the agent has not said that it failed.
    if end.exit_status in (None, 0, -signal.SIGTERM, -signal.SIGABRT):
        return False
    return end.moment_s < lost_s + _GRACE_S / 2


def _named(rank: int, stopped: Stopped) -> str:
    return stopped.reason if stopped.status == "skipped" else f"rank {rank}: {stopped.reason}"
