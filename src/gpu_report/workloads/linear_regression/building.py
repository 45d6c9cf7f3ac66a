"""Builds the C++ and CUDA sources beside this file where there is a compiler, once for each
content.

sources -> digest of sources, PyTorch and devices -> folder in the user's cache -> operators of
PyTorch
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch

from gpu_report.errors import GpuReportError

SOURCES: Final = Path(__file__).parent
_COMPLAINTS: Final = ("undefined reference", "cannot find", "error:")
_OPTIMIZE: Final = "-O3"
_NATIVE: Final = "-march=native"
_OPENMP: Final = "-fopenmp"
_OPENMP_PROGRAM: Final = "#include <omp.h>\nint main() { return omp_get_max_threads() == 0; }\n"
_LONGEST_REASON: Final = 300
_LEAST_RELEASE: Final = (12, 3)
_LEAST_CAPABILITY: Final = (7, 0)
"""Of the CUDA compiler and of the GPU: the first with loads and stores of 16 bytes at once (PTX ISA
8.3).
"""
_RELEASE: Final = re.compile(r"release (\d+)\.(\d+)")


class NoCompilerError(GpuReportError):
    """A compiler is missing, so that a loop in C++ or CUDA is skipped; the message is the
    reason.
    """


class BuildError(Exception):
    """The sources do not compile. Not a GpuReportError: the variant is recorded as failed and the
    study goes on.
    """


@cache
def cuda_loops() -> Any:
    """The loops in CUDA C++, for the GPUs that are visible.

    Raises:
        NoCompilerError: there is no CUDA compiler, no C++ compiler or no ninja, or compiler or GPU
            is too old.
        BuildError: the sources do not compile.
    """
    if not torch.cuda.is_available():
        raise NoCompilerError("no CUDA device")
    nvcc = _nvcc()
    if nvcc is None:
        raise NoCompilerError("no CUDA compiler")
    _require_host_compiler()
    sources = sorted([*SOURCES.glob("*.cu"), SOURCES / "bindings.cpp"])
    headers = sorted([*SOURCES.glob("*.cuh"), *SOURCES.glob("*.h")])
    capabilities = sorted(
        {torch.cuda.get_device_capability(number) for number in range(torch.cuda.device_count())}
    )
    _require_atomic_messages(nvcc, capabilities)
    depends_on = (
        *map(_contents, headers),
        str(capabilities),
        os.environ.get("TORCH_CUDA_ARCH_LIST", ""),
    )
    _build(
        "gpu_report_cuda_loops", sources, depends_on=(*depends_on, _output_of(nvcc, "--version"))
    )
    return torch.ops.gpu_report_cuda


@cache
def cpu_loops() -> Any:
    """The loop in C++ with OpenMP.

    Raises:
        NoCompilerError: there is no C++ compiler, it has no OpenMP, or there is no ninja.
        BuildError: the source does not compile.
    """
    _require_host_compiler()
    _require_openmp()
    # Its own macros say which compiler it is, and what instructions `native` stands for.
    native = _output_of(_host_compiler(), _NATIVE, "-dM", "-E", "-x", "c++", os.devnull)
    _build(
        "gpu_report_cpu_loops",
        [SOURCES / "fused_cpu.cpp"],
        depends_on=(native,),
        flags=(_NATIVE, _OPENMP),
    )
    return torch.ops.gpu_report_cpu


def _nvcc() -> str | None:
    from torch.utils.cpp_extension import CUDA_HOME

    return shutil.which("nvcc") or (
        shutil.which("nvcc", path=str(Path(CUDA_HOME) / "bin")) if CUDA_HOME else None
    )


def _require_host_compiler() -> None:
    from torch.utils.cpp_extension import is_ninja_available

    if shutil.which(_host_compiler()) is None:
        raise NoCompilerError("no C++ compiler")
    if not is_ninja_available():
        raise NoCompilerError("no ninja")


def _host_compiler() -> str:
    return os.environ.get("CXX", "c++")


def _require_openmp() -> None:
    """Apple's compiler, for one, comes without."""
    command = [_host_compiler(), _OPENMP, "-x", "c++", "-", "-o", os.devnull]
    if subprocess.run(
        command, input=_OPENMP_PROGRAM, text=True, capture_output=True, check=False
    ).returncode:
        raise NoCompilerError("the C++ compiler has no OpenMP")


def _require_atomic_messages(nvcc: str, capabilities: Sequence[tuple[int, int]]) -> None:
    """Refuse a compiler or a GPU without the 16-byte messages of the persistent kernel."""
    if capabilities[0] < _LEAST_CAPABILITY:
        raise NoCompilerError("a GPU older than compute capability 7.0")
    release = _RELEASE.search(_output_of(nvcc, "--version"))
    if release is not None and tuple(map(int, release.groups())) < _LEAST_RELEASE:
        raise NoCompilerError("a CUDA compiler older than 12.3")


def _output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _build(
    name: str, sources: Sequence[Path], *, depends_on: Sequence[str], flags: Sequence[str] = ()
) -> None:
    from torch.utils import cpp_extension

    parts = "\0".join([torch.__version__, *flags, *depends_on, *map(_contents, sources)])
    folder = _cache_folder() / f"{name}-{hashlib.sha256(parts.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _alone_in(folder):
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
        raise BuildError(f"cannot build {name} in {folder}: {_reason(error)}") from error


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One process builds, others wait. PyTorch's own lock, a file, outlives a build that was
    killed, and is removed.
    """
    with (folder / "building").open("w") as file:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        (folder / "lock").unlink(missing_ok=True)
        yield


def _reason(error: BaseException) -> str:
    """The compiler's first complaint; all of them are in what PyTorch says."""
    lines = str(error).splitlines() or [type(error).__name__]
    found = (line for sign in _COMPLAINTS for line in lines if sign in line)
    return next(found, lines[0]).strip()[:_LONGEST_REASON]


def _contents(path: Path) -> str:
    return f"{path.name}\0{path.read_text('utf-8')}"


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpu-report"
