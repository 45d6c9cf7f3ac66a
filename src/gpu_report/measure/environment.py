"""The software and hardware a number was measured with, as found.

The host's part is known without PyTorch; the device's part is asked by the process that trains on
it.
"""

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import archspec.cpu
import psutil

from gpu_report.measure.run import EnvironmentValue
from gpu_report.records.record import OTHER_JOBS, OTHER_JOBS_ALLOWED
from gpu_report.study.cluster import JOB, job_facts
from gpu_report.study.control_groups import cpu_quota
from gpu_report.study.machine import core_count, cpu_model, package_version

if TYPE_CHECKING:
    import torch

_GIB: Final = 2**30
_CPUINFO: Final = Path("/proc/cpuinfo")
_NVIDIA_DRIVER: Final = Path("/proc/driver/nvidia/version")


def host_environment() -> dict[str, EnvironmentValue]:
    """Python, packages, operating system, memory, the processor and the cores that this process may
    use.

    Where a control group limits its CPU time, the quota as well, in cores. In a job of Slurm the
    name of the host, as nodes that are one machine by their hardware may still differ, and whether
    other jobs may run on the node.
    """
    sharing, quota = job_facts().get("OverSubscribe"), cpu_quota()
    return {
        **({"host": platform.node()} if JOB in os.environ else {}),
        # NO is what --exclusive makes of it.
        **({OTHER_JOBS: "none" if sharing == "NO" else OTHER_JOBS_ALLOWED} if sharing else {}),
        "python": platform.python_version(),
        **{name: package_version(name) for name in ("torch", "torchvision", "numpy")},
        "os": _operating_system(),
        "kernel": platform.release(),
        "cpu_model": cpu_model(),
        "cpu_microarchitecture": archspec.cpu.host().name.replace("_", " "),
        "cpu_sockets": _sockets(),
        "cpu_cores": core_count(),
        **({} if quota is None else {"cpu_quota": quota}),
        "memory_gib": round(psutil.virtual_memory().total / _GIB, 1),
    }


def device_environment(device: "torch.device") -> dict[str, EnvironmentValue]:
    """PyTorch's build and threads, and on an accelerator its name, libraries and driver; touches
    the device.
    """
    import torch

    from gpu_report.measure.probe import describe_accelerator

    found: dict[str, EnvironmentValue] = {
        # A plain string: unpickling the version object would import PyTorch, beside a running
        # training.
        "torch": str(torch.__version__),
        "torch_threads": torch.get_num_threads(),
        "cpu_instructions": torch.backends.cpu.get_cpu_capability(),
    }
    if device.type != "cpu":
        described = describe_accelerator(device.type, device.index or 0)
        found |= {
            "accelerator": described["name"],
            "accelerator_memory_gib": described["memory_gib"],
        }
    if device.type == "cuda":
        found |= {
            "cuda": torch.version.cuda or torch.version.hip,
            "cudnn": _cudnn_version(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
            "driver": _nvidia_driver(),
        }
    return found


def _sockets() -> int | None:
    """How many processors the host has, of however many cores; None where Linux does not say."""
    if not _CPUINFO.exists():
        return None
    found = re.findall(r"^physical id\s*:\s*(\d+)$", _CPUINFO.read_text("utf-8"), re.MULTILINE)
    return len({*found}) or None


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _cudnn_version(number: int | None) -> str | None:
    """Version 9 and later count as 10000 x major + 100 x minor + patch; 91900 is 9.19.0."""
    return None if number is None else f"{number // 10_000}.{number % 10_000 // 100}.{number % 100}"


def _nvidia_driver() -> str | None:
    """From the kernel module; asking nvidia-smi costs a second, and is for where the module's file
    is not shown.
    """
    if _NVIDIA_DRIVER.exists():
        match = re.search(r"\b\d{3,}\.\d+(?:\.\d+)?\b", _NVIDIA_DRIVER.read_text("utf-8"))
        return match.group() if match else None
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip().partition("\n")[0] or None
