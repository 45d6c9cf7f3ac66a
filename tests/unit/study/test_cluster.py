"""What a job on a machine of a cluster asks for, and what is known of the machine afterwards."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.utils import set_gres_string

from gpu_report.errors import ConfigError, MachineError
from gpu_report.study import cluster
from gpu_report.study.cluster import JOB, Request, describe_machine, known_machine, read_requests
from gpu_report.study.machine import Accelerator, Machine, require_machine
from gpu_report.study.variant import Variant

CPU = Request(cpus=8, memory_gib=16, minutes=30)


class Resources(dict[str, Any]):
    """As Snakemake gives them to its executor: by name, without those that are None."""

    __getattr__ = dict.__getitem__


def sbatch_options(request: Request, *, nodes: int = 1) -> str:
    """What the executor adds for the machine to a job's sbatch; partition and account come as texts
    of its own.
    """
    found = {
        name: value for name, value in request.resources(nodes=nodes).items() if value is not None
    }
    job: Any = SimpleNamespace(resources=Resources(found), threads=1, is_group=lambda: False)
    texts = dict.fromkeys(
        ("run_uuid", "slurm_logfile", "comment_str", "account", "partition", "workdir"), ""
    )
    call: str = get_submit_command(job, texts) + set_gres_string(job)
    return " ".join(call.partition("--comment ''")[2].split())


@pytest.mark.parametrize(
    ("asked", "nodes", "options"),
    [
        ({"cpus": 8}, 1, "--nodes=1 --ntasks=1 --cpus-per-task=8 --exclusive"),
        ({"cpus": 8, "exclusive": False}, 1, "--nodes=1 --ntasks=1 --cpus-per-task=8"),
        ({"cpus": 16, "gpus": 1}, 1, "--nodes=1 --cpus-per-task=16 --exclusive --gres=gpu:1"),
        (
            {"nodes": 2, "cpus": 64, "gpus": 4, "gpu_model": "h100"},
            2,
            "--nodes=2 --ntasks=2 --cpus-per-task=64 --exclusive --gres=gpu:h100:4",
        ),
        ({"nodes": 2, "cpus": 8}, 2, "--nodes=2 --ntasks=2 --cpus-per-task=8 --exclusive"),
    ],
)
def test_a_job_asks_slurm_for_what_the_machine_needs_of_each_node(
    asked: dict[str, Any], nodes: int, options: str
) -> None:
    request = Request(**{"memory_gib": 0.5, "minutes": 90, "constraint": "ib", **asked})

    assert sbatch_options(request, nodes=nodes) == f"-t 90 -C ib --mem 512 {options}"


@pytest.mark.parametrize(
    ("shared", "gpus", "most", "nodes"),
    [
        ({"strategy": "ddp", "devices": 4}, 4, 2, 1),
        ({"strategy": "ddp", "devices": 6}, 4, 2, 2),
        ({"strategy": "fsdp", "devices": 8}, 4, 2, 2),
        ({"strategy": "fsdp", "devices": 8}, 4, 1, 1),
        ({"strategy": "ddp", "devices": 10}, 4, 5, 5),
        ({"strategy": "dp", "devices": 8}, 4, 2, 1),
        ({"strategy": "ddp", "devices": 2, "device": "cpu"}, 0, 2, 2),
        ({"device": "cpu"}, 0, 2, 1),
    ],
)
def test_the_fewest_nodes_share_a_training_that_have_its_devices(
    shared: dict[str, Any], gpus: int, most: int, nodes: int
) -> None:
    variant = Variant(
        **{"workload": "cnn", "device": "cuda", "batch_size": 120, "epochs": 1, **shared}
    )

    assert (
        Request(nodes=most, cpus=8, memory_gib=16, minutes=30, gpus=gpus).nodes_for(variant)
        == nodes
    )


def written(folder: Path, text: str) -> Path:
    path = folder / "machines.yaml"
    path.write_text(text, "utf-8")
    return path


def test_machines_are_read_by_name_and_without_the_file_there_are_none(tmp_path: Path) -> None:
    path = written(tmp_path, "h100: {cpus: 8, memory_gib: 16, minutes: 30}\n")

    assert read_requests(path) == {"h100": CPU}
    assert read_requests(tmp_path / "none.yaml") == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("h100: {cpus: 8, memory_gib: 16, minutes: 30, gpu: 1}", "gpu"),
        ("h100: {cpus: 0, memory_gib: 16, minutes: 30}", "cpus"),
        ("h100: {cpus: 8, minutes: 30}", "memory_gib"),
        ("h100: 8", "h100"),
        ("h100: {cpus: 8, memory_gib: 16, minutes: 30, gpu_model: h100}", "gpus is 0"),
        ("h100: {cpus: 8, memory_gib: 16, minutes: 30, gpus: 1, gpu_model: a100-sxm}", "gpu_model"),
        ("here: {cpus: 8, memory_gib: 16, minutes: 30}", "here"),
        ("H 100: {cpus: 8, memory_gib: 16, minutes: 30}", "H 100"),
    ],
)
def test_a_mistake_is_an_error_that_names_file_machine_and_key(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        read_requests(written(tmp_path, text))

    assert "machines.yaml" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def machine_with(gpus: int) -> Machine:
    return Machine(
        cpu_model="Xeon",
        cores=16,
        memory_gib=64.0,
        accelerators=(Accelerator(backend="cuda", name="H100", memory_gib=80),) * gpus,
        accelerator_reason="" if gpus else "no driver",
    )


def test_what_a_job_found_is_known_until_another_machine_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(JOB, "1")
    monkeypatch.setattr(cluster, "describe_here", lambda: machine_with(0))

    assert known_machine("node", CPU) is None
    found = describe_machine("node", requests={"node": CPU})

    assert found == machine_with(0)
    assert known_machine("node", CPU) == found
    assert known_machine("node", Request(cpus=8, memory_gib=16, minutes=99)) == found
    assert known_machine("node", Request(cpus=8, memory_gib=16, minutes=30, gpus=1)) is None


@pytest.mark.parametrize(("asked", "present"), [(1, 0), (0, 2), (4, 1)])
def test_a_job_with_other_gpus_than_it_asked_for_finds_no_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int, present: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(JOB, "1")
    monkeypatch.setattr(cluster, "describe_here", lambda: machine_with(present))
    request = Request(cpus=8, memory_gib=16, minutes=30, gpus=asked)

    with pytest.raises(MachineError, match=f"node: gpus is {asked} .* {present} "):
        describe_machine("node", requests={"node": request})

    assert known_machine("node", request) is None


def test_outside_of_a_job_no_machine_of_a_cluster_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(JOB, raising=False)

    with pytest.raises(MachineError, match="--profile profiles/slurm"):
        describe_machine("node", requests={"node": CPU})


def test_nothing_is_measured_for_a_machine_that_this_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpu_report.study.machine.find_machine", lambda: machine_with(0))
    with pytest.raises(MachineError, match="h100-80gb-x1-xeon-16c"):
        require_machine("h100-80gb-x1-xeon-16c")
