"""The tiny study through a real Slurm: its jobs, its records, and what is left when a job or a node
goes away.

`make test-cluster` starts such a Slurm, of two nodes on this host, and runs these.
"""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from gpu_report.records.record import RECORD_FILE
from tests.workflow.conftest import Project, built_tiny, copy_of_the_project, unbuilt_tiny

__all__ = ["built_tiny", "unbuilt_tiny"]


def runs() -> bool:
    """Whether the Slurm of slurm.sh does, and not one that people use."""
    if shutil.which("scontrol") is None:
        return False
    said = subprocess.run(
        ["scontrol", "show", "config"], capture_output=True, text=True, check=False
    ).stdout
    return "gpu-report-test" in said


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not runs(), reason="make test-cluster starts the Slurm for these"),
]

NODE = "{partition: gpu, cpus: 2, memory_gib: 2, minutes: 5}"
TABLES = "report/gpu_report.html"


def command(project: Project, *targets: str, jobs: int = 50, requeues: bool = True) -> list[str]:
    options = ["--profile", "profiles/slurm", "--jobs", str(jobs)]
    options += [
        "--slurm-init-seconds-before-status-checks",
        "1",
        "--seconds-between-status-checks",
        "1",
    ]
    options += ["--slurm-keep-successful-logs", *([] if requeues else ["--slurm-no-requeue"])]
    return [
        "snakemake",
        *options,
        "--config",
        "machines=[node]",
        "--configfile",
        project.configfile,
        "--",
        *targets,
    ]


def on_slurm(project: Project, *targets: str) -> subprocess.CompletedProcess[str]:
    return project.run(*command(project, *targets))


def slurm(*arguments: str) -> str:
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Measured through Slurm up to the page, which needs no TeX."""
    project = copy_of_the_project(
        tmp_path_factory.mktemp("cluster") / "project", "config/tiny.yaml"
    )
    (project.folder / "config/machines.yaml").write_text(f"node: {NODE}\n", "utf-8")
    found = on_slurm(project)  # out which machine a node is
    assert found.returncode == 0, found.stdout + found.stderr
    built = on_slurm(project, TABLES)
    assert built.returncode == 0, built.stdout + built.stderr
    return project


@pytest.fixture
def project(measured: Project, unbuilt_tiny: Project) -> Project:
    """Nothing is measured, but what a node is, is known."""
    for name in ("config/machines.yaml", "results/machines/node.json"):
        (unbuilt_tiny.folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(measured.folder / name, unbuilt_tiny.folder / name)
    return unbuilt_tiny


def some_records(measured: Project, number: int) -> list[str]:
    """As targets."""
    found = [str(path.relative_to(measured.folder)) for path in sorted(measured.records())[:number]]
    assert len(found) == number
    return found


def records(project: Project) -> dict[str, float]:
    """When the record of each configuration was written."""
    return {path.parent.name: path.stat().st_mtime for path in project.records()}


def wait_until(condition: Callable[[], object], *, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def running_jobs(folder: Path) -> list[str]:
    """Ids of the jobs that run in the folder."""
    lines = slurm("squeue", "--noheader", "--states=RUNNING", "--format=%i %Z").splitlines()
    return [line.split()[0] for line in lines if line.split()[1] == str(folder)]


def running_job(folder: Path, *, after: str = "") -> str:
    """The one that runs in the folder, as soon as it is another than the one before."""
    wait_until(lambda: {*running_jobs(folder)} - {after})
    (job,) = {*running_jobs(folder)} - {after}
    return job


def test_tables_are_those_of_a_local_run_but_for_what_was_measured(
    measured: Project, built_tiny: Project
) -> None:
    folders = [
        next(each.folder.glob("results/machines/*/tables")) for each in (measured, built_tiny)
    ]

    assert records(measured).keys() == records(built_tiny).keys()
    assert [path.name for path in sorted(folders[0].iterdir())] == [
        path.name for path in sorted(folders[1].iterdir())
    ]
    for name in ("device.csv", "batch_size.csv", "variants.csv"):
        ours, local = (pd.read_csv(folder / name) for folder in folders)
        assert list(ours) == list(local)
        assert list(ours["variant"]) == list(local["variant"])


def test_each_configuration_is_measured_by_a_job_and_the_rest_by_none(measured: Project) -> None:
    logs = {
        path.name: len([*path.rglob("*.log")])
        for path in (measured.folder / ".snakemake/slurm_logs").iterdir()
    }

    assert logs == {
        "rule_describe_machine": 1,
        "rule_calibrate_machine": 1,
        "rule_measure_variant": len(measured.records()),
    }


def test_another_machine_than_the_one_asked_for_leaves_no_record(
    measured: Project, project: Project
) -> None:
    path = project.folder / "results/machines/node.json"
    found = json.loads(path.read_text("utf-8"))
    found["machine"]["cores"] = 999
    path.write_text(json.dumps(found), "utf-8")

    (target,) = some_records(measured, 1)
    refused = on_slurm(project, re.sub(r"-\d+c/", "-999c/", target))

    assert refused.returncode != 0
    assert "-999c" in refused.stdout + refused.stderr
    assert not project.records()


def test_a_job_that_goes_away_loses_its_own_configuration_alone(
    measured: Project, project: Project
) -> None:
    output, config = project.folder / "output", project.folder / project.configfile
    config.write_text(config.read_text("utf-8").replace("[8, 16]", "[8, 16, 32]"), "utf-8")
    targets = some_records(measured, 2)
    targets.append(targets[-1].replace("-b8-", "-b32-"))
    with output.open("w") as file:
        run = subprocess.Popen(
            # Else Slurm waits two minutes before it gives the job of a node that went away to
            # another.
            command(project, *targets, jobs=1, requeues=False),
            cwd=project.folder,
            env=project.environment(),
            stdout=file,
            stderr=file,
        )
        wait_until(lambda: "1 of 3 steps" in output.read_text("utf-8"))
        before = records(project)
        cancelled = running_job(project.folder)
        slurm("scancel", cancelled)
        job = running_job(project.folder, after=cancelled)
        node = slurm("squeue", "--noheader", "--job", job, "--format=%N").strip()
        slurm("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        wait_until(lambda: job not in running_jobs(project.folder))
        resume = ["scontrol", "update", f"nodename={node}", "state=resume"]
        subprocess.run(resume, check=False)  # which fails where the node is back by itself
        run.wait(180)

    again = on_slurm(project, *targets)

    assert again.returncode == 0, again.stdout + again.stderr
    after = records(project)
    assert (len(before), len(after)) == (1, 3)
    assert {name: written for name, written in after.items() if name in before} == before


def assert_trained_by_two_nodes(project: Project, variant: str) -> None:
    (record,) = [RECORD_FILE.read(path) for path in project.records()]
    assert (record.variant, record.status, record.reason) == (variant, "ok", "")
    for repetition in record.repetitions:
        assert sorted(rank.agent for rank in repetition.ranks) == [0, 1]


def test_a_training_that_two_nodes_share_is_one_job_of_the_study(
    measured: Project, project: Project
) -> None:
    variant = "cnn-small-cpu-b32-w0-fp32-e2x4-ddp2"
    (project.folder / "config/machines.yaml").write_text(
        f"node: {NODE.replace('{', '{nodes: 2, ')}\n", "utf-8"
    )
    results = measured.records()[0].relative_to(measured.folder).parents[2]

    trained = on_slurm(
        replace(project, configfile="config/ci.yaml"), f"{results}/runs/{variant}/record.json"
    )

    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert_trained_by_two_nodes(project, variant)
    logs = project.folder / ".snakemake/slurm_logs"
    assert [len([*path.rglob("*.log")]) for path in logs.iterdir()] == [1]
