"""What cannot be built says why, and what was built is kept."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpu_report.kernels import building
from gpu_report.kernels.building import NoCompilerError, cpu_rungs, cuda_rungs


@pytest.mark.parametrize("missing", ["C++ compiler", "ninja"])
def test_without_a_compiler_the_reason_is_told(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None if missing == "C++ compiler" else "c++")
    monkeypatch.setattr("torch.utils.cpp_extension.is_ninja_available", lambda: False)

    with pytest.raises(NoCompilerError, match=f"no {missing.replace('+', '[+]')}"):
        cpu_rungs.__wrapped__()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_cuda_device_the_reason_is_told() -> None:
    with pytest.raises(NoCompilerError, match="no CUDA device"):
        cuda_rungs.__wrapped__()


def test_without_nvcc_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(building, "_nvcc", lambda: None)

    with pytest.raises(NoCompilerError, match="no CUDA compiler"):
        cuda_rungs.__wrapped__()


@pytest.mark.slow
def test_what_was_built_is_not_built_again(tmp_path: Path) -> None:
    require_compiler()

    first, second = (built_in(tmp_path) for _ in range(2))

    assert first == second


def require_compiler() -> None:
    try:
        cpu_rungs()
    except NoCompilerError as reason:
        pytest.skip(str(reason))


def built_in(folder: Path) -> dict[str, int]:
    """Each library in the cache with the moment it was written, by a process of its own: PyTorch loads it once."""
    command = [sys.executable, "-c", "from gpu_report.kernels.building import cpu_rungs; cpu_rungs().fused"]
    subprocess.run(command, env={**os.environ, "XDG_CACHE_HOME": str(folder)}, check=True)
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.so")}
