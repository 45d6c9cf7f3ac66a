import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_report.errors import FileWriteError
from gpu_report.files import write_text_atomically


def test_a_file_appears_whole_in_a_folder_made_for_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"

    write_text_atomically(path, "gänz\n")

    assert path.read_text("utf-8") == "gänz\n"
    assert [file.name for file in path.parent.iterdir()] == ["file.txt"]


def test_a_full_disk_leaves_the_old_file_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old", "utf-8")
    write = (
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from pathlib import Path; from gpu_report.files import write_text_atomically\n"
        f"write_text_atomically(Path({str(path)!r}), 'new' * 100_000)"
    )

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    failed = subprocess.run(
        [sys.executable, "-c", write], preexec_fn=limit_file_size, capture_output=True, text=True, check=False
    )

    assert "FileWriteError: cannot write" in failed.stderr
    assert "free some space" in failed.stderr
    assert path.read_text("utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_a_folder_that_is_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")

    with pytest.raises(FileWriteError, match="cannot write"):
        write_text_atomically(tmp_path / "file" / "inside.txt", "text")
