"""A version of a repository is checked out beside it, and what a guard made there is gone afterwards."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from gpu_report.errors import ConfigError
from gpu_report.guard.versions import WORKTREE, Version, checked_out


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
    return [line for line in git("worktree", "list", "--porcelain").splitlines() if line.startswith("worktree ")]


@pytest.mark.parametrize("reference", ["v1", "HEAD~1", "main~1"])
def test_a_commit_is_checked_out_beside_the_folder_and_gone_afterwards(repository: Path, reference: str) -> None:
    with checked_out(reference) as (folder, words):
        found = (folder / "model.py").read_text()
        assert len(worktrees()) == 2

    assert found == "STEP = 1\n"
    assert reference in words
    assert "First step" in words
    assert not folder.exists()
    assert not folder.is_relative_to(repository)
    assert len(worktrees()) == 1
    assert git("status", "--porcelain") == ""
    assert git("branch", "--show-current") == "main\n"


@pytest.mark.usefixtures("repository")
def test_an_error_of_the_guard_removes_the_checkout_as_well() -> None:
    with pytest.raises(LookupError), checked_out("v1") as (folder, _):
        raise LookupError

    assert not folder.exists()
    assert len(worktrees()) == 1


def test_a_folder_inside_the_repository_stays_the_same_folder_in_the_version(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "later")

    with checked_out("HEAD") as (folder, _):
        assert folder.name == "later"
        assert (folder / "model.py").read_text() == "STEP = 2\n"


@pytest.mark.usefixtures("repository")
def test_two_versions_are_checked_out_at_the_same_time() -> None:
    with checked_out("v1") as (before, _), checked_out("HEAD") as (after, _):
        assert [(folder / "model.py").read_text() for folder in (before, after)] == ["STEP = 1\n", "STEP = 2\n"]

    assert len(worktrees()) == 1


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

    assert "uncommitted" in words
    assert "2" in words.partition("uncommitted")[0].split()
    assert "uncommitted" not in clean_words
    assert (repository / "model.py").read_text() == "STEP = 3\n"


def test_a_folder_that_is_in_no_repository_is_its_own_worktree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with checked_out(WORKTREE) as (folder, words):
        assert folder == tmp_path
        assert str(tmp_path) in words


def test_what_git_ignores_is_linked(repository: Path) -> None:
    (repository / "data/images").mkdir(parents=True)
    (repository / "data/images/one").write_text("1")

    with checked_out("v1", links=["data/images"]) as (folder, _):
        assert (folder / "data/images/one").read_text() == "1"

    assert (repository / "data/images/one").read_text() == "1"


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def check_out(reference: str, *links: str) -> None:
    with checked_out(reference, links=links):
        raise AssertionError


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("reference", ["no-such-branch", "", "-q", "--all", "HEAD:model.py", "v1..HEAD", "f" * 40])
def test_what_git_knows_as_no_commit_is_refused_in_one_line(reference: str) -> None:
    assert reference in refused(lambda: check_out(reference))
    assert len(worktrees()) == 1


def test_a_folder_that_is_in_no_repository_has_no_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert "HEAD" in refused(lambda: check_out("HEAD"))


def test_a_machine_without_git_has_no_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "git" in refused(lambda: check_out("HEAD"))


def test_a_folder_that_the_version_lacks_is_named(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "later")

    assert "later" in refused(lambda: check_out("v1"))
    assert len(worktrees()) == 1


@pytest.mark.usefixtures("repository")
def test_a_link_to_what_is_in_the_version_itself_is_refused() -> None:
    assert "model.py" in refused(lambda: check_out("v1", "model.py"))
    assert len(worktrees()) == 1


def test_the_worktree_of_a_guard_that_was_killed_is_removed_by_the_next_and_others_stay(repository: Path) -> None:
    code = "import os; from gpu_report.guard.versions import checked_out\nwith checked_out('v1'): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    left_over = Path(worktrees()[1].removeprefix("worktree "))
    assert left_over.exists()
    own = repository.parent / "of the user"
    git("worktree", "add", "--detach", str(own), "v1")

    with checked_out("HEAD"):
        assert not left_over.exists()

    assert not left_over.parent.exists()
    assert own.exists()
    assert len(worktrees()) == 2


def test_a_sides_own_code_comes_before_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])  # to which Snakemake may have added a relative folder
    monkeypatch.setenv("PYTHONPATH", "/installed")
    monkeypatch.setenv("MINE", "kept")

    environment = Version(name="before", folder=tmp_path, words="").environment

    assert environment["PYTHONPATH"].split(os.pathsep) == [str(tmp_path), str(tmp_path / "src"), "/installed"]
    assert environment["MINE"] == "kept"


def imported_from(folder: Path) -> list[str]:
    paths = Version(name="before", folder=folder, words="").environment["PYTHONPATH"].split(os.pathsep)
    return [os.path.relpath(path, folder) for path in paths]


def test_both_sides_import_the_same_folders_each_of_its_own_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those on the path, and those of setuptools' import hooks, but for the environment and what is elsewhere."""
    hook = ModuleType("__editable___part_1_finder")
    hook.MAPPING = {"part": str(repository / "parts" / "part")}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, hook.__name__, hook)
    monkeypatch.setattr(sys, "prefix", str(repository / "environment"))
    monkeypatch.setattr(sys, "path", [str(repository / "environment" / "lib"), str(tmp_path), str(repository / "lib")])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir("later")

    with checked_out("HEAD") as (before, _), checked_out(WORKTREE) as (after, _):
        assert imported_from(before) == imported_from(after) == [".", "src", "../lib", "../parts"]
