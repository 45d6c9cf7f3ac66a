"""An error about an argument of a Python call names the option that was typed."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from gpu_report.cli import main
from gpu_report.commands.profiling import named_as_options
from gpu_report.errors import ConfigError


def call(model: Any, *, loss: Any = None, memory_limit: float = 1.0, optimizer: Any = None) -> None:
    """What the command line stands for; it has no option for the optimizer."""


@pytest.mark.parametrize(
    ("error", "typed"),
    [
        (
            "loss: it returned none; give loss=, or its mean",
            "--loss: it returned none; give --loss, or its mean",
        ),
        ("model, loss: both were given", "MODEL, --loss: both were given"),
        (
            "it cannot be trained: memory_limit: it is -1",
            "it cannot be trained: --memory-limit: it is -1",
        ),
        (
            "model: it is on two devices; give optimizer=",
            "MODEL: it is on two devices; give optimizer= in Python",
        ),
        ("unet: has no batch; call f(loss=None)", "unet: has no batch; call f(loss=None)"),
        ("my_loss: it raised KeyError: 'loss'", "my_loss: it raised KeyError: 'loss'"),
    ],
)
def test_arguments_are_named_as_options_and_nothing_else_is_changed(error: str, typed: str) -> None:
    arguments = Namespace(model="m:build", loss="m:loss", memory_limit=2.0, batch="m:make")

    with pytest.raises(ConfigError) as raised, named_as_options(call, arguments, model="MODEL"):
        raise ConfigError(error)

    assert str(raised.value) == typed


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("profile m:build --batch m:make", "give --loss for a pair"),
        (
            "profile m:build --batch m:make_inputs",
            "expected one number, for instance its mean(), or give --loss",
        ),
        ("profile m:build --batch m:make --batch-size 4", "--batch-size: given without the name"),
        ("profile lstm --batch-size 4 --loss m:make", "--loss: given beside the name 'lstm'"),
        (
            "batch-size m:build --batch m:make",
            "--loss: none was given, and Linear does not take the 2 parts",
        ),
        ("batch-size m:build --batch m:make --memory-limit -1", "--memory-limit: it is -1.0"),
        ("batch-size m:build --batch m:make --multiple-of 0", "--multiple-of: it is 0"),
        ("batch-size m:build --batch m:make --margin 1.5", "--margin: it is 1.5"),
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
