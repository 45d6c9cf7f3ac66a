"""Which code measured."""

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from gpu_report import __version__
from gpu_report.records import provenance
from gpu_report.records.provenance import (
    MEASURES_ALIKE,
    code_digest,
    find_provenance,
    measures_alike,
    why_no_commit,
)


def test_the_digest_needs_no_pytorch() -> None:
    program = (
        "import sys, gpu_report.records.provenance as p; p.code_digest(); sys.exit('torch' in "
        "sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_change_of_the_measuring_code_is_declared() -> None:
    assert code_digest() in MEASURES_ALIKE, (
        "the code that measures has changed: raise study.PROTOCOL_VERSION and begin "
        "provenance.MEASURES_ALIKE anew, or show with `python -m benchmarks.same_measuring` that "
        "it measures alike and add the digest"
    )


def test_code_that_measures_alike_is_the_same_code_and_any_other_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provenance, "MEASURES_ALIKE", frozenset({"newest", "listed"}))

    assert measures_alike("newest", "listed")
    assert measures_alike("another", "another")
    assert not measures_alike("newest", "another")
    assert not measures_alike("another", "older")


STEP = """
def step(batch):
    total = batch + 1
    return f"{total:.2f}", 'one'
"""


@pytest.mark.parametrize(
    ("edited", "is_alike"),
    [
        ('"""A step."""\n' + STEP, True),
        (STEP.replace("batch):", 'batch):\n    """The total of a batch."""'), True),
        (STEP.replace("batch + 1", "(\n        batch + 1  # and one\n    )"), True),
        (STEP.replace("'one'", '"on" "e"'), True),
        (STEP.replace("1", "1.0"), False),
        (STEP.replace(".2f", ".3f"), False),
    ],
)
def test_layout_comments_and_docstrings_of_python_leave_the_digest_and_all_else_changes_it(
    package: Path, edited: str, *, is_alike: bool
) -> None:
    (package / "measure").mkdir()
    (package / "measure/step.py").write_text(STEP, "utf-8")
    before = code_digest.__wrapped__()

    (package / "measure/step.py").write_text(edited, "utf-8")

    assert (code_digest.__wrapped__() == before) == is_alike


def test_an_edit_to_what_measures_or_is_measured_changes_the_digest_and_to_what_shows_results_not(
    package: Path,
) -> None:
    sources = ["measure/step.py", "workloads/lines/loops.cu", "workloads/lines/loops.h"]
    shown = "writing/words.py"
    for name in (*sources, shown):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("FIRST = None\n", "utf-8")
    digests = [code_digest.__wrapped__()]
    for name in sources:
        (package / name).write_text("SECOND = None\n", "utf-8")
        digests.append(code_digest.__wrapped__())
    (package / shown).write_text("SECOND = None\n", "utf-8")

    assert len({*digests}) == len(digests)
    assert code_digest.__wrapped__() == digests[-1]


def test_provenance_names_version_time_and_commit_together_with_its_state() -> None:
    found = find_provenance("gpu_report.workloads.cnn:Cnn")
    assert found.package_version == __version__
    assert datetime.fromisoformat(found.measured_at).tzinfo is not None
    assert (found.git_commit is None) == (found.git_dirty is None)


def commit_all(folder: Path) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (
        ["init"],
        ["add", "."],
        [*identity, "commit", "--allow-empty", "--message", "all"],
    ):
        subprocess.run(["git", "-C", str(folder), *command], check=True, capture_output=True)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of which git knows nothing yet."""
    package = tmp_path / "project/package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setattr(provenance, "_PACKAGE", package)
    return package


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to give a folder away"
)
def test_a_checkout_that_git_refuses_says_what_to_type(package: Path) -> None:
    commit_all(package.parent)
    for path in (package.parent, *package.parent.rglob("*")):
        os.chown(path, 65534, 65534)

    assert f"git config --global --add safe.directory {package.parent}" in why_no_commit()
    assert "\n" not in why_no_commit()
    assert find_provenance().git_commit is None


def test_each_other_reason_is_said_in_a_line(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_repository = why_no_commit()
    subprocess.run(["git", "-C", str(package), "init"], check=True, capture_output=True)
    without_commit = why_no_commit()
    monkeypatch.setenv("PATH", str(package))
    without_git = why_no_commit()

    reasons = [without_repository, without_commit, without_git]
    assert all(reasons)
    assert len({*reasons}) == len(reasons)
    assert not any("\n" in reason for reason in reasons)


def test_a_dirty_tree_names_tracked_changes_anywhere_and_new_files_beside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "src/gpu_report"
    package.mkdir(parents=True)
    bundle = tmp_path / "results/published/machine.tar.xz"
    bundle.parent.mkdir(parents=True)
    for file in (package / "__init__.py", tmp_path / "README.md", tmp_path / "gone.md", bundle):
        file.touch()
    commit_all(tmp_path)
    monkeypatch.setattr(provenance, "_PACKAGE", package)

    bundle.write_bytes(b"packed anew")
    clean = find_provenance()
    (tmp_path / "README.md").write_text("changed", "utf-8")
    (tmp_path / "gone.md").unlink()
    (tmp_path / "notes.txt").touch()
    (package / "new file.py").touch()
    dirty = find_provenance()

    assert (clean.is_clean, clean.changed_files) == (True, [])
    assert (dirty.is_clean, dirty.changed_files) == (
        False,
        ["README.md", "gone.md", "src/gpu_report/new file.py"],
    )


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_workload_that_no_commit_holds_makes_the_tree_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_ignored: bool
) -> None:
    package, workloads = tmp_path / "src/gpu_report", tmp_path / "uncommitted_workloads"
    for folder in (package, workloads):
        folder.mkdir(parents=True)
    (package / "__init__.py").touch()
    ignored = tmp_path / ".gitignore"
    ignored.write_text("uncommitted_workloads" * is_ignored, "utf-8")
    commit_all(tmp_path)
    monkeypatch.setattr(provenance, "_PACKAGE", package)
    monkeypatch.syspath_prepend(str(tmp_path))
    (workloads / "nets.py").touch()

    uncommitted = find_provenance("uncommitted_workloads.nets:Own")
    ignored.write_text("", "utf-8")
    commit_all(tmp_path)
    committed = find_provenance("uncommitted_workloads.nets:Own")

    assert uncommitted.changed_files == ["uncommitted_workloads/nets.py"]
    assert committed.changed_files == []


@pytest.mark.parametrize("has_init_files", [True, False])
@pytest.mark.parametrize("class_path", ["own_workload:Own", "own_package.inner.own_workload:Own"])
def test_an_edit_to_a_workload_of_ones_own_changes_its_digest_and_nothing_is_imported_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, class_path: str, *, has_init_files: bool
) -> None:
    module = tmp_path.joinpath(*class_path.partition(":")[0].split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True, exist_ok=True)
    for package in [module.parent, *module.parent.parents]:
        if has_init_files and package.is_relative_to(tmp_path) and package != tmp_path:
            (package / "__init__.py").write_text("raise AssertionError('imported')", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_workload", raising=False)  # another test's
    digests = set()
    for learning_rate in (0.1, 0.2):
        module.write_text(
            f"raise AssertionError('imported')\nLEARNING_RATE = {learning_rate}\n", "utf-8"
        )
        digests.add(find_provenance(class_path).workload_digest)

    assert "" not in digests
    assert len(digests) == 2
