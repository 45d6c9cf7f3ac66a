"""Linux control groups of this process, which may give it less than the machine has."""

from contextlib import suppress
from pathlib import Path
from typing import Final

_PROCESS: Final = Path("/proc/self")
_QUOTA: Final = ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
"""Files with the CPU time per period and the period, in microseconds: the first in version 2, the
others in 1.
"""


def group_folders(controller: str, process: Path = _PROCESS) -> list[Path]:
    """Folders of the group that limits this resource, such as `memory`, and of the groups around
    it, innermost first.

    A container may see only a part of the groups' tree, and its own group at the top of that part.
    Some folders do not exist or lack the controller's files. There are none on a system without
    control groups.
    """
    try:
        mounts, groups = (
            (process / name).read_text("utf-8").splitlines() for name in ("mountinfo", "cgroup")
        )
    except OSError:
        return []
    # Version 2 names no controllers.
    group_by_controller = {
        name: Path(group)
        for _, names, group in (line.split(":", 2) for line in groups)
        for name in names.split(",")
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
    """The CPU quota of this process in cores, the smallest of its control groups; None
    without one.
    """
    said: list[list[str]] = []
    for folder in group_folders("cpu", process):
        with suppress(
            OSError
        ):  # a file that a container may not read still limits it, by an unknown amount
            files = [folder / name for name in _QUOTA]
            said.append(
                " ".join(file.read_text("ascii") for file in files if file.exists()).split()
            )
    # Without a quota, the files say max or -1.
    return min(
        (int(words[0]) / int(words[1]) for words in said if words and words[0].isdecimal()),
        default=None,
    )
