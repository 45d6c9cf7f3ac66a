"""A version of a repository is checked out beside it, and what a guard made there is gone
afterwards.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest

from gpu_report.errors import ConfigError
from gpu_report.guard.versions import WORKTREE, Version, checked_out, content_of_worktree


@pytest.fixture(autouse=True)
def own_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git without the settings of whoever runs the tests."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@localhost")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits of model.py, 1 and 2; the second has the folder `later`; `data` is ignored."""
    folder = tmp_path / "my project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    git("init", "--initial-branch=main")
    Path("model.py").write_text("STEP = 1\n")
    Path(".gitignore").write_text("data\n")
    git("add", ".")
    git("commit", "-m", "First step")
    git("tag", "v1")
    Path("later").mkdir()
    Path("later/model.py").write_text("STEP = 2\n")
    Path("model.py").write_text("STEP = 2\n")
    git("add", ".")
    git("commit", "-m", "Second step")
    return folder


def worktrees() -> list[str]:
    return [
        line
        for line in git("worktree", "list", "--porcelain").splitlines()
        if line.startswith("worktree ")
    ]


@pytest.mark.parametrize("ending", [None, LookupError])
def test_a_commit_is_checked_out_beside_the_folder_and_gone_afterwards(
    repository: Path, ending: type[Exception] | None
) -> None:
    with pytest.raises(ending) if ending else nullcontext(), checked_out("v1") as (folder, words):
        assert (folder / "model.py").read_text() == "STEP = 1\n"
        assert len(worktrees()) == 2
        if ending:
            raise ending

    assert "v1" in words
    assert "First step" in words
    assert not folder.exists()
    assert not folder.is_relative_to(repository)
    assert len(worktrees()) == 1
    assert git("status", "--porcelain") == ""
    assert git("branch", "--show-current") == "main\n"


def test_a_folder_inside_the_repository_stays_the_same_folder_in_the_version(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "later")

    with checked_out("HEAD") as (folder, _):
        assert folder.name == "later"
        assert (folder / "model.py").read_text() == "STEP = 2\n"


def test_the_worktree_is_used_as_it_is_and_says_what_is_not_committed(repository: Path) -> None:
    with checked_out(WORKTREE) as (folder, clean_words):
        assert folder == repository
    (repository / "model.py").write_text("STEP = 3\n")
    (repository / "new.py").write_text("")
    comment = repository / "written/guard.md"
    comment.parent.mkdir()
    comment.write_text("")

    with checked_out(WORKTREE, written=[comment]) as (folder, words):
        assert (folder / "model.py").read_text() == "STEP = 3\n"

    assert "2" in words.partition("uncommitted")[0].split()
    assert "uncommitted" not in clean_words
    assert (repository / "model.py").read_text() == "STEP = 3\n"


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def check_out(reference: str) -> None:
    with checked_out(reference):
        raise AssertionError


@pytest.mark.parametrize(
    ("reference", "place"),
    [("no-such-branch", "."), ("", "."), ("--all", "."), ("HEAD:model.py", "."), ("v1", "later")],
)
def test_what_git_knows_as_no_commit_or_lacks_the_folder_is_refused_in_one_line(
    reference: str, place: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / place)

    assert (reference if place == "." else place) in refused(lambda: check_out(reference))
    assert len(worktrees()) == 1


def test_a_folder_that_is_in_no_repository_is_its_own_worktree_and_has_no_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with checked_out(WORKTREE) as (folder, words):
        assert folder == tmp_path
        assert str(tmp_path) in words
    assert content_of_worktree() == {}
    assert "HEAD" in refused(lambda: check_out("HEAD"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git" in refused(lambda: check_out("HEAD"))


KILLED = """
import os
from gpu_report.guard.versions import checked_out
from gpu_report.storage.files import take_own_temporary_folder
take_own_temporary_folder()
with checked_out('v1'):
    os._exit(9)
"""


def test_the_checkout_of_a_guard_that_was_killed_goes_with_its_temporary_folder(
    repository: Path,
) -> None:
    environment = {**os.environ, "TMPDIR": (shared := tempfile.mkdtemp(dir="/tmp"))}
    ended = subprocess.run([sys.executable, "-c", KILLED], check=False, env=environment)
    assert ended.returncode == 9
    left_over = Path(worktrees()[1].removeprefix("worktree "))
    assert left_over.is_relative_to(shared)
    own = repository.parent / "of the user"
    git("worktree", "add", "--detach", str(own), "v1")

    subprocess.run([sys.executable, "-c", KILLED], check=False, env=environment)

    assert not left_over.exists()
    git("worktree", "prune")
    assert f"worktree {own}" in worktrees()
    assert len(worktrees()) == 3
    shutil.rmtree(shared)


def test_a_folder_that_is_named_like_a_guards_own_is_left_alone(repository: Path) -> None:
    above = repository.parent / "gpu-report-guard-99999999-test"
    above.mkdir()
    (above / "precious").touch()
    main, linked = above / "repo", above / "linked"
    repository.rename(main)
    os.chdir(main)
    git("worktree", "add", "--detach", str(linked), "v1")
    for work in (main, linked):
        (work / "model.py").write_text("STEP = 3\n")

    with checked_out("HEAD"):
        pass

    assert [work.joinpath("model.py").read_text() for work in (main, linked)] == ["STEP = 3\n"] * 2
    assert (above / "precious").exists()
    assert len(worktrees()) == 2


HOOK = (
    "from gpu_report.guard.versions import checked_out\nwith checked_out('v1'), "
    "checked_out('HEAD'): pass"
)


def test_a_commit_whose_hook_checks_out_versions_is_what_the_user_made(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("worktree", "add", "-b", "other", "../linked")
    monkeypatch.chdir("../linked")
    before = worktrees()
    hooks = {"pre-commit": shlex.join([sys.executable, "-c", HOOK]), "post-checkout": "exit 1"}
    for name, command in hooks.items():  # the second is not run for a version
        (hook := repository / ".git/hooks" / name).write_text(f"#!/bin/sh\n{command}\n")
        hook.chmod(0o755)
    Path("model.py").write_text("STEP = 3\n")

    git("commit", "--all", "--message", "Third step")

    assert git("show", "HEAD:model.py") == "STEP = 3\n"
    assert git("status", "--porcelain") == ""
    assert worktrees() == before


def test_a_sides_own_code_comes_before_what_is_installed_and_no_variable_of_a_hook_reaches_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in git("rev-parse", "--local-env-vars").split():
        monkeypatch.setenv(name, "/of/a/hook")
    monkeypatch.setattr(sys, "path", [])  # to which Snakemake may have added a relative folder
    monkeypatch.setenv("PYTHONPATH", "/installed")
    monkeypatch.setenv("MINE", "kept")

    environment = Version(name="before", folder=repository, words="").environment

    own = [str(repository), str(repository / "src")]
    assert environment["PYTHONPATH"].split(os.pathsep) == [*own, "/installed"]
    assert environment["MINE"] == "kept"
    assert "/of/a/hook" not in environment.values()
    assert environment["GIT_CONFIG_GLOBAL"] == os.devnull


def overwrite(path: str) -> Callable[[], object]:
    return lambda: Path(path).write_text("STEP = 4\n")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: git("checkout", "--force", "v1"), {"HEAD", "a tracked file"}),
        (lambda: git("commit", "--allow-empty", "-m", "Third"), {"HEAD"}),
        (overwrite("model.py"), {"a tracked file"}),
        (overwrite("later/model.py"), {"a tracked file"}),
        (overwrite("later/own.sh"), {"later/own.sh"}),
        (lambda: Path("later/own.sh").unlink(), {"later/own.sh"}),
        (overwrite("new.sh"), set()),
        (overwrite("data"), set()),
        (lambda: Path("__pycache__/model.pyc").write_bytes(b"newer"), set()),
    ],
)
@pytest.mark.usefixtures("repository")
def test_what_changes_in_the_folder_is_named_but_for_new_files_and_what_git_ignores(
    change: Callable[[], object], named: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    git("config", "diff.external", "true")  # which shows no difference
    Path("later/own.sh").write_text("sleep 1\n")
    Path("model.py").write_text("STEP = 3\n")
    Path("__pycache__").mkdir()
    Path("__pycache__/model.pyc").touch()
    Path("data").touch()
    before = content_of_worktree()

    change()

    monkeypatch.chdir("later")
    now = content_of_worktree()
    assert {part for part, state in before.items() if now.get(part) != state} == named


def imported_from(folder: Path) -> list[str]:
    paths = (
        Version(name="before", folder=folder, words="").environment["PYTHONPATH"].split(os.pathsep)
    )
    return [os.path.relpath(path, folder) for path in paths]


def test_both_sides_import_the_same_folders_each_of_its_own_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those on the path, and those of setuptools' import hooks, but for the environment and what is
    elsewhere.
    """
    hook = ModuleType("__editable___part_1_finder")
    hook.MAPPING = {"part": str(repository / "parts" / "part")}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, hook.__name__, hook)
    monkeypatch.setattr(sys, "prefix", str(repository / "environment"))
    monkeypatch.setattr(
        sys,
        "path",
        [str(repository / "environment" / "lib"), str(tmp_path), str(repository / "lib")],
    )
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir("later")

    with checked_out("HEAD") as (before, _), checked_out(WORKTREE) as (after, _):
        assert imported_from(before) == imported_from(after) == [".", "src", "../lib", "../parts"]


def test_a_file_of_the_folder_that_this_process_prints_to_may_change(repository: Path) -> None:
    script = (
        "from gpu_report.guard.versions import content_of_worktree\n"
        "before = content_of_worktree()\nprint('a line', flush=True)\n"
        "assert before and content_of_worktree() == before\n"
    )

    with (repository / "printed").open("w") as printed:
        subprocess.run([sys.executable, "-c", script], stdout=printed, stderr=printed, check=True)
