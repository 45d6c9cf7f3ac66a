"""`gpu-report guard` as a person or a gate calls it: what it refuses, and whole runs in a
repository.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpu_report.cli import main
from gpu_report.guard import runners
from gpu_report.guard.messages import Answer, Task
from gpu_report.guard.sequence import FIRST_LOOK
from gpu_report.storage.locks import machine_to_itself
from tests.unit.guard.sides import MODEL, VARIANT, make_side

FUNCTION = [
    f"{MODEL}:build",
    "--batch",
    f"{MODEL}:make_batch",
    "--loss",
    f"{MODEL}:loss",
    "--device",
    "cpu",
]
SHORT = ["--seconds", "0.3", "--tolerance", "90"]
SAME_TIME_MS = 10.0
PYTHON = shlex.quote(sys.executable)

Guard = Callable[..., tuple[int, dict[str, Any]]]


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One commit of a small training and its study, and the working directory."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@localhost")
    folder = make_side(tmp_path / "repository").folder
    monkeypatch.chdir(folder)
    git("init", "--initial-branch=main")
    git("add", ".")
    git("commit", "-m", "A training")
    return folder


@pytest.fixture
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guard:
    """The exit status and what --json has; what others do on this machine meanwhile is left out of
    the answers.

    Unless `times` are asked for, each time that was measured is taken for the same.
    """

    def call(*arguments: str, times: bool = False) -> tuple[int, dict[str, Any]]:
        def undisturbed(measure: Callable[[Any, Task], Answer]) -> Callable[[Any, Task], Answer]:
            def answer(side: object, task: Task) -> Answer:
                found = measure(side, task)
                is_replaced = found.step_time_ms is not None and not times
                return msgspec.structs.replace(
                    found,
                    doubts=(),
                    step_time_ms=SAME_TIME_MS if is_replaced else found.step_time_ms,
                )

            return answer

        for each in (runners.FunctionRunner, runners.CommandRunner):
            monkeypatch.setattr(each, "measure", undisturbed(each.measure))
        numbers = tmp_path / "numbers.json"
        status = main(["guard", "--json", str(numbers), *arguments])
        return status, json.loads(numbers.read_text("utf-8"))

    return call


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "CONFIGURATION"),
        (["unet", "--before-command", "true"], "--before-command"),
        (["--after-command", "true"], "--after-command"),
        (["unet", "--batch", f"{MODEL}:make_batch"], "--batch"),
        (["unet", "--seconds", "1"], "--seconds"),
        (["unet", "--precision", "bf16"], "--precision"),
        (["--before-command", "true", "--device", "cpu"], "--device"),
        ([f"{MODEL}:build"], "--batch"),
        (["unet", "--tolerance", "0"], "--tolerance"),
        (["unet", "--tolerance", "nan"], "--tolerance"),
        ([*FUNCTION, "--seconds", "0"], "--seconds"),
        ([*FUNCTION, "--seconds=-1"], "--seconds"),
        ([*FUNCTION, "--seconds", "nan"], "--seconds"),
        (FUNCTION, "--before"),
        (["--before-command", "true"], "--before"),
        (
            [*FUNCTION, "--before", "HEAD", "--json", "guarded_model.py/file.json"],
            "guarded_model.py",
        ),
        ([*FUNCTION, "--before", "no-such-branch"], "no-such-branch"),
        ([*FUNCTION, "--after", "no-such-branch"], "no-such-branch"),
        ([*FUNCTION, "--before", ""], "the empty name"),
        ([*FUNCTION, "--before-python", "/no/such/python"], "/no/such/python"),
        ([*FUNCTION, "--after-python", "guarded_model.py"], "guarded_model.py"),
        (["--before-command", "true", "--after-python", sys.executable], "--after-python"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_a_line(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["guard", *arguments])

    printed = capsys.readouterr()
    assert status == 3
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert named in line
    assert git("worktree", "list").count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["unet", "--precision", "fp7"], ["unet", "--seconds", "long"]]
)
def test_values_that_are_none_of_an_option_have_the_status_of_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["guard", *arguments])

    assert ended.value.code == 3


@pytest.mark.usefixtures("repository")
def test_one_file_for_two_formats_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--json", "both", "--markdown", str(Path("both").resolve())]

    assert main(["guard", "--before", "HEAD", *FUNCTION, *files]) == 3

    assert "--markdown: it is" in capsys.readouterr().err
    assert not Path("both").exists()


@pytest.mark.usefixtures("repository")
def test_a_version_that_git_lacks_is_refused_without_waiting_for_another_measurement() -> None:
    with machine_to_itself():
        command = [
            sys.executable,
            "-m",
            "gpu_report",
            "guard",
            "--before",
            "no-such-branch",
            *FUNCTION,
        ]
        assert subprocess.run(command, check=False, timeout=60).returncode == 3


@pytest.mark.usefixtures("repository")
def test_a_guard_waits_for_another_measurement_as_long_as_it_is_asked_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with machine_to_itself():
        assert main(["guard", "--before", "HEAD", "--before-command", "true", "--wait", "0"]) == 3

    (line,) = capsys.readouterr().err.splitlines()
    assert "another measurement" in line
    assert git("worktree", "list").count("\n") == 1


@pytest.mark.parametrize("command", ["echo >>notes", "git checkout --quiet other"])
def test_a_folder_that_changes_while_it_is_measured_has_no_verdict(
    command: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("checkout", "-b", "other")
    git("commit", "--allow-empty", "-m", "Another")
    git("checkout", "main")
    (repository / "notes").touch()

    assert main(["guard", "--before-command", "true", "--after-command", command]) == 3

    assert "changed" in capsys.readouterr().err.splitlines()[-1]


def test_what_guard_prints_may_go_to_a_file_in_the_folder(repository: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "gpu_report",
        "guard",
        "--before-command",
        "true",
        "--after-command",
        ":",
    ]
    with (repository / "printed").open("w") as printed, (repository / "said").open("w") as said:
        guard = subprocess.run(command, stdout=printed, stderr=said, check=False)

    assert guard.returncode in (0, 1, 2), (repository / "said").read_text()


@contextmanager
def guard_at_work(temporary: Path, *through: str) -> Iterator[subprocess.Popen[bytes]]:
    """A guard that has begun to check out a version, and would go on for long."""
    temporary.mkdir()
    command = [
        sys.executable,
        "-m",
        "gpu_report",
        "guard",
        "--before",
        "HEAD",
        "--before-command",
        "sleep 60",
    ]
    variables = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [*through, *command], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as guard:
        try:
            while git("worktree", "list").count("\n") == 1:
                assert guard.poll() is None
                time.sleep(0.01)
            yield guard
        finally:
            guard.kill()


def left_in(temporary: Path) -> list[str]:
    return [each.name for each in temporary.iterdir()]


def test_a_guard_that_is_asked_to_end_twice_leaves_nothing_behind(
    repository: Path, tmp_path: Path
) -> None:
    for number in range(4000):  # so that git takes a while to check them out
        (repository / f"{number}.txt").write_text(str(number))
    git("add", "--all")
    git("commit", "--quiet", "--message", "Many files")

    with guard_at_work(tmp_path / "tmp") as guard:
        guard.terminate()
        time.sleep(0.1)
        guard.terminate()

        assert guard.wait(30) == 128 + signal.SIGTERM
        assert git("worktree", "list").count("\n") == 1
        assert left_in(tmp_path / "tmp") == ["gpu-report-measuring.lock"]


@pytest.mark.usefixtures("repository")
def test_a_guard_under_nohup_goes_on_when_the_terminal_ends(tmp_path: Path) -> None:
    with guard_at_work(tmp_path / "tmp", "nohup") as guard:
        guard.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            guard.wait(0.5)

        guard.terminate()
        guard.wait(30)


@pytest.mark.usefixtures("repository")
def test_two_sides_that_fail_are_both_named_and_the_repository_is_as_it_was(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["guard", "--before", "HEAD", "no-such-name", "--configfile", "tiny.yaml"]) == 3
    assert "is not in the study" in capsys.readouterr().err
    assert not git("status", "--porcelain", "--ignored")

    commands = ["--before-command", "exit 3", "--after-command", "exit 4"]
    assert main(["guard", *commands]) == 3
    said = capsys.readouterr().err
    assert "status 3" in said
    assert "status 4" in said


@pytest.mark.slow
def test_an_equal_training_is_no_regression(
    repository: Path, guard: Guard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "README.md").write_text("Words alone.")
    comment = tmp_path / "comment.md"

    status, document = guard("--before", "HEAD", *FUNCTION, *SHORT, "--markdown", str(comment))

    assert (status, document["status"]) == (0, 0)
    (row,) = (row for row in document["rows"] if row["compared"] == "time per step")
    assert row["configuration"] == f"{MODEL}:build"
    assert row["before_count"] == row["after_count"] == FIRST_LOOK
    assert "A training" in document["before"]
    assert "uncommitted" in document["after"]
    assert document["notes"] == []
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == document["headline"]
    assert len(printed.err.splitlines()) == row["before_count"]
    assert comment.read_text("utf-8").startswith(f"### {document['headline']}\n")
    assert "guard" in comment.read_text("utf-8")
    assert git("worktree", "list").count("\n") == 1


@pytest.mark.slow
def test_a_training_that_raises_after_is_a_regression(repository: Path, guard: Guard) -> None:
    model = repository / f"{MODEL}.py"
    model.write_text(
        model.read_text().replace("return nn.Linear(64, 1)", "raise RuntimeError('no weights')")
    )

    status, document = guard("--before", "HEAD", *FUNCTION, *SHORT)

    assert (status, document["status"]) == (1, 1)
    (row,) = document["rows"]
    assert (row["compared"], row["verdict"]) == ("status", "fails")
    assert "no weights" in row["why"]


@pytest.mark.slow
def test_a_training_that_does_not_import_before_has_no_verdict(
    repository: Path, guard: Guard
) -> None:
    model = repository / f"{MODEL}.py"
    working = model.read_text()
    model.write_text(f"import no_such_module\n{working}")
    git("commit", "--all", "-m", "Break it")
    model.write_text(working)

    status, document = guard("--before", "HEAD", *FUNCTION, *SHORT)

    assert (status, document["status"]) == (2, 2)
    assert "no_such_module" in document["rows"][0]["why"]
    assert document["notes"] == []


@pytest.mark.slow
@pytest.mark.usefixtures("repository")
def test_a_configuration_of_a_study_is_measured_by_its_name(guard: Guard) -> None:
    status, document = guard(
        "--configfile", "tiny.yaml", "--before", "HEAD", "--tolerance", "90", VARIANT
    )

    assert status == 0
    assert {row["compared"] for row in document["rows"]} == {
        "time per step",
        "peak memory",
        "held-out metric",
    }


def test_a_command_is_run_in_each_version(repository: Path, guard: Guard) -> None:
    (repository / "train.py").write_text("import sys; sys.exit('this is the first version')")
    git("add", ".")
    git("commit", "-m", "A script that fails")
    (repository / "train.py").write_text("")

    status, document = guard("--before", "HEAD", "--before-command", f"{PYTHON} train.py")

    assert status == 2
    assert "the first version" in document["rows"][0]["why"]


def test_a_command_without_marked_steps_is_compared_as_a_whole_with_a_note(
    repository: Path, guard: Guard
) -> None:
    (repository / "train.py").write_text("import time; time.sleep(0.05)")

    status, document = guard("--before", "worktree", "--before-command", f"{PYTHON} train.py")

    assert status == 0
    assert any("gpu_report.step()" in note for note in document["notes"])


def test_a_side_that_is_killed_from_outside_is_no_regression(repository: Path) -> None:
    command = ["guard", "--before-command", "true", "--after-command", "kill -s KILL $$"]

    assert main(command) == 3


def test_a_slower_command_is_found_and_confirmed(repository: Path, guard: Guard) -> None:
    (repository / "train.py").write_text("import sys, time; time.sleep(float(sys.argv[1]))")

    status, document = guard(
        "--before-command",
        f"{PYTHON} train.py 0.02",
        "--after-command",
        f"{PYTHON} train.py 1",
        "--tolerance",
        "50",
        times=True,
    )

    assert status == 1
    (row,) = (row for row in document["rows"] if row["compared"] == "time per step")
    assert row["verdict"] == "slower"
    assert row["why"]


@pytest.mark.slow
@pytest.mark.usefixtures("repository")
def test_a_python_without_gpu_report_is_a_mistake_and_no_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {PYTHON} -I -S "$@"\n')
    bare.chmod(0o755)

    assert main(["guard", "--after-python", str(bare), *FUNCTION, *SHORT]) == 3

    assert f"{bare}: " in capsys.readouterr().err


@pytest.mark.slow
def test_two_pythons_in_one_folder_are_two_sides(
    repository: Path, guard: Guard, tmp_path: Path
) -> None:
    other = tmp_path / "other python"
    other.write_text(f'#!/bin/sh\nOTHER=1 exec {PYTHON} "$@"\n')
    other.chmod(0o755)
    model = repository / f"{MODEL}.py"
    model.write_text(
        model.read_text().replace("print(", "assert 'OTHER' not in os.environ\n    print(")
    )

    status, document = guard("--after-python", str(other), *FUNCTION, *SHORT)

    assert status == 1
    assert str(other) in document["after"]
    assert str(other) not in document["before"]
