"""Fresh processes and the server that forks them: a Ctrl-C is never lost, and ends what trains."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from gpu_report.measure import processes
from gpu_report.measure.children import exit_status_of, take_interruptions
from gpu_report.measure.processes import (
    SERVER_GONE,
    FreshProcess,
    MeasurementInterruptedError,
    ending_stopped,
    fresh_processes,
    server_pid,
    start,
)
from gpu_report.printing.terminal import stderr_to
from gpu_report.user_training.process import own_server

STARTS = "from gpu_report.measure.processes import fresh_processes; fresh_processes()"
SEARCHES = """
from gpu_report.cli import main
raise SystemExit(main(["batch-size", "cnn", "--device", "cpu", "--size", "small"]))
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no server forks")


@pytest.fixture(autouse=True)
def server_ended() -> Iterator[None]:
    """Some tests end or stop it."""
    with own_server():
        yield


@pytest.fixture
def default_interruption() -> Iterator[None]:
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a test before may have started torchrun's agent
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_interruption")
def test_ctrl_c_while_the_server_starts_is_answered_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, started = forkserver.ensure_running, []

    def start_and_interrupt() -> None:
        start()
        os.kill(os.getpid(), signal.SIGINT)
        started.append(True)

    monkeypatch.setattr(forkserver, "ensure_running", start_and_interrupt)

    with pytest.raises(KeyboardInterrupt):
        fresh_processes()

    assert started == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def interrupt_oneself() -> None:
    take_interruptions()
    os.kill(os.getpid(), signal.SIGINT)


def test_sigint_ends_a_fresh_process_at_once() -> None:
    process = fresh_processes().Process(target=interrupt_oneself)

    process.start()
    process.join(timeout=60)

    assert process.exitcode == -signal.SIGINT


def print_a_word(word: str, _: Connection) -> None:
    print(word, file=sys.stderr)


def test_a_fresh_process_writes_where_its_command_writes_and_not_where_the_server_did(
    tmp_path: Path,
) -> None:
    for word in ("first", "second"):
        with (
            stderr_to(tmp_path / f"{word}.log"),
            FreshProcess(print_a_word, word, name=word) as process,
        ):
            process.wait_for_end()
        assert (tmp_path / f"{word}.log").read_text("utf-8").split() == [word]


def sleep() -> None:
    time.sleep(60)


def test_a_server_that_is_killed_is_named_and_the_next_process_gets_a_new_one() -> None:
    first, *others = (fresh_processes().Process(target=sleep) for _ in range(2))
    start(first)
    server = server_pid()
    assert server is not None
    os.kill(server, signal.SIGKILL)
    first.join(timeout=60)
    assert (first.exitcode, exit_status_of(server)) == (SERVER_GONE, -signal.SIGKILL)
    first.close()

    start(others[0])

    assert server_pid() != server
    assert others[0].is_alive()
    others[0].kill()
    others[0].join()


def test_a_stopped_server_is_said_once_with_its_number_and_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes, "_SAID_AFTER_S", 0.4)
    monkeypatch.setattr(processes, "_LOOK_S", 0.1)
    process = fresh_processes().Process(target=sleep)
    server = server_pid()
    assert server is not None
    os.kill(server, signal.SIGSTOP)

    with (
        ending_stopped("repetition 1", patience_s=1) as waiting,
        pytest.raises(MeasurementInterruptedError),
    ):
        start(process)

    assert f"process {server} was stopped" in waiting.ended
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"repetition 1 waits for process {server}")


@pytest.mark.parametrize("code", [STARTS, SEARCHES])
def test_a_temporary_folder_with_a_path_too_long_for_a_socket_is_named(
    code: str, tmp_path: Path
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()

    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )

    last = ended.stderr.splitlines()[-1]
    assert f"TMPDIR: {folder} is too long" in last
    assert "set TMPDIR to a shorter one" in last
    if code == SEARCHES:
        assert ended.returncode == 2
        assert ended.stderr.count("\n") == 1
