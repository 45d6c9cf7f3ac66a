"""Folders with the small training, and processes that measure it, for the tests of both ends of the
conversation.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from gpu_report.guard.messages import Answer, Task
from gpu_report.guard.versions import Version
from tests.workflow.conftest import TINY

MODEL: Final = "guarded_model"
TRAINING: Final = {
    "build": f"{MODEL}:build",
    "make_batch": f"{MODEL}:make_batch",
    "loss": f"{MODEL}:loss",
    "device": "cpu",
    "seconds": 0.3,
}
VARIANT: Final = "tiny-cpu-b8-w0-fp32-e2"
"""A configuration of the study in tiny.yaml."""


def make_side(folder: Path) -> Version:
    """A version whose folder holds the small training and a study."""
    folder.mkdir(exist_ok=True)
    for source in (
        Path(__file__).with_name(f"{MODEL}.py"),
        TINY / "tiny.yaml",
        TINY / "tiny_workload.py",
    ):
        shutil.copy(source, folder)
    return Version(name="before", folder=folder, words="before")


def make_task(version: Version, *, index: int = 0, trace_folder: str = "", **training: Any) -> Task:
    return Task(
        configuration="mine",
        training={**TRAINING, **training},
        folder=str(version.folder),
        index=index,
        trace_folder=trace_folder,
    )


@contextmanager
def agent_of(version: Version) -> Iterator["subprocess.Popen[bytes]"]:
    """The process itself; it is ended with this block."""
    agent = subprocess.Popen(
        [sys.executable, "-m", "gpu_report.guard.agent"],
        cwd=version.folder,
        env=version.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield agent
    finally:
        agent.kill()
        for pipe in (agent.stdin, agent.stdout):
            assert pipe
            pipe.close()
        agent.wait()


def ask(version: Version, task: Task | bytes) -> Answer:
    with agent_of(version) as agent:
        assert agent.stdin
        assert agent.stdout
        agent.stdin.write((task if isinstance(task, bytes) else msgspec.json.encode(task)) + b"\n")
        agent.stdin.flush()
        return msgspec.json.decode(agent.stdout.readline(), type=Answer)
