"""`gpu-report guard` as a person or a gate calls it: what it refuses, and whole runs in a
repository.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_report.cli import main
from gpu_report.commands import guarding
from gpu_report.guard.messages import Answer, Task
from gpu_report.guard.sequence import FIRST_LOOK
from gpu_report.guard.versions import Version, measure_version
from gpu_report.storage.locks import machine_to_itself
from tests.unit.guard.sides import MODEL, make_side

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
    """The exit status and what --json has.

    Each time that was measured is taken for the same, and what others do on this machine meanwhile
    is left out.
    """

    def call(*arguments: str) -> tuple[int, dict[str, Any]]:
        def undisturbed(version: Version, task: Task) -> Answer:
            found = measure_version(version, task)
            step_times_ms = dict.fromkeys(found.step_times_ms, SAME_TIME_MS)
            return replace(found, doubts=(), step_times_ms=step_times_ms)

        monkeypatch.setattr(guarding, "measure_version", undisturbed)
        numbers = tmp_path / "numbers.json"
        status = main(["guard", "--json", str(numbers), *arguments])
        return status, json.loads(numbers.read_text("utf-8"))

    return call


Answers = Callable[[Version, Task], Answer]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], None]:
    """What a version's process answers, without one."""
    return lambda answer: monkeypatch.setattr(guarding, "measure_version", answer)


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["unet", "--batch", f"{MODEL}:make_batch"], "--batch"),
        (["unet", "--seconds", "1"], "--seconds"),
        (["unet", "--precision", "bf16"], "--precision"),
        ([f"{MODEL}:build"], "--batch"),
        (["unet", "--tolerance", "0"], "--tolerance"),
        (["unet", "--tolerance", "nan"], "--tolerance"),
        ([*FUNCTION, "--seconds", "0"], "--seconds"),
        ([*FUNCTION, "--seconds=-1"], "--seconds"),
        ([*FUNCTION, "--seconds", "nan"], "--seconds"),
        (FUNCTION, "--before"),
        (
            [*FUNCTION, "--before", "HEAD", "--json", "guarded_model.py/file.json"],
            "guarded_model.py",
        ),
        (["unet", "--markdown", "x.yaml", "--configfile", "x.yaml"], "as --configfile is"),
        ([f"{MODEL}.py", "--before", "HEAD"], "module:function"),
        ([MODEL, "--before", "HEAD", "--batch", f"{MODEL}:make_batch"], "module:function"),
        ([*FUNCTION, "--before", "no-such-branch"], "no-such-branch"),
        ([*FUNCTION, "--after", "no-such-branch"], "no-such-branch"),
        ([*FUNCTION, "--before", ""], "the empty name"),
        ([*FUNCTION, "--before-python", "/no/such/python"], "/no/such/python"),
        ([*FUNCTION, "--after-python", "guarded_model.py"], "guarded_model.py"),
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
    "arguments", [[], ["unet", "--precision", "fp7"], ["unet", "--seconds", "long"]]
)
def test_arguments_that_are_none_have_the_status_of_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["guard", *arguments])

    assert ended.value.code == 3


@pytest.mark.usefixtures("repository")
def test_a_guard_waits_for_another_measurement_as_long_as_it_is_asked_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with machine_to_itself():
        assert main(["guard", "--before", "HEAD", *FUNCTION, "--wait", "0"]) == 3

    (line,) = capsys.readouterr().err.splitlines()
    assert "another measurement" in line
    assert git("worktree", "list").count("\n") == 1


@pytest.mark.parametrize("command", ["echo >>notes", "git checkout --quiet other"])
def test_a_folder_that_changes_while_it_is_measured_has_no_verdict(
    command: str,
    repository: Path,
    answers: Callable[[Answers], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def changing(_version: Version, _task: Task) -> Answer:
        subprocess.run(command, shell=True, check=True)
        return Answer(step_times_ms={0: SAME_TIME_MS})

    git("checkout", "-b", "other")
    git("commit", "--allow-empty", "-m", "Another")
    git("checkout", "main")
    (repository / "notes").touch()
    answers(changing)

    assert main(["guard", "--before", "HEAD", *FUNCTION]) == 3

    assert "changed" in capsys.readouterr().err.splitlines()[-1]


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
        *FUNCTION,
        "--seconds",
        "60",
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


@pytest.mark.usefixtures("repository")
def test_a_side_that_is_killed_from_outside_is_no_regression(
    answers: Callable[[Answers], None],
) -> None:
    def killed_after(version: Version, _task: Task) -> Answer:
        if version.name == "before":
            return Answer(step_times_ms={0: SAME_TIME_MS})
        return Answer(status="failed", reason="ended by SIGKILL", interrupted=True)

    answers(killed_after)

    assert main(["guard", "--before", "HEAD", *FUNCTION]) == 3


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit(143)])
def test_a_guard_that_is_ended_leaves_the_files_of_an_earlier_one(
    repository: Path, answers: Callable[[Answers], None], raised: BaseException
) -> None:
    def ended(_version: Version, _task: Task) -> Answer:
        raise raised

    (repository / "old.json").write_text("{}")
    options = ["--json", "old.json", "--markdown", "new.md"]
    answers(ended)

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        main(["guard", "--before", "HEAD", *FUNCTION, *options])

    assert (repository / "old.json").read_text() == "{}"
    assert not (repository / "new.md").exists()


def test_a_link_that_guard_writes_through_stays_one(
    repository: Path, answers: Callable[[Answers], None], tmp_path: Path
) -> None:
    link, file = repository / "latest.json", tmp_path / "of_today.json"
    file.touch()
    link.symlink_to(file)
    answers(lambda _version, _task: Answer(step_times_ms={0: SAME_TIME_MS}))

    main(["guard", "--before", "HEAD", *FUNCTION, "--json", str(link)])

    assert link.is_symlink()
    assert json.loads(file.read_text("utf-8"))["rows"]


@pytest.mark.usefixtures("repository")
def test_two_versions_of_gpu_report_are_not_compared(
    answers: Callable[[Answers], None], capsys: pytest.CaptureFixture[str]
) -> None:
    answers(lambda version, _: Answer(step_times_ms={0: SAME_TIME_MS}, code_digest=version.name))

    assert main(["guard", "--before", "HEAD", *FUNCTION]) == 3

    assert "two versions of gpu-report" in capsys.readouterr().err


@pytest.mark.usefixtures("repository")
def test_a_slower_version_is_found_confirmed_and_profiled(
    answers: Callable[[Answers], None], tmp_path: Path
) -> None:
    def slower_after(version: Version, task: Task) -> Answer:
        asked.append((version.name, task))
        return Answer(step_times_ms={0: SAME_TIME_MS * (1.5 if version.name == "after" else 1.0)})

    asked: list[tuple[str, Task]] = []
    answers(slower_after)
    numbers = tmp_path / "numbers.json"

    status = main(["guard", "--before", "HEAD", *FUNCTION, "--json", str(numbers)])

    (row,) = json.loads(numbers.read_text("utf-8"))["rows"]
    assert status == 1
    assert row["verdict"] == "slower"
    assert row["why"]
    profiled = [(name, task) for name, task in asked if task.trace_folder]
    assert [name for name, _ in profiled] == ["before", "after"]
    for name in ("before", "after"):
        of_it = [task for side, task in asked if side == name]
        assert len({(task.folder, task.machine_file) for task in of_it}) == 1
        assert of_it[0].machine_file
