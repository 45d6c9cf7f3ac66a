"""Which code measures: the package's version, its commit, and a digest of everything that decides a
measured number.
"""

import ast
import hashlib
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import gpu_report
from gpu_report.records.record import Provenance, Record
from gpu_report.study.machine import boot, hardware_words
from gpu_report.study.modules import OUR_WORKLOADS, find_module

_PACKAGE: Final = Path(gpu_report.__file__).resolve().parent
_MEASURING: Final = ("measure", "workloads")
MEASURES_ALIKE: Final = frozenset(
    {
        "ed7dd615ef701873620e9b36e9a0967b0ef7c493127a53562a8cca6f2ac33375",
        "20b34edd0a3b68300bf2481d026ffa8cf56c1a7c523aaf5dcaa00252f1346297",
        "7c40ef47d4df060f1379178fa037e8f31c2226c12da5bb1bdb0bf9c5ea3a0270",
        "01559c8e1324409e30cd587963899c79f184ac5d061a352acbb365b16f5f8277",
        "c9862085c53de20ef387efb7b8b5f6f0a149abb65f518096f2a8a9a2d1a99c01",
        "250f5692e6db3cb117f1a8932527470c02a9c351ef48990f15933c6ac5fe368b",
    }
)
"""Digests of the measuring code of study.PROTOCOL_VERSION whose numbers may be compared.

A change to the measuring code raises the version and empties the set, unless `python -m
benchmarks.same_measuring` shows that the new code measures alike: then its digest is added.
"""
_MOST_CHANGES: Final = 100
_OURS: Final = "HEAD:./__init__.py"
_NO_ANSWER: Final = (OSError, subprocess.SubprocessError)
_SOURCES: Final = frozenset({".py", ".cu", ".cuh", ".cpp", ".h"})


def find_provenance(class_path: str = "") -> Provenance:
    """The code in hand that measures a workload of this class, with the present time as that of the
    measurement.

    Without a class it measures the machine alone. A workload beside the repository does not
    belong to its state; its digest alone shows a change.
    """
    commit = changes = None
    with suppress(*_NO_ANSWER):
        commit, _, top = _git("rev-parse", "HEAD", _OURS, "--show-toplevel").splitlines()
        uncommitted = {
            file.relative_to(top).as_posix()
            for file in _file_of(class_path)
            if file.is_relative_to(top) and not _git("ls-files", "--", str(file))
        }
        # Results are left out: a bundle that was packed anew changes nothing of what is measured.
        tracked = _git("diff", "--name-only", "-z", "HEAD", "--", ":(top)", ":(top,exclude)results")
        untracked = _git(
            "ls-files",
            "--others",
            "--exclude-standard",
            "--full-name",
            "-z",
            "--",
            str(_PACKAGE.parent),
        )
        changes = sorted(uncommitted.union(f"{tracked}\0{untracked}".split("\0")) - {""})
    return Provenance(
        measured_at=utc_now(),
        boot=boot(),
        package_version=gpu_report.__version__,
        git_commit=commit,
        git_dirty=None if changes is None else bool(changes),
        changed_files=None if changes is None else changes[:_MOST_CHANGES],
        code_digest=code_digest(),
        workload_digest=workload_digest(class_path),
    )


def hardware_name(records: Sequence[Record]) -> str:
    """The hardware that measured these as readers name it, with how many GPUs shared a training;
    empty where no record has it.
    """
    gpus = max(
        (
            variant.devices
            for record in records
            if record.status == "ok" and (variant := record.as_variant()).device_type != "cpu"
        ),
        default=1,
    )
    return hardware_words((record.environment for record in records), gpus=gpus)


def why_no_commit() -> str:
    """Why git names no commit of the current code, and what to type if that helps; empty if it
    names one.

    The commit must contain the package: one that is installed inside another project must not
    report that project's.
    """
    try:
        _git("rev-parse", _OURS)
    except _NO_ANSWER as error:
        said = [line.strip() for line in str(getattr(error, "stderr", None) or error).splitlines()]
        return "; ".join(
            [*said[:1], *(f"type: {line}" for line in said if line.startswith("git config"))]
        )
    return ""


def utc_now() -> str:
    """The time now as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def code_digest() -> str:
    """SHA-256 over the names and contents of the source files that measure and that are measured.

    Of a Python file only its syntax tree counts, so that layout, comments and docstrings can be
    improved freely.
    """
    digest = hashlib.sha256()
    sources = (
        path
        for folder in _MEASURING
        for path in (_PACKAGE / folder).rglob("*")
        if path.suffix in _SOURCES
    )
    for path in sorted(sources):
        content = path.read_bytes()
        if path.suffix == ".py":
            content = repr(_without_prose(ast.parse(content))).encode()
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()}\0".encode())
        digest.update(content + b"\0")
    return digest.hexdigest()


def _without_prose(node: object) -> object:
    """A syntax tree as nested lists without bare strings, and without empty fields, in which Python
    versions differ.
    """
    if isinstance(node, ast.AST):
        fields = (
            (name, value)
            for name, value in ast.iter_fields(node)
            if value is not None and value != []
        )
        return [type(node).__name__, *((name, _without_prose(value)) for name, value in fields)]
    if isinstance(node, list):
        return [
            _without_prose(each)
            for each in node
            if not (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            )
        ]
    return node


def measures_alike(digest: str, other: str) -> bool:
    """Whether the code of one digest measures what that of the other does."""
    return digest == other or {digest, other} <= MEASURES_ALIKE


def workload_digest(class_path: str) -> str:
    """SHA-256 over the file that holds a workload's class, given as `package.module:Class`, without
    importing it.

    Empty without a class, for the workloads of this package, which `code_digest` holds already, and
    where there is no such file.
    """
    return "".join(hashlib.sha256(file.read_bytes()).hexdigest() for file in _file_of(class_path))


def _file_of(class_path: str) -> list[Path]:
    """The file that holds a workload's class; none of this package's own workloads."""
    if not class_path or class_path.startswith(OUR_WORKLOADS):
        return []
    spec = find_module(class_path.partition(":")[0])
    if spec is None or not spec.has_location or spec.origin is None:
        return []
    return [Path(spec.origin).resolve()]


def environment_without_git() -> dict[str, str]:
    """This process's environment without the variables that point git to one repository and index,
    as in a git hook.
    """
    # With this variable, which is one of them, rev-parse does nothing.
    list_them = "unset GIT_INTERNAL_SUPER_PREFIX; git rev-parse --local-env-vars 2>/dev/null"
    local = subprocess.getoutput(list_them).split()
    return {name: value for name, value in os.environ.items() if name not in local}


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(_PACKAGE), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
        # A lock taken only to refresh git's index would make another git command of the user fail.
        env={**environment_without_git(), "GIT_OPTIONAL_LOCKS": "0"},
        errors="replace",
    ).stdout.strip()
