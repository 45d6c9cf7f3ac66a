"""What the probe prints is what machine.py reads."""

import json
import subprocess
import sys

import torch

from gpu_report.measure.probe import probe


def test_the_probe_prints_json_with_the_version_of_pytorch() -> None:
    command = [sys.executable, "-m", "gpu_report.measure.probe"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["torch"] == torch.__version__


def test_a_machine_without_accelerators_says_why_in_one_line() -> None:
    found = probe()
    assert bool(found["accelerators"]) != bool(found["reason"])
    assert "\n" not in found["reason"]
