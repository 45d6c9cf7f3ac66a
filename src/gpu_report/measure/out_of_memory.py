"""Whether the kernel ended a process because memory ran out."""

import re
from pathlib import Path
from typing import Final

_VMSTAT: Final = Path("/proc/vmstat")
_OWN_GROUPS: Final = Path("/proc/self/cgroup")
_GROUPS: Final = Path("/sys/fs/cgroup")
_COUNT: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


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
