"""On an accelerator a watched loop is not waited for in each step, and its tree is of the device's
work.
"""

import pytest
import torch
from torch import nn

import gpu_report
from gpu_report.measure.run import MOST_LIGHT_PROFILES
from gpu_report.measure.timing import synchronize
from gpu_report.user_training import blocks


def test_kernels_limit_a_large_step_and_the_device_is_waited_for_in_first_and_profiled_steps_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = []

    def counted_wait(device: torch.device) -> None:
        waits.append(device)
        synchronize(device)

    monkeypatch.setattr(blocks, "synchronize", counted_wait)
    device = torch.accelerator.current_accelerator()
    assert device is not None
    model = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(8))).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(4096, 4096, device=device)

    with gpu_report.watch() as watched:
        for _ in range(300):
            with gpu_report.step(samples=len(inputs)):
                model(inputs).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()

    found = watched.profile
    assert found is not None
    assert found.measured.device.startswith(device.type)
    assert found.measured.memory_kind == "allocator"
    assert found.limit == "kernels"
    marked = next(line for line in capsys.readouterr().err.splitlines() if "<-" in line)
    assert "backward" in marked
    assert len(waits) <= blocks.FIRST_STEPS + MOST_LIGHT_PROFILES * (1 + blocks.RULES.profile_steps)
