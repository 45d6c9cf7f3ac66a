"""Several hosts that share a training: two agents on this one, which meet, train, and fail
together.
"""

import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_report.errors import MachineError
from gpu_report.measure.hosts import (
    COUNT,
    INDEX,
    RENDEZVOUS,
    Hosts,
    hosts_of_environment,
    nodes_to_share,
    start_on,
)
from gpu_report.measure.processes import MeasurementInterruptedError
from gpu_report.records.record import Record
from gpu_report.study.variant import Variant
from tests.unit.measure.test_ranks import measured

SLURM_SCRIPT = Path(__file__).parents[3] / "docs" / "several_hosts.sbatch"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def measured_by_two(folder: Path, class_name: str = "Tiny", **fields: Any) -> list[Record]:
    """By agents that share this host and no folder; the records that each of them has."""
    port = free_port()
    with ThreadPoolExecutor() as agents:
        started = [
            agents.submit(
                measured,
                class_name,
                folder / str(index),
                hosts=Hosts(count=2, index=index, port=port),
                **fields,
            )
            for index in range(2)
        ]
        return [each.result() for each in started]


def test_two_agents_measure_one_training_and_each_has_the_whole_of_it(tmp_path: Path) -> None:
    records = measured_by_two(tmp_path)
    for index, record in enumerate(records):
        assert record.status == "ok", record.reason
        for repetition in record.repetitions:
            assert sorted(rank.agent for rank in repetition.ranks) == [0, 1]
            assert [rank.host for rank in repetition.ranks] == [0, 0]
            assert len({rank.parameters_sha256 for rank in repetition.ranks}) == 1
        assert record.profile is not None
        names = [
            record.profile.trace_file,
            *(each.trace_file for each in record.profile.other_ranks),
        ]
        for name in ("trace", "rich_trace"):
            assert sorted(path.name for path in (tmp_path / str(index) / name).iterdir()) == names
    assert records[0].profile == records[1].profile


@pytest.mark.slow
def test_agents_agree_on_the_rank_that_went_wrong_on_one_of_them(tmp_path: Path) -> None:
    wrong = {"where": "model", "what": "MemoryError"}
    first, second = measured_by_two(tmp_path, "GoesWrongInOneRank", settings=wrong)
    assert first.status == second.status == "oom"
    assert first.reason == second.reason
    assert first.reason.startswith("repetition 1: rank 1"), first.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("SIGKILL", {"rank 1 was ended by SIGKILL"}),
        ("agent", {"was ended by SIGKILL", "is gone"}),
    ],
)
def test_no_host_has_a_result_where_a_rank_or_an_agent_of_one_was_killed(
    what: str, says: set[str], tmp_path: Path
) -> None:
    port = free_port()
    settings = {"where": "backward", "what": what}

    def interrupted_on(index: int) -> str:
        hosts = Hosts(count=2, index=index, port=port)
        with pytest.raises(MeasurementInterruptedError) as error:
            measured("GoesWrongInOneRank", tmp_path / str(index), hosts=hosts, settings=settings)
        return str(error.value)

    with ThreadPoolExecutor() as agents:
        said = list(agents.map(interrupted_on, range(2)))

    assert {each for each in says for line in said if each in line} == says, said


@pytest.mark.slow
def test_a_host_that_does_not_come_is_named_with_how_many_came(tmp_path: Path) -> None:
    alone = Hosts(count=3, index=0, port=free_port())
    record = measured("Tiny", tmp_path, devices=3, batch_size=6, hosts=alone, patience_s=1)
    assert record.status == "failed"
    assert f"1 of 3 hosts came to {alone.endpoint}" in record.reason
    assert "without host 1, 2" in record.reason


@pytest.mark.slow
def test_a_port_that_another_program_has_is_named_on_both_hosts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        hosts = [Hosts(count=2, index=index, port=port) for index in range(2)]
        first, second = (measured("Tiny", tmp_path, hosts=each, patience_s=1) for each in hosts)
    assert (first.status, second.status) == ("failed", "failed")
    assert f"port {port} of this host is in use" in first.reason
    assert f"localhost:{port} is not a torchrun store" in second.reason


@pytest.mark.slow
def test_hosts_that_measure_different_things_are_refused(tmp_path: Path) -> None:
    port = free_port()

    def measured_on(index: int) -> None:
        hosts, settings = Hosts(count=2, index=index, port=port), {"samples": 20 + index}
        with pytest.raises(MachineError, match="differ in their study"):
            measured("Tiny", tmp_path / str(index), hosts=hosts, settings=settings, patience_s=10)

    with ThreadPoolExecutor() as agents:
        list(agents.map(measured_on, range(2)))


def test_hosts_that_cannot_share_a_variant_are_refused() -> None:
    fields: dict[str, Any] = {"workload": "tiny", "device": "cpu", "batch_size": 6, "epochs": 1}
    two = Hosts(count=2, index=0, port=1)
    with pytest.raises(MachineError, match="one process trains"):
        two.check(Variant(**fields))
    with pytest.raises(MachineError, match="3 devices cannot be shared equally by 2 hosts"):
        two.check(Variant(**fields, strategy="ddp", devices=3))
    two.check(Variant(**fields, strategy="ddp", devices=2))


def test_the_environment_says_which_host_this_is_and_an_impossible_value_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (COUNT, INDEX, RENDEZVOUS, "SLURM_STEP_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)
    assert hosts_of_environment() == Hosts()
    monkeypatch.setenv(COUNT, "2")
    with pytest.raises(MachineError, match=f"{COUNT} set, but not {INDEX} and {RENDEZVOUS}"):
        hosts_of_environment()
    monkeypatch.setenv(INDEX, "1")
    monkeypatch.setenv(RENDEZVOUS, "node1:29500")
    assert hosts_of_environment() == Hosts(count=2, index=1, address="node1", port=29500)
    for name, value in ((COUNT, "0"), (INDEX, "2"), (INDEX, "-1"), (RENDEZVOUS, "node1")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            with pytest.raises(MachineError, match=f"{name}='{value}'"):
                hosts_of_environment()


def in_job(monkeypatch: pytest.MonkeyPatch, folder: Path, **variables: str) -> None:
    """The environment of a job on two nodes, and Slurm's commands as it answers them."""
    for name in (COUNT, INDEX, RENDEZVOUS, "SLURM_STEP_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"JOB_ID": "20005", **variables}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    answers = """case "$*" in
        "show hostnames node[7-8]") printf "node7\\nnode8\\n";;
        "show job --oneliner 20005")
            echo JobId=20005 NumNodes=2 NumCPUs=16 CPUs/Task=8 OverSubscribe=NO;;
    esac"""
    for command, text in {"scontrol": answers, "srun": 'echo "$* hosts=$GPU_REPORT_HOSTS"'}.items():
        (folder / command).write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        (folder / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def in_step(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The environment of a task that srun has started on two nodes."""
    step = {"STEP_NUM_NODES": "2", "STEP_NUM_TASKS": "2", "STEP_NODELIST": "node[7-8]"}
    in_job(monkeypatch, folder, PROCID="1", **step)


DDP = Variant(workload="tiny", device="cpu", batch_size=6, epochs=1, strategy="ddp", devices=2)


def test_a_job_on_two_nodes_starts_a_shared_training_on_both_and_only_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_job(monkeypatch, tmp_path)
    assert nodes_to_share(DDP) == 2
    assert nodes_to_share(replace(DDP, strategy="single", devices=1)) == 1

    in_step(monkeypatch, tmp_path)
    assert nodes_to_share(DDP) == 1

    monkeypatch.delenv("SLURM_JOB_ID")
    monkeypatch.delenv("SLURM_STEP_NUM_NODES")
    assert nodes_to_share(DDP) == 1


def test_each_node_gets_the_cores_that_the_job_asked_for_and_no_hosts_of_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    in_job(monkeypatch, tmp_path)
    monkeypatch.setenv(COUNT, "1")

    if os.fork() == 0:
        start_on(2, ["train"])  # which becomes srun
    os.wait()

    assert capfd.readouterr().out == (
        "--nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 --cpus-per-task=8 train "
        "hosts=\n"
    )
    (tmp_path / "srun").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="srun cannot be started on the 2 nodes"):
        start_on(2, ["train"])


def test_tasks_of_srun_meet_at_the_first_of_their_nodes_or_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_step(monkeypatch, tmp_path)
    assert hosts_of_environment() == Hosts(count=2, index=1, address="node7", port=20005)
    with monkeypatch.context() as changed:
        changed.setenv(COUNT, "1")
        assert hosts_of_environment() == Hosts()

    monkeypatch.setenv("SLURM_STEP_NODELIST", "")
    with pytest.raises(MachineError, match=f"the first of the nodes ''; set {COUNT}"):
        hosts_of_environment()
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "8")
    with pytest.raises(MachineError, match=r"srun started 8 tasks on 2 nodes; .*ntasks-per-node=1"):
        hosts_of_environment()


def test_the_slurm_script_starts_one_task_on_each_node(tmp_path: Path) -> None:
    for name, text in {".venv/bin/activate": "", "srun": 'echo "$*"'}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_NUM_NODES": "2"}

    script = ["bash", str(SLURM_SCRIPT), "lstm-ddp8"]
    ran = subprocess.run(
        script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )

    assert ran.stdout == "--nodes=2 --ntasks-per-node=1 gpu-report run lstm-ddp8\n"
