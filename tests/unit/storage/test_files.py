import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpu_report.errors import FileWriteError
from gpu_report.storage.files import (
    is_whole,
    list_content,
    require_space,
    require_writable,
    unfinished_folder,
    write_text_atomically,
)


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
        "from pathlib import Path; from gpu_report.storage.files import write_text_atomically\n"
        f"write_text_atomically(Path({str(path)!r}), 'new' * 100_000)"
    )

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    failed = subprocess.run(
        [sys.executable, "-c", write],
        preexec_fn=limit_file_size,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "FileWriteError: cannot write" in failed.stderr
    assert "free some space" in failed.stderr
    assert path.read_text("utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_a_folder_that_is_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")

    with pytest.raises(FileWriteError, match="cannot write"):
        write_text_atomically(tmp_path / "file" / "inside.txt", "text")


def run_until_it_prints(code: str, **environment: str) -> "subprocess.Popen[str]":
    """A Python process that runs the code, which prints a line and goes on."""
    code = f"import time; from pathlib import Path; from gpu_report.storage.files import *; {code}"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_what_a_killed_run_left_is_removed_by_the_next_one_and_what_a_living_one_makes_is_not(
    tmp_path: Path,
) -> None:
    target = tmp_path / "logs [1]"
    making = f"made = unfinished_folder(Path({str(target)!r})); (made.__enter__() / 'part').touch()"
    killed, living = (
        run_until_it_prints(f"{making}; print(flush=True); time.sleep(600)") for _ in range(2)
    )
    try:
        kill(killed)
        assert len(list(tmp_path.iterdir())) == 2

        with unfinished_folder(target) as own:
            left = set(tmp_path.iterdir()) - {own}

        assert len(left) == 1
        assert [path.name for path in left.pop().iterdir()] == ["part"]
    finally:
        kill(living)


def test_a_target_that_many_write_at_once_is_whole_and_nothing_is_left(tmp_path: Path) -> None:
    target = tmp_path / "here.json"
    texts = [str(number) * 10_000 for number in range(10)]

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda text: write_text_atomically(target, text), texts * 20))

    assert target.read_text("utf-8") in texts
    assert list(tmp_path.iterdir()) == [target]


def test_the_temporary_files_of_a_killed_process_are_removed_by_the_next_one(
    short_folder: Path,
) -> None:
    (short_folder / "gpu-report-measuring.lock").touch()
    code = (
        "take_own_temporary_folder(); tempfile.mkdtemp(prefix='pymp-'); print(flush=True); "
        "time.sleep(600)"
    )
    kill(run_until_it_prints(code, TMPDIR=str(short_folder)))
    assert list(short_folder.glob(".gpr-*.tmp/pymp-*"))

    ended = run_until_it_prints(code.removesuffix("; time.sleep(600)"), TMPDIR=str(short_folder))
    ended.communicate()

    assert ended.returncode == 0
    assert [path.name for path in short_folder.iterdir()] == ["gpu-report-measuring.lock"]


def test_folders_that_are_named_alike_by_a_person_stay(short_folder: Path) -> None:
    for name in ("gpu-report.git", ".gpr-backup.tmp", ".file.old.unfinished"):
        (short_folder / name / "kept").mkdir(parents=True)
    take = (
        "take_own_temporary_folder(); write_text_atomically(Path(tempfile.gettempdir()).parent / "
        "'file', ''); print()"
    )

    run_until_it_prints(take, TMPDIR=str(short_folder)).communicate()

    assert len(list(short_folder.glob("*/kept"))) == 3


@pytest.mark.parametrize("name", ["old.json", "new/file.json"])
def test_asking_whether_a_file_can_be_written_changes_no_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("old", "utf-8")

    require_writable(tmp_path / name)

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.read_text("utf-8") for path in files] == ["old"]


@pytest.mark.parametrize("name", ["folder", "file/inside", "protected", "loop", "n" * 300])
def test_what_cannot_be_written_is_found_when_it_is_asked_for(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for file in ("file", "protected"):
        (tmp_path / file).touch()
    (tmp_path / "protected").chmod(0o400)
    if name == "protected" and os.access(tmp_path / name, os.W_OK):
        pytest.skip("this user may write every file")

    with pytest.raises(FileWriteError, match=name):
        require_writable(tmp_path / name)


def test_a_pipe_takes_the_text_and_its_reader_notices_nothing_before(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reading:
        text = reading.submit(pipe.read_text, "utf-8")

        require_writable(pipe)
        write_text_atomically(pipe, "text")

        assert text.result(10) == "text"
    assert pipe.is_fifo()


def test_what_a_shell_appends_to_keeps_what_it_has(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n", "utf-8")
    with log.open("ab") as stream:
        path = Path(f"/dev/fd/{stream.fileno()}")

        require_writable(path)
        write_text_atomically(path, "text\n")

    assert log.read_text("utf-8") == "earlier\ntext\n"


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_text("old", "utf-8")

    write_text_atomically(tmp_path / "link", "new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text("utf-8") == "new"


def test_space_that_is_not_there_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    require_space(tmp_path, needed_bytes=2**20)

    with pytest.raises(FileWriteError, match=r"has no room for \d+ MiB more: .*; free some space"):
        require_space(tmp_path, needed_bytes=2**60)

    assert not list(tmp_path.iterdir())


def test_a_folder_is_whole_as_long_as_every_file_that_was_listed_in_it_is_there(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "figures"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/one.pdf").write_text("1", "utf-8")
    assert is_whole(folder)  # nothing is listed

    list_content(folder)
    (folder / "added.pdf").write_text("2", "utf-8")
    assert is_whole(folder)
    (folder / "inner/one.pdf").unlink()
    assert not is_whole(folder)
    assert not is_whole(tmp_path / "nothing here")
    assert sorted(path.name for path in folder.iterdir()) == ["added.pdf", "inner"]
