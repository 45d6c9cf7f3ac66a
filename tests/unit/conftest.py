"""What the unit tests of several packages share."""

from functools import partial

import pytest
import torch


@pytest.fixture
def traced_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.compile` traces and differentiates but generates no code, which takes 20 s.

    tests/gpu and tests/workflow/test_ci_study.py train with the generated code.
    """
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
