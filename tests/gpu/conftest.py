"""Tests of this folder need an accelerator, and are skipped where PyTorch finds none."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gpu_report.storage.locks import machine_to_itself

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.accelerator.is_available():
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="PyTorch finds no accelerator here"))


@pytest.fixture(scope="module", autouse=True)
def accelerator_to_itself(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One file of tests at a time, whichever of pytest's workers runs it: some fill the
    accelerator's memory.
    """
    with machine_to_itself(tmp_path_factory.getbasetemp().parent / "accelerator.lock"):
        yield
