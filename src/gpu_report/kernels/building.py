"""Builds the C++ and CUDA sources beside this file where there is a compiler, once for each content.

sources -> digest of sources, PyTorch and devices -> folder in the user's cache -> operators of PyTorch
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch

from gpu_report.errors import GpuReportError

SOURCES: Final = Path(__file__).parent
_OPTIMIZE: Final = "-O3"


class NoCompilerError(GpuReportError):
    """A compiler is missing, so that a rung written by hand is left out; the message is the reason."""


class BuildError(GpuReportError):
    """A compiler does not take the sources."""


@cache
def cuda_rungs() -> Any:
    """The rungs in CUDA C++, for the GPUs that are visible.

    Raises:
        NoCompilerError: there is no CUDA compiler, no C++ compiler or no ninja.
        BuildError: the sources do not compile.
    """
    if not torch.cuda.is_available():
        raise NoCompilerError("no CUDA device")
    if _nvcc() is None:
        raise NoCompilerError("no CUDA compiler")
    _require_host_compiler()
    sources = sorted([*SOURCES.glob("*.cu"), SOURCES / "bindings.cpp"])
    headers = sorted([*SOURCES.glob("*.cuh"), *SOURCES.glob("*.h")])
    capabilities = sorted({torch.cuda.get_device_capability(number) for number in range(torch.cuda.device_count())})
    _build("gpu_report_cuda_rungs", sources, depends_on=(*map(_contents, headers), str(capabilities)))
    return torch.ops.gpu_report_cuda


@cache
def cpu_rungs() -> Any:
    """The rung in C++ with OpenMP.

    Raises:
        NoCompilerError: there is no C++ compiler or no ninja.
        BuildError: the source does not compile.
    """
    _require_host_compiler()
    _build("gpu_report_cpu_rungs", [SOURCES / "fused_cpu.cpp"], depends_on=(), flags=("-march=native", "-fopenmp"))
    return torch.ops.gpu_report_cpu


def _nvcc() -> str | None:
    from torch.utils.cpp_extension import CUDA_HOME

    return shutil.which("nvcc") or (shutil.which("nvcc", path=str(Path(CUDA_HOME) / "bin")) if CUDA_HOME else None)


def _require_host_compiler() -> None:
    from torch.utils.cpp_extension import is_ninja_available

    if shutil.which(os.environ.get("CXX", "c++")) is None:
        raise NoCompilerError("no C++ compiler")
    if not is_ninja_available():
        raise NoCompilerError("no ninja")


def _build(name: str, sources: Sequence[Path], *, depends_on: Sequence[str], flags: Sequence[str] = ()) -> None:
    from torch.utils import cpp_extension

    parts = "\0".join([torch.__version__, *flags, *depends_on, *map(_contents, sources)])
    folder = _cache_folder() / f"{name}-{hashlib.sha256(parts.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        cpp_extension.load(
            name=name,
            sources=list(map(str, sources)),
            extra_cflags=[_OPTIMIZE, *flags],
            extra_cuda_cflags=[_OPTIMIZE, "-lineinfo"],
            extra_ldflags=list(flags),
            build_directory=str(folder),
            is_python_module=False,
        )
    except (RuntimeError, OSError) as error:
        raise BuildError(f"cannot build {name} in {folder}: {error}") from error


def _contents(path: Path) -> str:
    return f"{path.name}\0{path.read_text('utf-8')}"


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpu-report"
