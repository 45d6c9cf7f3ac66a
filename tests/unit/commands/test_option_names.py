"""An error about an argument of a Python call names the option that was typed."""

import sys
from pathlib import Path

import pytest

from gpu_report.cli import main


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("profile m:build --batch m:make", "give --loss for a pair"),
        (
            "profile m:build --batch m:make_inputs",
            "expected one number, for instance its mean(), or give --loss",
        ),
        ("profile m:build --batch m:make --batch-size 4", "--batch-size: given without the name"),
        (
            "batch-size m:build --batch m:make",
            "--loss: none was given, and Linear does not take the 2 parts",
        ),
        ("batch-size m:build --batch m:make --memory-limit -1", "--memory-limit: it is -1.0"),
        (
            "batch-size lstm --optimizer m:make",
            "leave out --batch, --loss, --optimizer, --checkpoint and --accumulate",
        ),
    ],
)
def test_the_commands_name_their_options(
    command: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "m.py").write_text(
        "import torch\n"
        "def build(): return torch.nn.Linear(4, 3)\n"
        "def make(samples=8): return torch.zeros(samples, 4), torch.zeros(samples, 3)\n"
        "def make_inputs(): return make()[0]\n",
        "utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "m", raising=False)

    assert main([*command.split(), "--device", "cpu"]) == 2

    assert said in capsys.readouterr().err
