"""From a bundle to a machine's folder of results: everything is checked before anything appears
there.

tar.xz -> manifest -> each file with its checksum, in a temporary folder -> its schema -> its place

A bundle comes from elsewhere: it may be cut or damaged. Everything in it is checked, but its
numbers are the sender's: anyone who changes a file can compute its checksum again.
"""

import hashlib
import lzma
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from gpu_report.bundles.manifest import (
    BESIDE,
    FETCH_AGAIN,
    MANIFEST,
    MANIFEST_FILE,
    RAW_FOLDERS,
    RECORD_NAME,
    TABLES_FOLDER,
    Manifest,
    read_own,
    why_no_trace,
)
from gpu_report.errors import BundleError, RecordError, TableError
from gpu_report.records.batch_sizes import SEARCHES_FOLDER
from gpu_report.records.record import (
    RECORD_FILE,
    SCHEMA_VERSION,
    SENTINELS_FOLDER,
    Record,
)
from gpu_report.storage.files import unfinished_folder, write_errors
from gpu_report.traces.tables import read_trace_tables

_MOST_BYTES: Final = 8 << 30
_MOST_OF_MANIFEST: Final = 64 << 20
"""What a bundle may unpack to, and the manifest, which is read into memory: zeros pack well, so
that a small file may fill a disk.
"""
_MOST_OF_NAME: Final = 1 << 16
_KINDS: Final = (*tarfile.REGULAR_TYPES, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME)
"""Files, and what gives one a long name, which tarfile reads into memory."""
_RUNS: Final = f"runs/*/{RECORD_NAME}"


def unpack(bundle: Path, machines: Path) -> tuple[Path, Manifest, list[str]]:
    """Put a bundle's results into the folder of its machine, inside the folder of all machines.

    A variant that is measured there already is left as it is. All files get the same time, so that
    none seems older than what it was made from.

    Returns:
        The machine's folder, what the bundle says of itself, and the variants that were there
        already.

    Raises:
        BundleError: the bundle is cut short, damaged, of another schema, or contains what does not
            belong in it; then nothing has been put anywhere.
        FileWriteError: the folder cannot be written.
    """
    with write_errors(machines), unfinished_folder(machines / bundle.name) as folder:
        with _opened(bundle) as (archive, manifest):
            _extract(archive, manifest, folder)
        try:
            _check(folder, manifest)
        except (BundleError, RecordError, TableError) as error:
            said = str(error).replace(f"{folder}/", "").partition("; ")[0]
            raise BundleError(f"{bundle}: {said}; {FETCH_AGAIN}") from error
        # A variant that did not fit has them empty; without them it would count as not measured.
        for slug in manifest.variants if manifest.with_traces else ():
            for name in RAW_FOLDERS:
                (folder / "runs" / slug / name).mkdir(exist_ok=True)
        now = time.time()
        for path in folder.rglob("*"):
            os.utime(path, (now, now))
        placed_in = machines / manifest.machine
        # A run is moved as a whole, so that an interruption leaves whole runs.
        (placed_in / "runs").mkdir(parents=True, exist_ok=True)
        kept = [
            slug for slug in manifest.variants if (placed_in / "runs" / slug / RECORD_NAME).exists()
        ]
        for slug in [each for each in manifest.variants if each not in kept]:
            shutil.rmtree(placed_in / "runs" / slug, ignore_errors=True)
            (folder / "runs" / slug).rename(placed_in / "runs" / slug)
        # Of a bundle without searches or sentinels they are empty; without them, they would count
        # as not unpacked.
        for name in (SEARCHES_FOLDER, SENTINELS_FOLDER):
            (placed_in / name).mkdir(exist_ok=True)
        for path in (path for pattern in BESIDE for path in folder.glob(pattern)):
            if not (target := placed_in / path.relative_to(folder)).exists():
                path.rename(target)
        return placed_in, manifest, kept


def read_manifest(bundle: Path) -> Manifest:
    """What the bundle says of itself; the files behind its manifest are not looked at.

    Raises:
        BundleError: there is no such bundle, or its manifest cannot be trusted.
    """
    with _opened(bundle) as (_, manifest):
        return manifest


class _Member(tarfile.TarInfo):
    """A member, refused before tarfile follows it where no sound bundle has one like it."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type not in _KINDS:
            raise ValueError(f"holds {member.name!r}, which is no file")
        if member.size < 0 or (not member.isreg() and member.size > _MOST_OF_NAME):
            raise ValueError(f"holds {member.name!r} of {member.size} bytes")
        return member


def _extract(archive: tarfile.TarFile, manifest: Manifest, folder: Path) -> None:
    missing = {entry.path: entry.sha256 for entry in manifest.files}
    room = _MOST_BYTES
    while member := archive.next():
        content = archive.extractfile(member) if member.isreg() else None
        if content is None or member.name not in missing:
            raise ValueError(
                f"holds {member.name!r:.200}, which is no file that its manifest names"
            )
        room -= member.size
        if room < 0:
            raise ValueError(f"more than {_MOST_BYTES >> 30} GiB of files")
        target = folder / member.name  # no path of a manifest leaves the folder
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("w+b") as file:
            shutil.copyfileobj(content, file)
            file.seek(0)
            if hashlib.file_digest(file, "sha256").hexdigest() != missing.pop(member.name):
                raise ValueError(f"the checksum of {member.name} is another")
    if missing:
        raise ValueError(f"lacks {next(iter(missing))!r}, which its manifest names")


@contextmanager
def _opened(bundle: Path) -> Iterator[tuple[tarfile.TarFile, Manifest]]:
    """Read up to the manifest; what is wrong while the bundle is open becomes one error."""
    try:
        file = bundle.open("rb")
    except OSError as error:
        raise BundleError(
            f"cannot read bundle {bundle}: {error.strerror}; gpu-report machines lists those that "
            "are there"
        ) from error
    try:
        with file, tarfile.open(fileobj=file, mode="r|xz", tarinfo=_Member) as archive:
            member = archive.next()
            content = archive.extractfile(member) if member and member.isreg() else None
            if member is None or member.name != MANIFEST_FILE or content is None:
                raise ValueError(f"does not begin with {MANIFEST_FILE}")
            if member.size > _MOST_OF_MANIFEST:
                raise ValueError(f"a manifest of {member.size >> 20} MiB")
            manifest = MANIFEST.parse(content.read(), where=f"manifest of {bundle}")
            version = manifest.record_schema_version
            if version != SCHEMA_VERSION:
                action = "update gpu-report" if version > SCHEMA_VERSION else MANIFEST.older
                raise BundleError(
                    f"{bundle}: its records have schema version {version}, this gpu-report reads "
                    f"{SCHEMA_VERSION}; {action}"
                )
            if len(manifest.variants) != manifest.records:
                raise ValueError(
                    f"says {manifest.records} records and names {len(manifest.variants)}"
                )
            yield archive, manifest
    except (EOFError, lzma.LZMAError, tarfile.TarError, ValueError, RecursionError) as error:
        raise BundleError(
            f"{bundle} is no bundle; two traces are compared by gpu-report trace-diff"
            if ".json" in bundle.suffixes
            else f"{bundle} is damaged or no bundle: {error}; {FETCH_AGAIN}"
        ) from error


def _check(folder: Path, manifest: Manifest) -> None:
    """Whether the files are of the manifest's machine, and of the names that they have.

    Raises:
        BundleError: a record, search, point or calibration is not.
        RecordError: it cannot be read, or lacks its trace.
        TableError: a trace table cannot be read.
    """
    for slug in manifest.variants:
        run = folder / "runs" / slug
        record = read_own(RECORD_FILE, run / RECORD_NAME, machine=manifest.machine)
        if manifest.with_traces and why_no_trace(run, record):
            raise RecordError(f"lacks the trace of {slug}")
        try:
            read_trace_tables(run / TABLES_FOLDER)
        except TableError:  # where the trace comes along, those of another version are left out
            if not manifest.with_traces:
                raise
            shutil.rmtree(run / TABLES_FOLDER, ignore_errors=True)
    for pattern, kind in BESIDE.items():
        for path in folder.glob(pattern):
            read_own(kind, path, machine=manifest.machine)


@contextmanager
def results_at(path: Path) -> Iterator[Path]:
    """The folder of a machine's results; that of a bundle is temporary.

    Raises:
        BundleError: there is no bundle and no such folder, the bundle cannot be trusted, or the
            folder holds the results of several machines.
    """
    if path.is_dir():
        found = sorted(
            {
                record.parents[2]
                for start in ("", "*/", "*/*/")
                for record in path.glob(f"{start}{_RUNS}")
            }
        )
        if not found:
            raise BundleError(
                f"{path} holds no results; name a bundle, or a folder of results/machines"
            )
        if len(found) > 1:
            raise BundleError(
                f"{path} holds the results of {len(found)} machines; name one of them, such as "
                f"{found[0]}"
            )
        yield found[0]
    else:
        with tempfile.TemporaryDirectory(prefix="gpu-report-bundle-") as folder:
            yield unpack(path, Path(folder))[0]


def records_in(folder: Path) -> dict[str, Record]:
    """Every record of a machine's folder of results by the name of its configuration, in the order
    of the names.

    Raises:
        RecordError: one cannot be read.
    """
    return {record.variant: record for record in map(RECORD_FILE.read, sorted(folder.glob(_RUNS)))}
