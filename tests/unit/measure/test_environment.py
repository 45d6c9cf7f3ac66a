"""The software and hardware that a record names."""

import platform

import psutil
import torch

from gpu_report.measure.environment import device_environment, host_environment
from gpu_report.study.machine import usable_cores


def test_the_host_is_known_without_a_device() -> None:
    found = host_environment()
    assert found["python"] == platform.python_version()
    assert found["cpu_cores"] == len(usable_cores())
    assert found["memory_gib"] == round(psutil.virtual_memory().total / 2**30, 1)
    assert found["cpu_model"]


def test_values_about_pytorch_are_plain() -> None:
    found = device_environment(torch.device("cpu"))
    assert {type(value) for value in found.values()} <= {str, int, float, type(None)}
    assert found["torch"] == str(torch.__version__)
