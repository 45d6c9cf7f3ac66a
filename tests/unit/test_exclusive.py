import subprocess
import sys
from pathlib import Path

import pytest

from gpu_report.errors import MachineError
from gpu_report.exclusive import machine_to_itself

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

    output, _ = second.communicate(timeout=20)
    assert output == "measuring\n"


def test_a_lock_that_cannot_be_opened_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="set TMPDIR"), machine_to_itself(tmp_path / "missing" / "lock"):
        pass
