"""The software and hardware that a record names."""

import os
import platform
from pathlib import Path

import psutil
import pytest
import torch

from gpu_report.measure import environment
from gpu_report.measure.environment import device_environment, host_environment
from gpu_report.study.machine import core_count


def test_the_host_is_known_without_a_device() -> None:
    found = host_environment()
    assert found["python"] == platform.python_version()
    assert found["cpu_cores"] == core_count()
    assert found["memory_gib"] == round(psutil.virtual_memory().total / 2**30, 1)
    assert found["cpu_model"]
    assert found["cpu_microarchitecture"]


def test_sockets_are_counted_by_their_physical_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(environment, "_CPUINFO", cpuinfo)
    cpuinfo.write_text("".join(f"physical id\t: {core % 2}\n" for core in range(8)), "utf-8")
    assert host_environment()["cpu_sockets"] == 2

    cpuinfo.write_text("model name\t: a CPU of ARM, which has no such ids\n", "utf-8")
    assert host_environment()["cpu_sockets"] is None


def test_a_job_of_a_cluster_names_its_host_which_a_person_s_machine_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert "host" not in host_environment()

    monkeypatch.setenv("SLURM_JOB_ID", "1")
    assert host_environment()["host"] == platform.node()


@pytest.mark.parametrize(
    ("said", "others"), [("OverSubscribe=OK", "allowed"), ("OverSubscribe=NO", "none"), ("", None)]
)
def test_a_job_that_has_not_the_whole_node_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, others: str | None
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho JobId=7 {said} Contiguous=0\n", "utf-8")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")

    assert host_environment().get("other_jobs") == others


def test_values_about_pytorch_are_plain() -> None:
    found = device_environment(torch.device("cpu"))
    assert {type(value) for value in found.values()} <= {str, int, float, type(None)}
    assert found["torch"] == str(torch.__version__)
