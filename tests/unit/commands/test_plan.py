"""`gpu-report plan`: what would be measured, here or by jobs of a cluster."""

from pathlib import Path

import pytest

from gpu_report.cli import main
from gpu_report.study.cluster import description_file, read_requests
from gpu_report.study.machine import Machine, write_description
from tests.factories import CONFIG

CI = str((CONFIG.parent / "ci.yaml").resolve())


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a machine of a cluster, of which nothing is known yet."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/machines.yaml").write_text(
        "h100: {partition: gpu, cpus: 16, memory_gib: 64, minutes: 45}\n", "utf-8"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["plan", "--configfile", CI, "--machines", "h100"]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("cluster")
def test_of_an_unknown_machine_the_plan_says_what_the_first_job_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    said = planned(capsys)

    assert "h100" in said
    assert "16 cores" in said
    assert "partition gpu" in said


@pytest.mark.usefixtures("cluster")
def test_of_a_known_machine_it_counts_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    machine = Machine(cpu_model="Xeon", cores=16, memory_gib=64.0)
    write_description(description_file("h100"), read_requests()["h100"].selection, machine)

    said = planned(capsys)
    configurations, searches = (
        int(line.split()[0]) for line in said.splitlines() if "to measure" in line or "to search" in line
    )

    assert f"{configurations + searches + 1} jobs" in said  # and the calibration
    assert machine.id in said
