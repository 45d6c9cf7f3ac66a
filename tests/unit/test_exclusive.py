import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpu_report.errors import MachineError
from gpu_report.exclusive import machine_to_itself

NOBODY = 65534
TAKE = (
    "import sys; from pathlib import Path; from gpu_report.exclusive import machine_to_itself\n"
    "with machine_to_itself(Path(sys.argv[1])): print('measuring', flush=True)"
)


def test_a_second_measurement_waits_for_the_first(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with machine_to_itself(lock):
        second = subprocess.Popen([sys.executable, "-c", TAKE, str(lock)], stdout=subprocess.PIPE, text=True)
        assert second.stdout is not None
        assert "waiting" in second.stdout.readline()

    output, _ = second.communicate(timeout=60)
    assert output == "measuring\n"


def test_a_lock_file_of_another_user_is_waited_for_like_ones_own() -> None:
    with tempfile.TemporaryDirectory() as shared:
        lock = Path(shared) / "lock"
        lock.touch()
        lock.chmod(0o444)
        Path(shared).chmod(0o1777)
        before = os.geteuid()
        try:
            if before == 0:
                os.seteuid(NOBODY)
            with pytest.raises(PermissionError):
                lock.open("a")
            with machine_to_itself(lock):
                pass
        finally:
            os.seteuid(before)


def test_every_user_may_open_a_new_lock_file_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with machine_to_itself(tmp_path / "lock"):
            pass
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o666


def test_a_lock_that_cannot_be_opened_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="set TMPDIR"), machine_to_itself(tmp_path / "missing" / "lock"):
        pass
