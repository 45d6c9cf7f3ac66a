"""Measure a version: its agent, a fresh process in its folder and Python, carries out one task."""

import os
import subprocess
import tempfile
from contextlib import suppress
from typing import IO, Final

import msgspec

from gpu_report.errors import ConfigError
from gpu_report.guard.messages import Answer, Task
from gpu_report.guard.versions import Version
from gpu_report.measure.failures import read_oom_kills, unless_memory_ran_out, without_result
from gpu_report.printing.terminal import clean

_AGENT: Final = ("-m", "gpu_report.guard.agent")
_PATIENCE_S: Final = 10.0
_TAIL_BYTES: Final = 2**16
"""Of a log, which may be of any length."""


def measure_version(version: Version, task: Task) -> Answer:
    """Carry out a task in a fresh process, which has ended when this returns; its failure is an
    answer, too.

    No two processes are forked by one server. Processes of one server share the places of its
    memory and its seed of hashes, which decide a few per cent of a training on the CPU: on 2 cores,
    two servers of one version were 7 % apart in each of several guards.

    Raises:
        ConfigError: the version's Python lacks gpu-report, or what that needs.
    """
    kills_before = read_oom_kills()
    with tempfile.TemporaryFile() as log:
        agent = subprocess.Popen(
            [version.python, *_AGENT],
            cwd=version.folder,
            env=version.environment,
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
        except msgspec.DecodeError as error:
            return Answer(
                status="failed", reason=f"this side has another version of gpu-report: {error}"
            )
        finally:
            agent.kill()
            agent.communicate()
    if "No module named" in said:  # of the agent itself, which answers whatever the code raises
        raise ConfigError(
            f"{version.python}: {said}; each side needs the same gpu-report as this one"
        )
    # A signal from outside says nothing about the version; the OOM killer does.
    ended = unless_memory_ran_out(without_result(version.python, status), kills_before)
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


def _last_line(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
    lines = log.read().decode(errors="replace").strip().splitlines()
    return clean(lines[-1], keep="") if lines else "it printed nothing"
