"""Memory that ran out: what was asked for and what there was, and whether the kernel ended a process for it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from gpu_report.records import OutOfMemory

_MIB: Final = 2**20
_ASKED: Final = re.compile(r"tried to allocate (\d+(?:\.\d+)?) (bytes|KiB|MiB|GiB|TiB)\b", re.IGNORECASE)
_BYTES: Final[Mapping[str, int]] = {"bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_VMSTAT: Final = Path("/proc/vmstat")
_OWN_GROUPS: Final = Path("/proc/self/cgroup")
_GROUPS: Final = Path("/sys/fs/cgroup")
_COUNT: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def asked_mib(message: str) -> float | None:
    """The allocation that PyTorch says it tried, as on the CPU `you tried to allocate 1024 bytes`."""
    match = _ASKED.search(message)
    return round(float(match[1]) * _BYTES[match[2].lower()] / _MIB, 3) if match else None


def host_out_of_memory(message: str = "") -> OutOfMemory:
    """What a message says was asked for, and what the machine has now."""
    memory = psutil.virtual_memory()
    return OutOfMemory(
        asked_mib=asked_mib(message),
        free_mib=round(memory.available / _MIB, 1),
        total_mib=round(memory.total / _MIB, 1),
    )


def read_oom_kills() -> int:
    """Processes the kernel has killed for want of memory so far, in all places that count them and can be read.

    The sum has no meaning of its own: a rise between two readings is the evidence.
    """
    return sum(_count_in(path) for path in (_VMSTAT, *_group_files()))


def _group_files() -> list[Path]:
    """The counters of this process's control group: `memory.events` of version 2, `memory.oom_control` of version 1."""
    if not _OWN_GROUPS.exists():
        return []
    files = []
    for line in _OWN_GROUPS.read_text("utf-8").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            files.append(_GROUPS / group.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            files.append(_GROUPS / "memory" / group.lstrip("/") / "memory.oom_control")
    return files


def _count_in(path: Path) -> int:
    try:
        match = _COUNT.search(path.read_text("utf-8"))
    except OSError:
        return 0
    return int(match.group(1)) if match else 0
