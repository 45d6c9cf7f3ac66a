"""The control groups of Linux that this process is in, which may leave it less than the machine has."""

from contextlib import suppress
from pathlib import Path
from typing import Final

_PROCESS: Final = Path("/proc/self")
_QUOTA: Final = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
"""Files with the microseconds of CPU time in a period, and the period's: the first of version 2, the others of 1."""


def group_folders(controller: str, process: Path = _PROCESS) -> list[Path]:
    """Folders of the group that limits this resource, such as `memory`, and of the groups around it, innermost first.

    A container may see only a part of the groups' tree, and its own group at the top of that part. Not every folder
    exists, nor has each the controller's files. There are none on a system without control groups.
    """
    try:
        mounts, groups = ((process / name).read_text("utf-8").splitlines() for name in ("mountinfo", "cgroup"))
    except OSError:
        return []
    # Version 2 names no controllers.
    group_by_controller = {
        name: Path(group) for _, names, group in (line.split(":", 2) for line in groups) for name in names.split(",")
    }
    folders: list[Path] = []
    for line in mounts:
        where, _, what = line.partition(" - cgroup")
        version, _, options = [*what.split(" "), "", ""][:3]
        group = group_by_controller.get("" if version == "2" else controller)
        if group and (version == "2" or controller in options.split(",")):
            shown, mount = map(Path, where.split(" ")[3:5])
            below = group.relative_to(shown) if group.is_relative_to(shown) else Path()
            folders += [mount / each for each in (below, *below.parents)]
    return folders


def cpu_quota(process: Path = _PROCESS) -> float | None:
    """How many cores' time the control groups leave this process, the smallest of their quotas; None without one."""
    said: list[list[str]] = []
    for folder in group_folders("cpu", process):
        with suppress(OSError):  # what a container may not read limits it, but does not say by how much
            files = [folder / name for name in _QUOTA]
            said.append(" ".join(file.read_text("ascii") for file in files if file.exists()).split())
    # Without a quota they say max or -1.
    return min((int(words[0]) / int(words[1]) for words in said if words and words[0].isdecimal()), default=None)
