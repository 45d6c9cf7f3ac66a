"""Errors that end a command reach a person in one line, wherever standard error goes."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_report.cli import main
from gpu_report.commands import traces


def test_an_error_reaches_the_terminal_though_its_log_is_on_a_full_disk(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as log:
        command = [sys.executable, "-m", "gpu_report", "trace", "absent"]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        answer = subprocess.run(command, env=buffered, stdout=subprocess.PIPE, stderr=log, text=True, check=False)

    assert answer.returncode == 2
    assert answer.stdout.startswith("gpu-report: error: absent does not exist")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_anywhere_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    def fill(_: object) -> None:
        raise OSError(code, os.strerror(code), "results/figures/a.pdf")

    monkeypatch.setattr(traces, "columns", fill)

    assert main(["columns"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "results/figures/a.pdf" in line
    assert "free some space" in line


def test_any_other_error_of_the_system_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr(traces, "columns", fail)

    with pytest.raises(FileNotFoundError):
        main(["columns"])


@pytest.mark.parametrize(("command", "status"), [(["columns"], 2), (["compare", "a", "b"], 3), (["guard", "unet"], 3)])
def test_an_unknown_option_has_the_status_that_the_command_has_for_errors(command: list[str], status: int) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--no-such-option"])

    assert ended.value.code == status
