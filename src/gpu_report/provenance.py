"""Which code measures: the package's version, its commit, and a digest of everything that decides a measured number."""

import hashlib
import os
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from gpu_report import __version__
from gpu_report.records import Provenance

_PACKAGE: Final = Path(__file__).resolve().parent
_MEASURING: Final = ("measure", "workloads")


def find_provenance() -> Provenance:
    """The code in hand, with the present time as that of the measurement."""
    commit = _git("rev-parse", "HEAD") if _is_tracked() else None
    changes = _git("status", "--porcelain", "--", ".") if commit else None
    return Provenance(
        measured_at=utc_now(),
        package_version=__version__,
        git_commit=commit,
        git_dirty=None if changes is None else bool(changes),
        code_digest=code_digest(),
    )


def utc_now() -> str:
    """The time now as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def code_digest() -> str:
    """SHA-256 over the names and contents of the Python files that measure and that are measured."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in _MEASURING for path in (_PACKAGE / folder).rglob("*.py")):
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def _is_tracked() -> bool:
    """Whether git knows this file: a package installed below some other project must not report that one's commit."""
    return bool(_git("ls-files", "--", Path(__file__).name))


def _git(*arguments: str) -> str | None:
    # A lock taken only to refresh git's index would make another git command of the user fail.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(_PACKAGE), *arguments]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10, env=environment, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
