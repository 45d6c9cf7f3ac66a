"""Fresh processes and the server that forks them: a Ctrl-C is never lost, and ends what trains."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest

from gpu_report.measure.processes import fresh_processes, take_interruptions
from gpu_report.own.process import own_server

STARTS = "from gpu_report.measure.processes import fresh_processes; fresh_processes(['json'])"
SEARCHES = """
from gpu_report.cli import main
raise SystemExit(main(["batch-size", "cnn", "--device", "cpu", "--size", "small"]))
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no server forks")


@pytest.fixture(autouse=True)
def server_ended() -> Iterator[None]:
    """One that stayed would lack PyTorch, which each fresh process of later tests would import anew."""
    with own_server():
        yield


@pytest.fixture
def default_interruption() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a test before may have started torchrun's agent
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_interruption")
def test_ctrl_c_while_the_server_starts_is_answered_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = forkserver.ensure_running, []

    def start_and_interrupt() -> None:
        start()
        os.kill(os.getpid(), signal.SIGINT)
        started.append(True)

    monkeypatch.setattr(forkserver, "ensure_running", start_and_interrupt)

    with pytest.raises(KeyboardInterrupt):
        fresh_processes(["json"])

    assert started == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def interrupt_oneself() -> None:
    take_interruptions()
    os.kill(os.getpid(), signal.SIGINT)


def test_sigint_ends_a_fresh_process_at_once() -> None:
    process = fresh_processes(["json"]).Process(target=interrupt_oneself)

    process.start()
    process.join(timeout=60)

    assert process.exitcode == -signal.SIGINT


@pytest.mark.parametrize("code", [STARTS, SEARCHES])
def test_a_temporary_folder_with_a_path_too_long_for_a_socket_is_named(code: str, tmp_path: Path) -> None:
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
