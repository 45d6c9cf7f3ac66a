"""From a bundle to a machine's folder of results: everything is checked before anything appears
there.

one xz stream -> tar -> manifest -> each file with its checksum, in a temporary folder -> its schema
-> its place

A bundle comes from elsewhere: it may be cut, damaged, or made to fill a disk. Everything in it is
checked, but its numbers are the sender's: anyone who changes a file can compute its checksum again.
"""

import hashlib
import io
import lzma
import math
import os
import shutil
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from gpu_report.bundles.manifest import (
    CALIBRATION_FILE,
    FETCH_AGAIN,
    HEADERS_BYTES,
    MANIFEST,
    MANIFEST_FILE,
    RAW_FOLDERS,
    RECORD_NAME,
    TABLES_FOLDER,
    Manifest,
    problems_of,
    trace_paths,
)
from gpu_report.errors import BundleError, RecordError, TableError
from gpu_report.records.batch_sizes import SEARCH_FILE, SEARCHES_FOLDER
from gpu_report.records.calibration import CALIBRATION_FILE as CALIBRATIONS
from gpu_report.records.record import RECORD_FILE
from gpu_report.storage.files import unfinished_folder, write_errors
from gpu_report.storage.json_files import MOST_BYTES
from gpu_report.traces.tables import file_name, read_trace_tables

_CHUNK_BYTES: Final = 2**20
_MEMORY_BYTES: Final = 128 * 2**20
"""Memory that unpacking may take: twice what xz's strongest preset needs. A dictionary in xz may
have up to 4 GiB.
"""
_SMALLEST: Final = 1e-30
_LARGEST: Final = 1e30
"""Beyond what a trace can show; quotients of such numbers would not be finite."""


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    """What a bundle was turned into: variants put in place, and those that were there already and
    stay as they were.
    """

    folder: Path
    manifest: Manifest
    placed: tuple[str, ...]
    kept: tuple[str, ...]


def unpack(bundle: Path, machines: Path) -> Unpacked:
    """Put a bundle's results into the folder of its machine, inside the folder of all machines.

    A variant that is measured there already is left as it is. All files get the same time, so that
    none seems older than what it was made from.

    Raises:
        BundleError: the bundle is cut short, damaged, of another schema, or contains what does not
            belong in it; then nothing has been put anywhere.
        FileWriteError: the folder cannot be written.
    """
    with write_errors(machines), unfinished_folder(machines / bundle.name) as folder:
        manifest = _extract(bundle, folder)
        try:
            _check(folder, manifest)
        except (RecordError, TableError) as error:
            said = str(error).replace(f"{folder}/", "").partition("; ")[0]
            raise BundleError(f"{bundle}: {said}; {FETCH_AGAIN}") from error
        # A variant that did not fit has them empty; without them it would count as not measured.
        for slug in manifest.variants if manifest.with_traces else ():
            for name in RAW_FOLDERS:
                (folder / "runs" / slug / name).mkdir(exist_ok=True)
        now = time.time()
        for path in folder.rglob("*"):
            os.utime(path, (now, now))
        return _put_in_place(folder, machines / manifest.machine, manifest)


def read_manifest(bundle: Path) -> Manifest:
    """What the bundle says of itself; the files behind its manifest are not looked at.

    Raises:
        BundleError: there is no such bundle, or its manifest cannot be trusted.
    """
    with _opened(bundle) as (_, _, manifest):
        return manifest


def _extract(bundle: Path, folder: Path) -> Manifest:
    """Write every file of the bundle into the folder, each as the manifest says."""
    with _opened(bundle) as (archive, stream, manifest):
        waiting = {entry.path: entry for entry in manifest.files}
        stream.left_bytes = manifest.unpacked_bytes + 2 * tarfile.RECORDSIZE
        while (member := archive.next()) is not None:
            if (content := _content(archive, member)) is None:
                raise ValueError(f"{member.name!r} is not a plain file")
            entry = waiting.pop(member.name, None)
            if entry is None:
                raise ValueError(f"{member.name!r} is not in its manifest, or comes twice")
            if member.size != entry.bytes:
                raise ValueError(
                    f"{entry.path} has {member.size} bytes, its manifest says {entry.bytes}"
                )
            target = folder / entry.path  # no path of a manifest leaves the folder
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x+b") as file:
                shutil.copyfileobj(content, file)
                file.seek(0)
                if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
                    raise ValueError(f"the checksum of {entry.path} is another")
        if waiting:
            raise ValueError(f"lacks {next(iter(waiting))!r}, which its manifest names")
        while rest := stream.read(_CHUNK_BYTES):  # to the end, where xz checks the whole stream
            if any(rest):
                raise ValueError("has something behind its last file")
        return manifest


@contextmanager
def _opened(bundle: Path) -> "Iterator[tuple[tarfile.TarFile, _OneStream, Manifest]]":
    """Read up to the manifest; what is wrong while the bundle is open becomes one error."""
    try:
        file = bundle.open("rb")
    except OSError as error:
        raise BundleError(
            f"cannot read bundle {bundle}: {error.strerror}; gpu-report machines lists those that "
            "are there"
        ) from error
    try:
        with file, tarfile.open(fileobj=(stream := _OneStream(file)), mode="r|") as archive:
            member = archive.next()
            content = _content(archive, member) if member else None
            if member is None or member.name != MANIFEST_FILE or content is None:
                raise ValueError(f"does not begin with {MANIFEST_FILE}")
            manifest = MANIFEST.parse(
                content.read(MOST_BYTES + 1), where=f"manifest of {bundle}", from_elsewhere=True
            )
            for problem in problems_of(manifest, packed_bytes=bundle.stat().st_size):
                raise BundleError(f"{bundle}: {problem}")
            yield archive, stream, manifest
    except (
        EOFError,
        lzma.LZMAError,
        tarfile.TarError,
        ValueError,
        RecursionError,
    ) as error:  # the last two of odd headers, too
        raise BundleError(f"{bundle} is damaged or no bundle: {error}; {FETCH_AGAIN}") from error


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes] | None:
    """None of what is no plain file; a sparse one may say any size."""
    return archive.extractfile(member) if member.isreg() and not member.issparse() else None


class _OneStream(io.RawIOBase):
    """The file's one xz stream; unpacks at most `left_bytes`, at first as much as a manifest may
    have.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES)
        self.left_bytes = MOST_BYTES + HEADERS_BYTES

    def read(self, size: int = -1, /) -> bytes:
        """At most as many bytes as asked for; none at the stream's end, which must be the end of
        the file.
        """
        content = b""
        while not (content or self._xz.eof):
            packed = self._file.read(_CHUNK_BYTES) if self._xz.needs_input else b""
            if self._xz.needs_input and not packed:
                raise EOFError("its end is missing")
            content = self._xz.decompress(packed, size)
        if not content and (self._xz.unused_data or self._file.read(1)):
            raise ValueError("has further bytes behind its end")
        self.left_bytes -= len(content)
        if self.left_bytes < 0:
            raise ValueError("unpacks to more than its manifest says")
        return content


def _check(folder: Path, manifest: Manifest) -> None:
    """Whether the files are of the manifest's machine, of the names that they have, and of its
    date.

    Raises:
        RecordError: a record, search or calibration is not, cannot be read, or lacks its trace.
        TableError: a trace table cannot be read, or has an impossible number.
    """
    dates = []
    for slug in manifest.variants:
        run = folder / "runs" / slug
        record = RECORD_FILE.read(run / RECORD_NAME, from_elsewhere=True)
        _check_owner(run / RECORD_NAME, (record.machine, record.variant), (manifest.machine, slug))
        if manifest.with_traces and not all(
            (run / trace).exists() for trace in trace_paths(record)
        ):
            raise RecordError(f"lacks the trace of {slug}")
        dates.append(record.provenance.measured_at)
        _check_tables(run / TABLES_FOLDER, can_be_made_anew=manifest.with_traces)
    for slug in manifest.searches:
        path = folder / SEARCHES_FOLDER / f"{slug}.json"
        found = SEARCH_FILE.read(path, from_elsewhere=True)
        _check_owner(path, (found.machine, found.search.slug), (manifest.machine, slug))
    if manifest.has_calibration:
        path = folder / CALIBRATION_FILE
        calibration = CALIBRATIONS.read(path, from_elsewhere=True)
        _check_owner(path, (calibration.machine,), (manifest.machine,))
    if not min(dates) <= manifest.measured_at <= max(dates):
        raise RecordError(
            f"says it was measured at {manifest.measured_at}, its records from {min(dates)} to "
            f"{max(dates)}"
        )


def _check_owner(path: Path, found: tuple[str, ...], expected: tuple[str, ...]) -> None:
    if found != expected:
        raise RecordError(f"{path} is of {' on '.join(reversed(found))}")


def _check_tables(folder: Path, *, can_be_made_anew: bool) -> None:
    """Tables of another version's columns are left out where the trace comes along, so that a study
    can go on.
    """
    try:
        tables = read_trace_tables(folder)
    except TableError:
        if not can_be_made_anew:
            raise
        shutil.rmtree(folder, ignore_errors=True)
        return
    for table, rows in tables.items():
        for value in (value for row in rows for value in row.values() if isinstance(value, float)):
            if value and math.isfinite(value) and not _SMALLEST < abs(value) < _LARGEST:
                raise TableError(f"table {folder / file_name(table)}: {value} is no measurement")


def _put_in_place(unpacked: Path, folder: Path, manifest: Manifest) -> Unpacked:
    """A run is moved as a whole, so that an interruption leaves whole runs."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    kept = [slug for slug in manifest.variants if (folder / "runs" / slug / RECORD_NAME).exists()]
    placed = [slug for slug in manifest.variants if slug not in kept]
    for slug in placed:
        shutil.rmtree(folder / "runs" / slug, ignore_errors=True)
        (unpacked / "runs" / slug).rename(folder / "runs" / slug)
    # Of a bundle without searches it is empty; without it, it would count as not unpacked.
    (folder / SEARCHES_FOLDER).mkdir(exist_ok=True)
    searches = [f"{SEARCHES_FOLDER}/{slug}.json" for slug in manifest.searches]
    for name in [*searches, *([CALIBRATION_FILE] if manifest.has_calibration else [])]:
        if not (folder / name).exists():
            (unpacked / name).rename(folder / name)
    return Unpacked(folder=folder, manifest=manifest, placed=tuple(placed), kept=tuple(kept))
