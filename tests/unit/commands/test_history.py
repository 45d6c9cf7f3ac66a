"""`gpu-report history` on bundles as `gpu-report pack --out` writes them."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_report.bundles.packing import pack
from gpu_report.cli import main
from gpu_report.records.calibration import CALIBRATION_FILE
from gpu_report.tables.history import HISTORY
from tests.factories import ENVIRONMENT, make_record
from tests.machine_results import make_plain_calibration, write_run

UNET = "unet-64px-cpu-b8-w0-fp32-e3x6"
CNN = "cnn-cpu-b64-w0-fp32-e3"
SESSIONS = 16
CHANGE = 8


def write_bundle(
    target: Path, speeds: Mapping[str, float], *, day: int, machine: str = "xeon-2c", **options: Any
) -> None:
    results = target.parent / "unpacked" / machine
    for slug, speed in speeds.items():
        at = f"2026-03-{day + 1:02}T10:00:00Z"
        record = make_record(
            slug, machine=machine, measured_at=at, throughput_per_s=speed, **options
        )
        write_run(results / "runs" / slug, record)
    CALIBRATION_FILE.write(make_plain_calibration(machine, ["cpu"]), results / "calibration.json")
    pack(results, target, machine=machine, study="default", with_traces=False)
    shutil.rmtree(results.parent)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """U-Net becomes 5 % slower with another PyTorch; the image CNN does not. One bundle is in a
    folder below.
    """
    folder = tmp_path_factory.mktemp("history")
    (folder / "older").mkdir()
    for day in range(SESSIONS):
        noise = 1 + 0.004 * (-1) ** day
        speeds = {UNET: 200 * noise * (0.95 if day >= CHANGE else 1), CNN: 900 * noise}
        torch = "2.12.0" if day >= CHANGE else "2.11.0"
        name = f"{'older/' if day == 0 else ''}{day}.tar.xz"
        write_bundle(folder / name, speeds, day=day, environment={**ENVIRONMENT, "torch": torch})
    return folder


@pytest.fixture
def bundles(packed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(packed, tmp_path / "bundles")


def test_a_change_is_shown_at_its_session_with_what_changed(
    bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", str(bundles), "--out", str(tmp_path / "shown")]) == 0

    lines = capsys.readouterr().out.splitlines()
    place = next(index for index, line in enumerate(lines) if line.startswith(UNET))
    assert f"2026-03-{CHANGE + 1:02}" in lines[place + 1]
    assert "PyTorch 2.11.0 to 2.12.0" in lines[place + 1]
    assert max(map(len, lines)) <= 120
    rows = HISTORY.read_rows(tmp_path / "shown" / "history.csv")
    assert len(rows) == 2 * SESSIONS
    assert [row["variant"] for row in rows if row["is_change_point"]] == [UNET]
    assert (tmp_path / "shown" / "history.pdf").read_bytes().startswith(b"%PDF")


def test_only_the_configurations_that_are_named_are_shown(
    bundles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", str(bundles), CNN]) == 0

    shown = capsys.readouterr().out
    assert CNN in shown
    assert UNET not in shown


def test_a_configuration_in_no_bundle_is_an_error(
    bundles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", str(bundles), "absent"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert "'absent'" in line
    assert UNET in line


def test_each_machine_has_a_table_of_its_own(
    bundles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bundle(bundles / "other.tar.xz", {UNET: 400.0}, day=1, machine="xeon-4c")

    assert main(["history", str(bundles), UNET]) == 0

    first, second = capsys.readouterr().out.strip().split("\n\n")
    assert "xeon-2c" in first
    assert "xeon-4c" in second
    assert "too few" in second
    assert "too few" not in first


def test_a_damaged_bundle_is_named_and_the_others_are_shown(
    bundles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in (
        ("3.tar.xz", b"no archive"),
        ("4.tar.xz", (bundles / "4.tar.xz").read_bytes()[:2000]),
    ):
        (bundles / name).write_bytes(content)

    assert main(["history", str(bundles)]) == 2

    shown = capsys.readouterr()
    named = shown.err.splitlines()
    assert len(named) == 3
    assert "3.tar.xz" in named[0]
    assert "4.tar.xz" in named[1]
    assert UNET in shown.out


def test_nothing_but_damaged_bundles_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "damaged.tar.xz").write_bytes(b"")

    assert main(["history", str(tmp_path), "--out", str(tmp_path / "shown")]) == 2

    assert "damaged.tar.xz" in capsys.readouterr().err
    assert not (tmp_path / "shown").exists()


@pytest.mark.parametrize("folder", ["", "absent"])
def test_a_folder_without_bundles_is_one_line(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", str(tmp_path / folder)]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert "no bundles" in line


def test_the_columns_of_its_table_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["columns", "history"]) == 0

    assert "change_ratio" in capsys.readouterr().out
