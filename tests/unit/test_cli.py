"""Errors that end a command reach a person in one line, wherever standard error goes."""

import errno
import os
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from gpu_report import __main__
from gpu_report.cli import COMMANDS, MEASURING_STAGES, STAGE, main
from gpu_report.commands import comparison, guarding, reproducing, traces
from tests.factories import make_study
from tests.machine_results import write_results


def test_an_error_reaches_the_terminal_though_its_log_is_on_a_full_disk(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as log:
        command = [sys.executable, "-m", "gpu_report", "trace", "absent"]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        answer = subprocess.run(
            command, env=buffered, stdout=subprocess.PIPE, stderr=log, text=True, check=False
        )

    assert answer.returncode == 2
    assert answer.stdout.startswith("gpu-report: error: absent does not exist")


def test_help_fits_on_one_screen_and_names_what_a_person_types(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    lines = capsys.readouterr().out.splitlines()
    typed = [
        name for job in COMMANDS if job not in (STAGE, MEASURING_STAGES) for name in COMMANDS[job]
    ]
    assert ended.value.code == 0
    assert [name for line in lines[1:] for name in typed if f" {name} " in line[:31]] == typed
    assert len(lines) <= 22
    assert max(map(len, lines)) <= 80


def test_the_help_of_a_time_names_the_unit_that_its_option_names() -> None:
    named = {
        f"{name} {argument}": (argument.strip("-"), options["help"])
        for of_job in COMMANDS.values()
        for name, command in of_job.items()
        for argument, options in command.arguments
        if argument in ("--seconds", "--minutes")
    }

    assert named
    assert {each: text for each, (unit, text) in named.items() if unit not in text} == {}


def test_every_command_has_its_function() -> None:
    for of_job in COMMANDS.values():
        for command in of_job.values():
            module, function = command.target.split(":")
            assert callable(getattr(import_module(f"gpu_report.commands.{module}"), function))


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


@pytest.mark.parametrize(
    ("command", "status"), [(["columns"], 2), (["compare", "a", "b"], 3), (["guard", "unet"], 3)]
)
def test_an_unknown_option_has_the_status_that_the_command_has_for_errors(
    command: list[str], status: int
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--no-such-option"])

    assert ended.value.code == status


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("profile unet --json -", 2),
        ("profile unet --html -", 2),
        ("trace . --out -", 2),
        ("machines --html -", 2),
        ("pack --out -", 2),
        ("new-study -", 2),
        ("compare a b --json -", 3),
        ("guard unet --before HEAD --markdown -", 3),
    ],
)
def test_a_dash_is_refused_instead_of_written_as_a_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    status: int,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(command.split()) == status

    (line,) = capsys.readouterr().err.splitlines()
    assert "-: standard input and output are no file here" in line
    assert list(tmp_path.iterdir()) == []


NO_VERDICT = 3
GATES = [
    (comparison, ["compare", "a", "b"]),
    (guarding, ["guard", "unet", "--before", "HEAD"]),
    (reproducing, ["reproduce", "bundle"]),
]


@pytest.mark.parametrize(("module", "command"), GATES, ids=["compare", "guard", "reproduce"])
@pytest.mark.parametrize(
    "error",
    [
        *(
            OSError(code, os.strerror(code), "file")
            for code in (
                errno.ENOENT,
                errno.ENOEXEC,
                errno.EMFILE,
                errno.ENOMEM,
                errno.EACCES,
                errno.ENOSPC,
                errno.EIO,
            )
        ),
        BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)),
        ConnectionResetError(),
        MemoryError(),
        RecursionError(),
        AssertionError("two\nlines"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_error_of_a_gate_is_taken_for_a_verdict(
    error: BaseException, module: ModuleType, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(module, command[0], fail)
    monkeypatch.setattr(sys, "argv", ["gpu-report", *command])

    assert __main__.main() == NO_VERDICT


@pytest.mark.parametrize(("module", "command"), GATES, ids=["compare", "guard", "reproduce"])
def test_an_interrupted_gate_promises_no_continuation(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: ModuleType,
    command: list[str],
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, command[0], interrupt)

    assert __main__.main(command) == 130
    assert capsys.readouterr().err == "gpu-report: interrupted\n"


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A comparison that has no regression, and prints more than a pipe holds back."""
    study = make_study()
    side = write_results(
        tmp_path_factory.mktemp("results"),
        study,
        machine="xeon-2c",
        variants=[study.variants[0].slug],
    )
    return f"compare {side} {side}"


@pytest.mark.parametrize(
    ("command", "status", "unbuffered"),
    [
        ("{same}", 0, ""),
        ("{same} | true", NO_VERDICT, ""),
        ("{same} >&-", NO_VERDICT, ""),
        ("{same} >/dev/full", NO_VERDICT, ""),
        ("{same} 2>&1 | true", NO_VERDICT, ""),
        ("columns | true", 141, ""),
        ("columns <&- 2>&-", 0, ""),
        ("trace absent 2>&-", 2, ""),
    ],
)
def test_output_that_is_not_read_gives_a_status_and_no_traceback(
    command: str, status: int, unbuffered: str, same: str
) -> None:
    python = f"{shlex.quote(sys.executable)} -m gpu_report"
    line, pipe, reader = command.format(same=same).partition(" | ")
    waits = "sleep 0.1; " * bool(pipe)  # until the reader has ended

    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {{ {waits}{python} {line}; }} {pipe} {reader}"],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert ran.returncode == status
    assert len(ran.stderr.splitlines()) == int(status == NO_VERDICT and "2>" not in command)
