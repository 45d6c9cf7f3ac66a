"""What cannot be built says why, and what was built is kept."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_report.workloads.linear_regression import building
from gpu_report.workloads.linear_regression.building import NoCompilerError, cpu_loops

_BUILD = """
import sys
from pathlib import Path
from gpu_report.workloads.linear_regression.building import _build
_build("tried", [Path(sys.argv[1])], depends_on=())
"""
_NO_OPENMP = """#!/bin/sh
case "$*" in *openmp*) echo "error: unsupported option '-fopenmp'" >&2; exit 1;; esac
"""


@pytest.mark.parametrize("missing", ["C++ compiler", "ninja"])
def test_without_a_compiler_the_reason_is_given(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shutil, "which", lambda *_, **__: None if missing == "C++ compiler" else "c++"
    )
    monkeypatch.setattr("torch.utils.cpp_extension.is_ninja_available", lambda: False)

    with pytest.raises(NoCompilerError, match=f"no {missing.replace('+', '[+]')}"):
        cpu_loops.__wrapped__()


def test_with_a_compiler_that_has_no_openmp_the_reason_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", compiler_of(tmp_path, _NO_OPENMP))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("torch.utils.cpp_extension.is_ninja_available", lambda: True)

    with pytest.raises(NoCompilerError, match=r"the C\+\+ compiler has no OpenMP"):
        cpu_loops.__wrapped__()

    assert not (tmp_path / "cache").exists()


def test_a_lock_that_a_killed_build_left_behind_is_removed_before_the_next_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "lock").touch()

    with building._alone_in(tmp_path):
        assert not (tmp_path / "lock").exists()


def test_one_process_builds_and_others_wait_until_it_is_done(tmp_path: Path) -> None:
    with (tmp_path / "building").open("w") as other:
        with building._alone_in(tmp_path), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.slow
def test_a_killed_build_does_not_block_the_next_one_and_what_that_built_is_not_built_again(
    tmp_path: Path,
) -> None:
    require_compiler()
    source = tmp_path / "tried.cpp"
    source.write_text("int number() { return 1; }\n", "ascii")
    kill_a_build_of(source, tmp_path)
    assert list(tmp_path.rglob("lock"))

    first, second = (built_in(tmp_path, source) for _ in range(2))

    assert [*first] == ["tried.so"]
    assert first == second


def require_compiler() -> None:
    try:
        cpu_loops()
    except NoCompilerError as reason:
        pytest.skip(str(reason))


def built_in(folder: Path, source: Path) -> dict[str, int]:
    """Each library in the cache with the moment it was written, by a process of its own: PyTorch
    loads it once.
    """
    subprocess.run(
        building_of(source), env=environment(folder), check=True, capture_output=True, timeout=120
    )
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.so")}


def environment(cache: Path, **changes: str) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(cache), **changes}


def compiler_of(folder: Path, script: str) -> str:
    compiler = folder / "compiler"
    compiler.write_text(script, "ascii")
    compiler.chmod(0o755)
    return str(compiler)


def building_of(source: Path) -> list[str]:
    return [sys.executable, "-c", _BUILD, str(source)]


def kill_a_build_of(source: Path, cache: Path) -> None:
    """With a compiler that never ends, once PyTorch has left its lock in the folder of the
    build.
    """
    never_ends = compiler_of(cache, "#!/bin/sh\nexec sleep 600\n")
    build = subprocess.Popen(
        building_of(source),
        env=environment(cache, CXX=never_ends),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(cache.rglob("lock")):
        assert build.poll() is None, "the build ended before it took the lock"
        assert time.monotonic() < deadline, "the build did not begin"
        time.sleep(0.05)
    os.killpg(build.pid, signal.SIGKILL)
    build.wait()
