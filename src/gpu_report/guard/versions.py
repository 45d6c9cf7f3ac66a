"""The two versions that are compared: states of the user's repository, or Pythons, each in its
folder; and measuring one, by an agent there.

a reference -> a worktree of git in the temporary folder of this process -> Version

What a killed guard left in its temporary folder is removed with that by the next measurement, and
git prunes the worktree.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gpu_report.errors import ConfigError
from gpu_report.guard.messages import OTHER_VERSIONS, Answer, Task
from gpu_report.measure.failures import read_oom_kills, unless_memory_ran_out, without_result
from gpu_report.printing.number_format import counted
from gpu_report.printing.terminal import clean
from gpu_report.records.provenance import environment_without_git

WORKTREE: Final = "worktree"
"""The folder as it is, with what is not committed."""
_AGENT: Final = ("-m", "gpu_report.guard.agent")
_PATIENCE_S: Final = 10.0
_TAIL_BYTES: Final = 2**16
"""Of a log, which may be of any length."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """One side: `folder` is where its code is imported; `name` is before or after."""

    name: str
    folder: Path
    words: str
    python: str = sys.executable

    @property
    def environment(self) -> dict[str, str]:
        """That of its processes: its own code comes before installed code, wherever in its
        repository it lies.
        """
        own = [root_of(self.folder) / each for each in _imported_folders(root_of(Path.cwd()))]
        paths = [self.folder, self.folder / "src", *own, os.environ.get("PYTHONPATH")]
        python_path = os.pathsep.join(dict.fromkeys(str(path) for path in paths if path))
        return {**environment_without_git(), "PYTHONPATH": python_path}


def root_of(folder: Path) -> Path:
    """The root of the working tree of git that the folder is in, or itself where it is in none."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def _imported_folders(root: Path) -> list[Path]:
    """The folders below the root that this Python imports from, as seen from there, but for its own
    environment.

    They are on its path, or are those of setuptools' import hooks for editable installations.
    """
    hooks = [module for name, module in sys.modules.items() if name.startswith("__editable___")]
    packages = [Path(package) for hook in hooks for package in hook.MAPPING.values()]
    found = [
        each.resolve() for each in (*map(Path, sys.path), *(package.parent for package in packages))
    ]
    environment = Path(sys.prefix).resolve()
    return [
        each.relative_to(root)
        for each in found
        if each.is_relative_to(root) and not each.is_relative_to(environment)
    ]


def commit_of(reference: str) -> str:
    """The commit that git knows by that name.

    Raises:
        ConfigError: git has no repository for this folder, or no such version.
    """
    _git("rev-parse", "--git-dir", problem=f"{reference}: this folder is in no repository of git")
    unknown = (
        f"{reference or 'the empty name'}: the repository has no such version; "
        f"name a branch, a tag or a commit, or {WORKTREE}"
    )
    # The merge base of a commit with itself is that commit. rev-parse would also accept ^HEAD,
    # which excludes a commit.
    return _git("merge-base", "--end-of-options", *[f"{reference}^{{commit}}"] * 2, problem=unknown)


@contextmanager
def checked_out(reference: str, *, written: Sequence[Path] = ()) -> Iterator[tuple[Path, str]]:
    """This folder as it is in that version of its repository, and the version in words.

    Args:
        reference: What git knows as a commit, or `worktree`.
        written: Files that guard itself writes, which are no change of this folder.

    Raises:
        ConfigError: git has no repository for this folder, or no such version, or the version lacks
            this folder.
    """
    here = Path.cwd()
    if reference == WORKTREE:
        yield here, _worktree_in_words(here, written)
        return
    commit = commit_of(reference)
    top = Path(
        _git(
            "rev-parse",
            "--show-toplevel",
            problem=f"{reference}: its repository has no working tree",
        )
    )
    folder = Path(tempfile.mkdtemp(prefix="gpu-report-guard-")).resolve()
    checkout = folder / top.name
    add = ("worktree", "add", "--detach", str(checkout), commit)
    try:
        _git(*add, problem=f"{reference}: cannot be checked out")
        if (checkout / ".gitmodules").exists():
            update = ("submodule", "update", "--init", "--recursive")
            _git(
                "-C",
                str(checkout),
                *update,
                problem=f"{reference}: its submodules cannot be checked out",
            )
        inside = checkout / here.resolve().relative_to(top)
        if not (inside.is_dir() and inside.resolve().is_relative_to(checkout)):
            raise ConfigError(
                f"{reference}: it has no folder {inside.relative_to(checkout)}; use another version"
            )
        subject = _git(
            "log", "-1", "--format=%h %s", commit, problem=f"{reference}: cannot be read"
        )
        yield inside, f"{reference} ({subject})"
    finally:
        with suppress(ConfigError):
            # Twice, since git locks a worktree until it is checked out, which may be interrupted.
            _git("worktree", "remove", "--force", "--force", str(checkout), problem="")
        shutil.rmtree(folder, ignore_errors=True)


def content_of_worktree() -> dict[str, str]:
    """The state of each part of this folder's repository that must not change; empty if it has no
    commit.

    The state of an untracked file, which may be large, is its size and time. What git ignores may
    change, as may Python's compiled modules and what this process prints to.
    """
    differences = (
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--full-index",
        "--submodule=diff",
        "HEAD",
    )
    untracked = (
        "ls-files",
        "--others",
        "--exclude-standard",
        "--exclude=__pycache__",
        "--full-name",
        "-z",
        ":/",
    )
    try:
        known = {
            "HEAD": _git("rev-parse", "HEAD", problem=""),
            "a tracked file": _git(*differences, problem=""),
        }
        files = {
            name: root_of(Path.cwd()) / name for name in _git(*untracked, problem="").split("\0")
        }
    except ConfigError:
        return {}
    printed = [os.fstat(number) for number in (1, 2)]
    states = {name: file.stat() for name, file in files.items() if file.is_file()}
    return known | {
        name: f"{state.st_size} bytes, {state.st_mtime_ns}"
        for name, state in states.items()
        if not any(os.path.samestat(state, each) for each in printed)
    }


def _worktree_in_words(here: Path, written: Sequence[Path]) -> str:
    try:
        top = Path(_git("rev-parse", "--show-toplevel", problem="")).resolve()
        inside = [
            path.resolve().relative_to(top)
            for path in written
            if path.resolve().is_relative_to(top)
        ]
        left_out = [f":(top,exclude,literal){path.as_posix()}" for path in inside]
        changed = _git("status", "--porcelain", "--", ":/", *left_out, problem="").splitlines()
        commit = _git("rev-parse", "--short", "HEAD", problem="")
    except ConfigError:
        return f"the folder {here}"
    dirty = f" with {counted(len(changed), 'uncommitted file')}" if changed else ""
    return f"worktree at {commit}{dirty}"


def _git(*arguments: str, problem: str) -> str:
    """What git prints, without the blank at its end.

    Raises:
        ConfigError: git is not there, or fails; the message begins with the problem.
    """
    try:
        process = subprocess.Popen(
            [
                "git",
                "-c",
                f"core.hooksPath={os.devnull}",
                *arguments,
            ],  # hooks are for the user's own commands
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**environment_without_git(), "GIT_OPTIONAL_LOCKS": "0"},
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise ConfigError(f"{problem}: git is not installed") from error
    with process:
        try:
            printed, said = process.communicate()
        except BaseException:
            os.killpg(
                process.pid, signal.SIGKILL
            )  # with git's own processes, which would go on writing a checkout
            raise
    if process.returncode:
        said = said.strip().rpartition("\n")[-1]
        raise ConfigError(f"{problem} ({said})" if said else problem)
    return printed.strip()


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
            status = agent.wait()
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").strip().splitlines()
            said = clean(lines[-1], keep="") if lines else "it printed nothing"
        except msgspec.DecodeError as error:
            raise ConfigError(OTHER_VERSIONS) from error
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
