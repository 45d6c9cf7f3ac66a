"""How much of the machine the control groups leave this process."""

from pathlib import Path

import pytest

from gpu_report.study.control_groups import cpu_quota, group_folders

VERSION_1 = "34 24 0:30 {shown} {mount} rw,nosuid - cgroup cgroup rw,cpu,cpuacct"
VERSION_2 = "35 24 0:31 {shown} {mount} rw,nosuid shared:4 - cgroup2 cgroup2 rw"
OTHER_MOUNTS = "24 1 0:22 / / rw - overlay  rw\n25 24 0:22 / /x rw - tmpfs cgroup rw"


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    """Where the control groups are mounted."""
    folder = tmp_path / "cgroup"
    folder.mkdir()
    return folder


def process(mount: Path, mounted: str, group: str, *, shown: str = "/") -> Path:
    """What the kernel says of a process in this group, of a mount that shows the groups below
    `shown`.
    """
    folder = mount.parent / "self"
    folder.mkdir()
    (folder / "mountinfo").write_text(
        f"{OTHER_MOUNTS}\n{mounted.format(mount=mount, shown=shown)}\n", "utf-8"
    )
    (folder / "cgroup").write_text(
        f"9:name=systemd:/elsewhere\n4:memory:/elsewhere\n{group}\n", "utf-8"
    )
    return folder


def limit(folder: Path, *, version: int, quota_us: int | None) -> None:
    """Allow a group so much of every 100 ms; None is no limit."""
    folder.mkdir(parents=True, exist_ok=True)
    if version == 2:
        (folder / "cpu.max").write_text(f"{quota_us or 'max'} 100000\n", "ascii")
    else:
        (folder / "cpu.cfs_quota_us").write_text(f"{quota_us or -1}\n", "ascii")
        (folder / "cpu.cfs_period_us").write_text("100000\n", "ascii")


@pytest.mark.parametrize(
    ("version", "mounted", "group"), [(1, VERSION_1, "3:cpu,cpuacct:"), (2, VERSION_2, "0::")]
)
@pytest.mark.parametrize(
    ("limits", "own", "shown", "quota"),
    [
        ({"pod": 350_000, "pod/container": 400_000, "pod/container/own": None},
         "/pod/container/own", "/", 3.5),
        ({"own": None}, "/own", "/", None),
        ({"": 400_000, "own": 200_000}, "/docker/7/own", "/docker/7", 2),
        ({"": 50_000}, "/docker/7", "/another", 0.5),
    ],
    ids=["nested", "no limit", "sees its own groups alone", "not shown by the mount"],
)  # fmt: skip
def test_the_smallest_limit_of_a_group_and_those_around_it_counts(
    mount: Path,
    version: int,
    mounted: str,
    group: str,
    limits: dict[str, int | None],
    own: str,
    shown: str,
    quota: float | None,
) -> None:
    for folder, quota_us in limits.items():
        limit(mount / folder, version=version, quota_us=quota_us)

    assert cpu_quota(process(mount, mounted, f"{group}{own}", shown=shown)) == quota


def test_other_controllers_of_version_1_are_elsewhere(mount: Path) -> None:
    assert group_folders("memory", process(mount, VERSION_1, "3:cpu,cpuacct:/own")) == []


def test_a_limit_that_cannot_be_read_leaves_those_around_it(mount: Path) -> None:
    limit(mount / "pod", version=2, quota_us=200_000)
    (mount / "pod/own/cpu.max").mkdir(parents=True)

    assert cpu_quota(process(mount, VERSION_2, "0::/pod/own")) == 2


def test_a_system_without_control_groups_limits_nothing(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "missing") is None
