"""A side of functions talks to a process of its own; a side of commands starts each command and
reads its steps.
"""

import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest

from gpu_report.errors import ConfigError
from gpu_report.guard.messages import Answer, Task
from gpu_report.guard.runners import CommandRunner, FunctionRunner
from gpu_report.guard.versions import Version
from tests.unit.guard.sides import MODEL, make_side, make_task

TASK = Task(configuration="train.py", index=0)
STEPS = """
import time, gpu_report
for _ in range({steps}):
    with gpu_report.step():
        time.sleep(0.005)
time.sleep(0.3)
"""


@pytest.fixture
def version(tmp_path: Path) -> Version:
    return make_side(tmp_path / "side")


def run(version: Version, script: str, *, task: Task = TASK) -> Answer:
    (version.folder / "train.py").write_text(script)
    return CommandRunner(replace(version, command=f"'{sys.executable}' train.py")).measure(task)


def test_a_side_of_functions_measures_and_its_processes_have_ended_afterwards(
    version: Version,
) -> None:
    before = psutil.Process().children(recursive=True)

    answer = FunctionRunner(version).measure(make_task(version))

    assert answer.status == "ok"
    assert {*psutil.Process().children(recursive=True)} <= {*before}


def test_each_process_has_a_server_of_its_own_and_so_a_seed_of_hashes_of_its_own(
    version: Version,
) -> None:
    side, task = (
        FunctionRunner(version),
        make_task(version, metric=f"{MODEL}:hash_of_a_text", loss_steps=1),
    )

    assert len({side.measure(task).quality for _ in range(2)}) == 2


@pytest.fixture
def broken(version: Version) -> Version:
    """In whose folder Python finds another gpu_report, as where an environment has an older one."""
    package = version.folder / "gpu_report"
    package.mkdir()
    (package / "__init__.py").write_text("")
    return version


def test_a_side_without_this_gpu_report_is_refused_in_a_line(broken: Version) -> None:
    with pytest.raises(ConfigError, match=r"^.*gpu_report\.guard.*\Z"):
        FunctionRunner(broken).measure(make_task(broken))


def test_a_side_that_does_not_speak_the_language_fails_in_one_line(version: Version) -> None:
    package = version.folder / "gpu_report" / "guard"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "agent.py").write_text("input()\nprint('hello')\n")

    answer = FunctionRunner(version).measure(make_task(version))

    assert answer.status == "failed"
    assert len(answer.reason.splitlines()) == 1


def test_a_command_with_marked_steps_gives_the_time_of_a_step(version: Version) -> None:
    answer = run(version, STEPS.format(steps=400))

    assert (answer.status, answer.whole_command) == ("ok", False)
    assert answer.step_time_ms is not None
    assert 5 <= answer.step_time_ms < 300
    assert answer.memory_mib is not None
    assert answer.environment.keys() == {"torch"}


def test_a_command_with_too_few_marked_steps_is_refused_and_not_taken_for_one_that_fails(
    version: Version,
) -> None:
    with pytest.raises(ConfigError, match="train for longer"):
        run(version, STEPS.format(steps=8))


def test_a_profiled_run_of_a_command_leaves_its_trace(version: Version, tmp_path: Path) -> None:
    task = Task(configuration="train.py", index=0, trace_folder=str(tmp_path))

    assert run(version, STEPS.format(steps=600), task=task).status == "ok"
    assert len([*tmp_path.glob("*.pt.trace.json.gz")]) == 1


def test_a_command_without_marked_steps_gives_its_whole_time(version: Version) -> None:
    answer = run(version, "import time; time.sleep(0.3)")

    assert (answer.status, answer.whole_command) == ("ok", True)
    assert answer.step_time_ms is not None
    assert answer.step_time_ms >= 300


def test_the_memory_of_a_whole_command_is_its_own_or_not_measured(version: Version) -> None:
    own_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    small, large = (run(version, f"kept = b'1' * ({mib} << 20)") for mib in (1, own_mib + 50))

    assert small.memory_mib is None
    assert large.memory_mib is not None
    assert own_mib + 50 < large.memory_mib < own_mib + 150
    assert large.memory_kind == "resident set"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import no_such_module", "no_such_module"),
        ("print('out'); raise SystemExit('no data\\x1b[2J')", r"no data\x1b[2J"),
    ],
)
def test_a_command_that_fails_gives_its_last_line(version: Version, script: str, said: str) -> None:
    answer = run(version, script)

    assert answer.status == "failed"
    assert said in answer.reason
    assert len(answer.reason.splitlines()) == 1


@pytest.mark.parametrize(("signal_name", "interrupted"), [("SIGKILL", True), ("SIGSEGV", False)])
def test_a_command_may_be_ended_from_outside_or_crash(
    version: Version, signal_name: str, *, interrupted: bool
) -> None:
    answer = run(version, f"import os, signal; os.kill(os.getpid(), signal.{signal_name})")

    assert (answer.status, answer.interrupted) == ("failed", interrupted)
    assert signal_name in answer.reason


def test_a_command_runs_in_its_folder_with_its_code_first(version: Version) -> None:
    answer = run(
        version,
        f"import os, guarded_model\nassert os.getcwd() == {str(version.folder)!r}\n"
        f"assert guarded_model.__file__ == {str(version.folder / 'guarded_model.py')!r}",
    )

    assert (answer.status, answer.reason) == ("ok", "")


def test_an_interrupted_guard_ends_the_command_and_what_it_started(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(pid: int, _: int) -> None:
        started.append(psutil.Process(pid))
        while not (version.folder / "runs").exists():
            pass
        started.extend(started[0].children(recursive=True))
        raise KeyboardInterrupt

    started: list[psutil.Process] = []
    monkeypatch.setattr(os, "wait4", interrupt)

    with pytest.raises(KeyboardInterrupt):
        run(version, "import time; open('runs', 'w').close(); time.sleep(600)")

    with suppress(psutil.NoSuchProcess):
        psutil.wait_procs(started, timeout=30)
    assert started
    assert not any(each.is_running() for each in started)


INTERRUPTED = """
import subprocess, sys
from pathlib import Path
from gpu_report.guard.messages import Task
from gpu_report.guard.runners import CommandRunner, FunctionRunner
from gpu_report.guard.versions import Version

class Interrupted(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        if "cwd" in options:  # unlike what asks git something
            print(self.pid, flush=True)
            raise KeyboardInterrupt

subprocess.Popen = Interrupted
version = Version(name="before", folder=Path(), words="", command="sleep 600 & sleep 600")
{runner}(version).measure(Task(configuration="a", index=0))
"""


@pytest.mark.parametrize("runner", ["CommandRunner", "FunctionRunner"])
def test_what_is_started_ends_though_a_signal_comes_before_the_guard_knows_it(
    runner: str, version: Version, tmp_path: Path
) -> None:
    mark = f"{tmp_path}/{runner}"
    guard = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(runner=runner)],
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


def test_a_command_gets_no_input_that_it_could_wait_for(version: Version) -> None:
    assert run(version, "import sys; assert sys.stdin.read() == ''").status == "ok"


def test_a_command_ends_when_its_guard_is_killed(version: Version) -> None:
    (version.folder / "train.py").write_text(
        "import os, time\nopen('runs', 'w').write(str(os.getpid()))\ntime.sleep(600)"
    )
    command = replace(version, command=f"'{sys.executable}' train.py")
    guard = get_context("fork").Process(target=CommandRunner(command).measure, args=(TASK,))

    guard.start()
    while not (runs := version.folder / "runs").exists() or not runs.read_text():
        assert guard.is_alive()
    trained = psutil.Process(int(runs.read_text()))
    guard.kill()

    assert not psutil.wait_procs([trained], timeout=30)[1]
