"""The script runs as it would alone: its output, signals and exit status; what is shown goes to
standard error.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_report.cli import main
from gpu_report.commands import watching
from gpu_report.user_training.step_counts import CountsWriter, StepCounts, rates, read_counts

WATCH = [sys.executable, "-m", "gpu_report", "watch", "--interval", "0.5", "--"]


def script(code: str) -> list[str]:
    return [*WATCH, sys.executable, "-c", code]


@pytest.mark.parametrize(
    "written",
    [
        b'{"moment_s":1,"steps":"1","samples":{},"waited_s":[]}',
        b'{"moment_s":1,"steps":1,"samples":1,"waited_s":1,"device_uuid":7}',
        b'{"moment_s":1,"steps":1,"samples":1e999,"waited_s":1}',
        b'{"moment_s":1,"steps":%s,"samples":1,"waited_s":1}' % (b"9" * 400),
        b'{"moment_s":-1,"steps":1,"samples":1,"waited_s":NaN}',
        b"[" * 100_000,
        b'{"moment_s":' * 100_000,
        b'{"a":' + b"[" * 100_000,
        b'{"moment_s":1,"steps":1,"samples":1,"waited_s":1,"device_uuid":"\xff"}',
        b"\xff\x00",
        b"null",
    ],
    ids=range(11),
)
def test_a_file_of_counts_that_holds_anything_else_counts_no_step(
    written: bytes, tmp_path: Path
) -> None:
    (tmp_path / "counts").write_bytes(written)

    assert read_counts(tmp_path / "counts") is None


def test_output_input_and_exit_status_are_the_scripts_own() -> None:
    ended = subprocess.run(
        script("import sys; print(input()); sys.exit(7)"),
        input="typed\n",
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 7
    assert ended.stdout == "typed\n"
    assert "with gpu_report.step():" in ended.stderr


def test_what_the_script_reports_of_its_steps_is_shown() -> None:
    code = (
        "import time\nfrom gpu_report.user_training.step_counts import CountsWriter, StepCounts\n"
        "for n in range(45):\n    counts = StepCounts(moment_s=n, steps=10 * n, samples=80 * n, "
        "waited_s=0.9 * n)\n    CountsWriter()(counts)\n    time.sleep(0.1)"
    )

    ended = subprocess.run(script(code), capture_output=True, text=True, check=True)

    assert "limit waiting for data, 100 ms a step, 80" in ended.stderr
    assert "insufficient data" not in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_script_and_its_status_comes_back(
    number: signal.Signals, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    code = (
        f"import pathlib, signal, sys, time; signal.signal({int(number)}, lambda *_: sys.exit(9))\n"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(60)"
    )
    with subprocess.Popen(
        script(code), stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        while not ready.exists():
            time.sleep(0.05)
        process.send_signal(number)

        assert process.wait(30) == 9


def test_a_script_that_a_signal_ends_gives_the_status_that_a_shell_gives() -> None:
    ended = subprocess.run(
        script("import os; os.kill(os.getpid(), 9)"), stderr=subprocess.DEVNULL, check=False
    )

    assert ended.returncode == 128 + 9


@pytest.mark.slow
def test_a_broken_standard_error_does_not_end_the_script_or_change_its_output() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    ended = subprocess.run(
        script("import time; time.sleep(2.5); print('of the script')"),
        stdout=subprocess.PIPE,
        stderr=write_end,
        check=False,
    )
    os.close(write_end)

    assert (ended.returncode, ended.stdout) == (0, b"of the script\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["watch"], "watch: no command was given"),
        (["watch", "--interval", "0", "--", "true"], "--interval: it is 0"),
        (["watch", "--", "/no/such/program"], "watch: cannot run '/no/such/program'"),
    ],
)
def test_a_call_that_cannot_be_meant_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_the_watcher_does_not_import_torch() -> None:
    code = (
        "import sys, gpu_report.commands.watching; sys.exit(bool({'torch', 'pandas'} & "
        "set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("on_accelerator", "shown"), [(False, "limit waiting for data"), (True, "host between steps")]
)
def test_the_host_between_steps_is_a_wait_for_data_on_the_cpu_alone(
    *, on_accelerator: bool, shown: str, tmp_path: Path
) -> None:
    path = tmp_path / "steps.json"
    path.touch()
    watched = watching._Watched(os.getpid(), path, {})
    assert "no step seen" in watching._of_loop(watched.sample())
    for number in (1, 2):
        counts = StepCounts(
            moment_s=number,
            steps=number,
            samples=0,
            waited_s=0.9 * number,
            on_accelerator=on_accelerator,
        )
        CountsWriter({"GPU_REPORT_STEP_COUNTS": str(path)})(counts)
        found = watched.sample()

    assert shown in watching._of_loop(found)
    assert ("limit" in watching._of_loop(found)) is not on_accelerator
    assert watching._of_loop(watched.sample()) == watching._of_loop(
        found
    )  # no further step has ended


def test_counts_are_written_over_the_last_ones_and_nothing_without_a_watcher(
    tmp_path: Path,
) -> None:
    path = tmp_path / "steps.json"
    before = StepCounts(moment_s=1.0, steps=1, samples=8, waited_s=0.5)
    after = StepCounts(moment_s=3.0, steps=5, samples=40, waited_s=1.5)

    CountsWriter({})(before)
    CountsWriter({"GPU_REPORT_STEP_COUNTS": str(path)})(before)
    assert not path.exists()

    path.touch()
    assert read_counts(path) is None
    for counts in (before, after):
        CountsWriter({"GPU_REPORT_STEP_COUNTS": str(path)})(counts)
    assert read_counts(path) == after
    assert rates(before, after) == {
        "step_time_ms": 500.0,
        "data_wait_share": 0.5,
        "throughput_per_s": 16.0,
    }
    assert rates(after, after) == {}
    counted_by_a_watch_before = replace(before, waited_s=after.waited_s + 1)
    assert rates(counted_by_a_watch_before, after) == {}
