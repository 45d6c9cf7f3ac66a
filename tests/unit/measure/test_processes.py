"""Where fresh processes come from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STARTS = "from gpu_report.measure.processes import fresh_processes; fresh_processes(['json'])"
SEARCHES = """
from gpu_report.cli import main
raise SystemExit(main(["batch-size", "cnn", "--device", "cpu", "--size", "small"]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no server with a socket starts them")
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
