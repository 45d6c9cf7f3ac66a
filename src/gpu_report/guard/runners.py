"""Runners measure a side: each call runs a study, a function or a command in a fresh process of its
version.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Protocol

import msgspec

from gpu_report.errors import ConfigError
from gpu_report.guard.messages import Answer, Task
from gpu_report.guard.versions import Version
from gpu_report.measure.failures import read_oom_kills, unless_memory_ran_out, without_result
from gpu_report.measure.progress import load_between, read_cpu_times
from gpu_report.measure.run import trace_name
from gpu_report.own.step_counts import (
    LINE_TO_ADD,
    RESULT_FILE,
    StepResult,
    read_reported,
    trace_beside,
)
from gpu_report.printing.number_format import counted
from gpu_report.printing.terminal import clean
from gpu_report.tables.marks import load_marks

_AGENT: Final = ("-m", "gpu_report.guard.agent")
_MIB: Final = 2**20
_UNIT_BYTES: Final = 1 if sys.platform == "darwin" else 1024
"""In which a system counts the peak of a process."""
_MS_PER_S: Final = 1e3
_FEWEST_BLOCKS: Final = 4
_PATIENCE_S: Final = 10.0
_ENDS_WITH_INPUT: Final = (
    "/bin/sh",
    "-c",
    'exec 3<&0 </dev/null; { read _ <&3; kill -s KILL 0; } & exec 3<&-; /bin/sh -c "$0"; exit $?',
)
"""Runs the command that follows, and kills it with its process group when the input closes.

So nothing keeps running after guard ends, even if guard is killed, or is interrupted before it
knows what it started.
"""
_SHELLS_SIGNAL: Final = 128
"""A shell's exit status is this plus the number of the signal that ended the command."""
_TAIL_BYTES: Final = 2**16
"""Of a log, which may be of any length."""


class Runner(Protocol):
    """Measures one version."""

    version: Version

    def measure(self, task: Task) -> Answer:
        """In a fresh process, which has ended when this returns; its failure is an answer, too."""


class FunctionRunner:
    """Of a study's configurations and of functions.

    No two processes are forked by one server. Processes of one server share the places of its
    memory and its seed of hashes, which decide a few per cent of a training on the CPU: on 2 cores,
    two servers of one version were 7 % apart in each of several guards.
    """

    def __init__(self, version: Version) -> None:
        self.version = version

    def measure(self, task: Task) -> Answer:
        """Likewise.

        Raises:
            ConfigError: the version's Python lacks gpu-report, or what that needs.
        """
        kills_before = read_oom_kills()
        with tempfile.TemporaryFile() as log:
            agent = subprocess.Popen(
                [self.version.python, *_AGENT],
                cwd=self.version.folder,
                env=self.version.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
            try:
                line = _asked(agent, task)
                if line:
                    with suppress(subprocess.TimeoutExpired):
                        agent.wait(_PATIENCE_S)  # so that it removes its temporary folder
                    return msgspec.json.decode(line, type=Answer)
                status, said = agent.wait(), _last_line(log)
                if (
                    "No module named" in said
                ):  # of the agent itself, which answers whatever the user's code raises
                    raise ConfigError(
                        f"{self.version.python}: {said}; each side needs the same gpu-report as "
                        "this one"
                    )
            except msgspec.DecodeError as error:
                return Answer(
                    status="failed", reason=f"this side has another version of gpu-report: {error}"
                )
            finally:
                agent.kill()
                agent.communicate()
        return _without_answer(self.version.python, status, said, kills_before)


def _without_answer(who: str, exit_status: int, said: str, kills_before: int) -> Answer:
    """The answer if a process sent none. A signal from outside says nothing about the version; the
    OOM killer does.
    """
    ended = unless_memory_ran_out(without_result(who, exit_status), kills_before)
    return Answer(
        status=ended.status,
        reason=f"{ended.reason}: {said}",
        interrupted=bool(ended.interrupted_by),
    )


def _asked(agent: "subprocess.Popen[bytes]", task: Task) -> bytes:
    """Its answer, before which its input is not closed: it ends with that."""
    assert agent.stdin  # as both are pipes
    assert agent.stdout
    with suppress(BrokenPipeError):
        agent.stdin.write(msgspec.json.encode(task) + b"\n")
        agent.stdin.flush()
        for line in agent.stdout:
            if line.startswith(b"{"):  # and no greeting of the environment
                return line
    return b""


class CommandRunner:
    """Of a command: the steps that its script marks, or where it marks none the time of the whole
    command.
    """

    def __init__(self, version: Version) -> None:
        self.version = version

    def measure(self, task: Task) -> Answer:
        """Likewise.

        Raises:
            ConfigError: the command marks steps, and too few of them to be timed, which says
                nothing of their speed.
        """
        with (
            tempfile.TemporaryDirectory(prefix="gpu-report-guard-") as temporary,
            tempfile.TemporaryFile() as log,
        ):
            result_file, kills_before = Path(temporary, "steps.json"), read_oom_kills()
            before, began_s = read_cpu_times(), time.perf_counter()
            process = subprocess.Popen(
                [*_ENDS_WITH_INPUT, self.version.command],
                cwd=self.version.folder,
                env={**self.version.environment, RESULT_FILE: str(result_file)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                _, status, usage = os.wait4(process.pid, 0)
                took_ms, load = (
                    (time.perf_counter() - began_s) * _MS_PER_S,
                    load_between(before, read_cpu_times()),
                )
                process.returncode = os.waitstatus_to_exitcode(status)
            finally:
                with suppress(
                    ProcessLookupError
                ):  # what it has started goes with it, and disturbs no other process
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            if status := process.returncode:
                status = (
                    _SHELLS_SIGNAL - status
                    if status - _SHELLS_SIGNAL in {*signal.Signals}
                    else status
                )
                return _without_answer("the command", status, _last_line(log), kills_before)
            found = read_reported(StepResult, result_file)
            if found is None:
                return _of_whole(took_ms, usage, doubts=tuple(load_marks([load])))
            if found.blocks < _FEWEST_BLOCKS:
                raise ConfigError(
                    f"{self.version.command}: it trained for {counted(found.blocks, 'block')} of "
                    f"steps; expected {_FEWEST_BLOCKS} or more: train for longer"
                )
            if task.trace_folder and (trace := trace_beside(result_file).read_bytes()):
                Path(task.trace_folder, trace_name()).write_bytes(trace)
            return Answer(
                step_time_ms=found.step_ms,
                memory_mib=found.memory_peak_mib,
                memory_kind="allocator" if found.memory_kind == "allocator" else "resident set",
                doubts=(*load_marks([load]), *(() if found.has_settled else ("unsettled",))),
                environment={"torch": found.torch_version},
            )


def _last_line(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
    lines = log.read().decode(errors="replace").strip().splitlines()
    return clean(lines[-1], keep="") if lines else "it printed nothing"


def _of_whole(took_ms: float, usage: resource.struct_rusage, *, doubts: tuple[str, ...]) -> Answer:
    # On Linux a process begins with the peak of the one that started it, so that a smaller one is
    # not known.
    is_its_own = usage.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Answer(
        step_time_ms=took_ms,
        memory_mib=usage.ru_maxrss * _UNIT_BYTES / _MIB if is_its_own else None,
        memory_kind="resident set",
        doubts=doubts,
        whole_command=True,
    )


MARK_STEPS: Final = (
    "the command marks no steps, so its whole time is compared, start included; put "
    f"`{LINE_TO_ADD}` around each step"
)
