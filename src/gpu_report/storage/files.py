"""Writing files whole or not at all, so that an interruption leaves the old file or the new one,
never half of one.

What is not yet whole is in a locked folder. The system unlocks it when its process ends, however it
ends, so that the next run finds what a killed one left, and removes it.
"""

import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from gpu_report.errors import FileWriteError

NEEDED_BYTES: Final = 64 * 2**20
"""A variant's record, trace and memory snapshot take up to 40 MiB."""
DISK_TROUBLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
"""What a system says where a disk is full, a quota is used up, or a disk cannot be written any
more.
"""
_UNFINISHED: Final = ".unfinished"
_LONGEST_SOCKET: Final = 103  # characters of a socket's path, on macOS; on Linux 107
_OPEN_FILES: Final = ("/dev/std", "/dev/fd/", "/proc/self/fd/")
_LONGEST_BELOW: Final = len("/.gpr-12345678.tmp/pymp-12345678/listener-12345678")


def write_text_atomically(path: Path, text: str) -> None:
    """Write text as UTF-8 beside the target, flush it to disk and rename it into place.

    Raises:
        FileWriteError: the folder cannot be written or the disk is full; an existing file is left
            as it was.
    """
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write bytes beside the target, flush them to disk and rename them into place; a link stays
    one. A device, a pipe or an open file such as /dev/stdout takes them after what it has.

    Raises:
        FileWriteError: the folder cannot be written or the disk is full; an existing file is left
            as it was.
    """
    with write_errors(path), ExitStack() as stack:
        if _is_stream(path):
            stack.enter_context(path.open("ab")).write(content)
            return
        target = Path(os.path.realpath(path))
        folder = stack.enter_context(unfinished_folder(target))
        with (folder / target.name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        (folder / target.name).replace(target)


def require_writable(path: Path) -> None:
    """Find out before a long measurement whether a file can be written after it; what is there
    stays as it is. Of a device or a pipe nothing is found out, as its reader would notice.

    Raises:
        FileWriteError: the file or its folder cannot be written, or a folder has the name.
    """
    with write_errors(path):
        if not _is_stream(path):
            with unfinished_folder(path), suppress(FileNotFoundError):
                os.close(os.open(path, os.O_WRONLY))


def _is_stream(path: Path) -> bool:
    """Whether it is a device or pipe, or leads to a file that another program has open."""
    is_open = str(path.absolute()).startswith(_OPEN_FILES)
    return is_open or (path.exists() and not (path.is_file() or path.is_dir()))


@contextmanager
def write_errors(target: Path) -> Iterator[None]:
    """What the system refuses while the target is written becomes one error.

    Raises:
        FileWriteError: an OSError was raised within.
    """
    try:
        yield
    except OSError as error:
        where = (
            f" ({error.filename})"
            if error.filename and _UNFINISHED not in str(error.filename)
            else ""
        )
        remedy = (
            "name a file"
            if isinstance(error, IsADirectoryError)
            else "free some space or allow writing there, then run the same again"
        )
        raise FileWriteError(f"cannot write {target}: {error.strerror}{where}; {remedy}") from error


@contextmanager
def unfinished_folder(target: Path) -> Iterator[Path]:
    """A folder beside the target to make it in; it is removed with what is still in it.

    Raises:
        OSError: it cannot be made.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    folder, lock = _locked_folder(target.parent, prefix=f".{target.name}.", suffix=_UNFINISHED)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """A new folder that takes the place of the old one once it is whole.

    Raises:
        OSError: it cannot be made or put in place.
    """
    with unfinished_folder(target) as unfinished:
        new = unfinished / target.name
        new.mkdir()
        yield new
        if target.exists():
            target.rename(unfinished / "old")
        new.rename(target)


def list_content(folder: Path) -> None:
    """List a folder's files in a file beside it, so that `is_whole` notices when one of them is
    missing.

    Raises:
        FileWriteError: the list cannot be written.
    """
    files = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    write_text_atomically(_listing(folder), "".join(f"{name}\n" for name in files))


def is_whole(path: Path) -> bool:
    """Whether a file exists, or a folder and every file that was listed in it."""
    listed = _listing(path).read_text("utf-8").splitlines() if _listing(path).is_file() else []
    return path.exists() and all((path / name).exists() for name in listed)


def _listing(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.content")


@cache
def take_own_temporary_folder() -> None:
    """From now on, this process and those that it starts have a folder of their own in the system's
    temporary folder.

    PyTorch's compiler, its loaders and the starting of processes leave files behind where they are
    killed. Where the system's folder has a long name there is none of their own: the paths of
    sockets below it would be too long.

    Raises:
        FileWriteError: it cannot be made.
    """
    from multiprocessing.util import Finalize

    shared = Path(tempfile.gettempdir())
    if len(str(shared)) > _LONGEST_SOCKET - _LONGEST_BELOW:
        return
    try:
        # locked until this process ends
        folder, _ = _locked_folder(shared, prefix=".gpr-", suffix=".tmp")
    except OSError as error:
        raise FileWriteError(
            f"cannot write {shared}: {error.strerror}; free some space there, or set TMPDIR to "
            "another folder"
        ) from error
    # After multiprocessing, whose own folder inside is removed with priority -100.
    Finalize(None, shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True}, exitpriority=-200)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def _locked_folder(parent: Path, *, prefix: str, suffix: str) -> tuple[Path, int | None]:
    """A new folder of that name with random letters inside, and its lock, None where the file
    system has no locks.

    Those of earlier processes, which are no longer locked, are removed first.
    """
    name = re.compile(
        f"{re.escape(prefix)}[a-z0-9_]{{8}}{re.escape(suffix)}"
    )  # as tempfile names them
    with suppress(OSError):  # a folder that may be written need not be readable
        for left_over in [path for path in parent.iterdir() if name.fullmatch(path.name)]:
            with suppress(OSError):
                lock = _lock(left_over)
                shutil.rmtree(left_over, ignore_errors=True)
                os.close(lock)
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix, suffix=suffix))
        try:
            return folder, _lock(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # another process took it for a left-over one before it was locked
        except OSError:
            return folder, None  # some network file systems have no locks


def _lock(folder: Path) -> int:
    """An open descriptor of the folder, which is this user's, locked and still there.

    Raises:
        OSError: it is no folder, somebody else's, locked or gone.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise PermissionError
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.lstat()
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def require_space(folder: Path, *, needed_bytes: int = NEEDED_BYTES) -> None:
    """Reserve that much in the folder and give it back: quotas and limits count as well as the
    disk.

    Raises:
        FileWriteError: there is not as much, or the folder cannot be written.
    """
    try:
        with (
            unfinished_folder(folder / "space") as unfinished,
            (unfinished / "reserved").open("wb") as file,
        ):
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, needed_bytes)
            elif shutil.disk_usage(folder).free < needed_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        problem = (
            f"has no room for {needed_bytes >> 20} MiB more"
            if error.errno in DISK_TROUBLE
            else "cannot be written"
        )
        raise FileWriteError(
            f"{folder} {problem}: {error.strerror}; free some space or allow writing there, then "
            "run the same again"
        ) from error
