"""The bytes of a bundle: a tar archive under xz, written the same for the same files, and read with
suspicion.

A bundle comes from elsewhere: it may be cut, damaged, or made to fill a disk. Everything in it is
checked, but its numbers are the sender's: anyone who changes a file can compute its checksum again.
"""

import hashlib
import io
import lzma
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from gpu_report.bundles.manifest import (
    FETCH_AGAIN,
    MANIFEST_FILE,
    FileEntry,
    Manifest,
    parse_manifest,
    size_problem,
    total_bytes,
)
from gpu_report.errors import BundleError
from gpu_report.storage.json_files import MOST_BYTES

_HEADERS_BYTES: Final = 4 * tarfile.BLOCKSIZE
"""Of tar, for each file: a header for a long name, that name, the file's own header and its
padding.
"""
_SMALLEST: Final = 9 | lzma.PRESET_EXTREME
_QUICK: Final = 1
"""With traces, which are compressed already: 79 MB of them take a quarter of the time and become 3
% larger.
"""
_CHUNK_BYTES: Final = 2**20
_MEMORY_BYTES: Final = 128 * 2**20
"""Memory that unpacking may take: twice what xz's strongest preset needs. A dictionary in xz may
have up to 4 GiB.
"""


def write_archive(
    target: IO[bytes], manifest: Manifest, content_of: Callable[[FileEntry], bytes]
) -> None:
    """Write the manifest and its files, in its order, without times and owners: equal files give
    equal bytes.

    Raises:
        BundleError: a file is no longer what the manifest says.
    """
    preset = _QUICK if any(entry.path.endswith(".gz") for entry in manifest.files) else _SMALLEST
    with (
        lzma.open(target, "wb", preset=preset) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        _add(archive, MANIFEST_FILE, manifest.as_json())
        for entry in manifest.files:
            content = content_of(entry)
            if hashlib.sha256(content).hexdigest() != entry.sha256:
                raise BundleError(
                    f"{entry.path} changed while it was packed; wait until nothing measures, then "
                    "again"
                )
            _add(archive, entry.path, content)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(content), 0o644, 0
    archive.addfile(member, io.BytesIO(content))


class BundleReader:
    """One pass through a bundle: its manifest, then its files, each compared with what the manifest
    says.
    """

    def __init__(
        self, archive: tarfile.TarFile, source: "_Bounded", *, name: str, packed_bytes: int
    ) -> None:
        self._archive = archive
        self._source = source
        self._name = name
        self.manifest = self._read_manifest(packed_bytes)

    def _read_manifest(self, packed_bytes: int) -> Manifest:
        member = self._archive.next()
        if member is None or member.name != MANIFEST_FILE or not _is_plain(member):
            raise BundleError(
                f"{self._name} does not begin with {MANIFEST_FILE}, so it is not a bundle of "
                "gpu-report"
            )
        manifest = parse_manifest(b"".join(self._content(member)), bundle=self._name)
        if problem := size_problem(manifest.files, packed_bytes=packed_bytes):
            raise BundleError(f"{self._name}: {problem}; {FETCH_AGAIN}")
        return manifest

    def files(self) -> Iterator[tuple[FileEntry, Iterator[bytes]]]:
        """Each file with its content in pieces, all of which must be taken; until the last is, they
        may be altered.

        Raises:
            BundleError: a member is no plain file, is unknown, comes twice, or differs from the
                manifest; or one is missing.
        """
        waiting = {entry.path: entry for entry in self.manifest.files}
        self._source.allow(total_bytes(waiting.values()) + _HEADERS_BYTES * len(waiting))
        while (member := self._archive.next()) is not None:
            if not _is_plain(member):
                raise BundleError(
                    f"{self._name}: {member.name!r} is not a plain file; {FETCH_AGAIN}"
                )
            entry = waiting.pop(member.name, None)
            if entry is None:
                raise BundleError(
                    f"{self._name}: {member.name!r} is not in its manifest, or comes twice; "
                    f"{FETCH_AGAIN}"
                )
            if member.size != entry.bytes:
                raise BundleError(
                    f"{self._name}: {entry.path} has {member.size} bytes, its manifest says "
                    f"{entry.bytes}; {FETCH_AGAIN}"
                )
            yield entry, self._checked(entry, member)
        if waiting:
            raise BundleError(
                f"{self._name}: lacks {next(iter(waiting))!r}, which its manifest names; "
                f"{FETCH_AGAIN}"
            )
        while rest := self._source.read(
            _CHUNK_BYTES
        ):  # to the end, where xz checks the whole stream
            if any(rest):
                raise BundleError(
                    f"{self._name}: holds something behind its last file; {FETCH_AGAIN}"
                )

    def _checked(self, entry: FileEntry, member: tarfile.TarInfo) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for chunk in self._content(member):
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != entry.sha256:
            raise BundleError(
                f"{self._name}: the checksum of {entry.path} is another; {FETCH_AGAIN}"
            )

    def _content(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        file = self._archive.extractfile(member)
        while file is not None and (chunk := file.read(_CHUNK_BYTES)):
            yield chunk


def _is_plain(member: tarfile.TarInfo) -> bool:
    return member.isreg() and not member.issparse()


@contextmanager
def open_bundle(path: Path) -> Iterator[BundleReader]:
    """Read a bundle; what the archive's own readers complain of while it is open becomes an error
    of ours.

    Raises:
        BundleError: the file is missing, cut short, damaged or not trustworthy.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise BundleError(
            f"cannot read bundle {path}: {error.strerror}; gpu-report machines lists those that "
            "are there"
        ) from error
    try:
        with file:
            source = _Bounded(file, path)
            with tarfile.open(fileobj=source, mode="r|") as archive:
                yield BundleReader(
                    archive, source, name=str(path), packed_bytes=path.stat().st_size
                )
    except EOFError as error:
        raise BundleError(f"{path} is cut short: its end is missing; {FETCH_AGAIN}") from error
    except (
        lzma.LZMAError,
        tarfile.TarError,
        ValueError,
        RecursionError,
    ) as error:  # the last two of odd headers
        raise BundleError(f"{path} is damaged or no bundle ({error}); {FETCH_AGAIN}") from error


def read_manifest(bundle: Path) -> Manifest:
    """What the bundle says of itself; the files behind its manifest are not looked at.

    Raises:
        BundleError: there is no such bundle, or its manifest cannot be trusted.
    """
    with open_bundle(bundle) as reader:
        return reader.manifest


class _Bounded(io.RawIOBase):
    """A file of one xz stream. It unpacks no more than was allowed: the manifest, then the files
    that it names.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES)
        self._left_bytes = MOST_BYTES + _HEADERS_BYTES

    def allow(self, further_bytes: int) -> None:
        """From here on give this much, and the padding at the archive's end."""
        self._left_bytes = further_bytes + 2 * tarfile.RECORDSIZE

    def read(self, size: int = -1, /) -> bytes:
        """At most as many bytes as asked for; none at the stream's end, which must be the end of
        the file.
        """
        content = b""
        while not (content or self._stream.eof):
            packed = self._file.read(_CHUNK_BYTES) if self._stream.needs_input else b""
            if self._stream.needs_input and not packed:
                raise EOFError
            content = self._stream.decompress(packed, size)
        if not content and (self._stream.unused_data or self._file.read(1)):
            raise BundleError(f"{self._path}: has further bytes behind its end; {FETCH_AGAIN}")
        self._left_bytes -= len(content)
        if self._left_bytes < 0:
            raise BundleError(
                f"{self._path}: unpacks to more than its manifest says; {FETCH_AGAIN}"
            )
        return content
