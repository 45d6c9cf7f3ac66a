"""A version is measured by an agent in its folder, which has ended afterwards whatever happens."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gpu_report.errors import ConfigError
from gpu_report.guard.versions import Version, measure_version
from tests.unit.guard.sides import MODEL, make_side, make_task


@pytest.fixture
def version(tmp_path: Path) -> Version:
    return make_side(tmp_path / "side")


def test_a_version_is_measured_and_its_processes_have_ended_afterwards(version: Version) -> None:
    before = psutil.Process().children(recursive=True)

    answer = measure_version(version, make_task(version))

    assert answer.status == "ok"
    assert {*psutil.Process().children(recursive=True)} <= {*before}


@pytest.mark.slow
def test_each_process_has_a_server_of_its_own_and_so_a_seed_of_hashes_of_its_own(
    version: Version,
) -> None:
    task = make_task(version, metric=f"{MODEL}:hash_of_a_text", loss_steps=1)

    first, second = (measure_version(version, task).quality for _ in range(2))

    assert first
    assert first.keys() == second.keys()
    assert first != second


def with_agent(version: Version, agent: str | None) -> Version:
    """In whose folder Python finds another gpu_report, as where an environment has an older one."""
    package = version.folder / "gpu_report" / "guard"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    if agent is not None:
        (package / "__init__.py").write_text("")
        (package / "agent.py").write_text(agent)
    return version


def test_a_version_without_this_gpu_report_is_refused_in_a_line(version: Version) -> None:
    with pytest.raises(ConfigError, match=r"^.*gpu_report\.guard.*\Z"):
        measure_version(with_agent(version, None), make_task(version))


def test_an_answer_of_another_gpu_report_is_no_verdict_on_the_version(version: Version) -> None:
    agent = with_agent(version, """input()\nprint('{"status": "ok", "memory_mib": 12.5}')\n""")

    with pytest.raises(ConfigError, match="install the same one in both"):
        measure_version(agent, make_task(version))


@pytest.mark.parametrize(
    ("agent", "said", "interrupted"),
    [
        ("input()\nprint('hello')\n", "", False),
        ("raise SystemExit('the first\\nno data\\x1b[2J')\n", r"no data\x1b[2J", False),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "SIGKILL", True),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "SIGSEGV", False),
    ],
    ids=["another language", "fails", "ended from outside", "crashes"],
)
def test_an_agent_that_gives_no_answer_is_one_in_a_line(
    version: Version, agent: str, said: str, *, interrupted: bool
) -> None:
    answer = measure_version(with_agent(version, agent), make_task(version))

    assert (answer.status, answer.interrupted) == ("failed", interrupted)
    assert said in answer.reason
    assert len(answer.reason.splitlines()) == 1


INTERRUPTED = """
import subprocess
from pathlib import Path
from gpu_report.guard.versions import measure_version
from gpu_report.guard.messages import Task
from gpu_report.guard.versions import Version

class Interrupted(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        if "cwd" in options:  # unlike what asks git something
            print(self.pid, flush=True)
            raise KeyboardInterrupt

subprocess.Popen = Interrupted
measure_version(
    Version(name="before", folder=Path(), words=""), Task(configuration="a", index=0)
)
"""


def test_what_is_started_ends_though_a_signal_comes_before_the_guard_knows_it(
    version: Version, tmp_path: Path
) -> None:
    mark = f"{tmp_path}/mark"
    guard = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=version.folder,
        env={**os.environ, "MARK": mark},
        capture_output=True,
        check=False,
    )

    assert guard.returncode == -signal.SIGINT
    assert guard.stdout
    left = [
        each
        for each in psutil.process_iter(["environ"])
        if (each.info["environ"] or {}).get("MARK") == mark
    ]
    assert not psutil.wait_procs(left, timeout=30)[1]
