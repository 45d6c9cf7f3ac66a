"""The bytes of a bundle: a tar archive under xz, written the same for the same files, and read with suspicion.

A bundle comes from elsewhere: it may be cut, altered, or made to fill a disk. Nothing in it is believed unchecked.
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

_MEMORY_LIMIT_BYTES: Final = 80 * 2**20
"""For decompressing; the preset that bundles are packed with needs 65 MiB."""
_LONGEST_NAME: Final = 512
_HEADERS_BYTES: Final = 4 * tarfile.BLOCKSIZE
"""Of tar, for each file: a header for a long name, that name, the file's own header and its padding."""
_TAR_RECORD_BYTES: Final = 10_240
_PRESET: Final = 9 | lzma.PRESET_EXTREME
_CHUNK_BYTES: Final = 2**20


def write_archive(target: IO[bytes], manifest: Manifest, content_of: Callable[[FileEntry], bytes]) -> None:
    """Write the manifest and its files, in its order, without times and owners: equal files give equal bytes.

    Raises:
        BundleError: a file is no longer what the manifest says.
    """
    with (
        lzma.open(target, "wb", preset=_PRESET) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        _add(archive, MANIFEST_FILE, manifest.as_json())
        for entry in manifest.files:
            content = content_of(entry)
            if hashlib.sha256(content).hexdigest() != entry.sha256:
                raise BundleError(f"{entry.path} changed while it was packed; wait until nothing measures, then again")
            _add(archive, entry.path, content)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(content), 0o644, 0
    archive.addfile(member, io.BytesIO(content))


class BundleReader:
    """One pass through a bundle: its manifest, then its files, each compared with what the manifest says.

    Headers are read here and not by tarfile, which believes what they say: it would read a name of any length into
    memory, and expand a file with holes.
    """

    def __init__(self, source: "_BoundedXz", *, name: str, packed_bytes: int) -> None:
        self._source = source
        self._name = name
        self.manifest = self._read_manifest(packed_bytes)

    def _read_manifest(self, packed_bytes: int) -> Manifest:
        name, size = self._next_file() or ("", 0)
        if name != MANIFEST_FILE:
            raise BundleError(f"{self._name} does not begin with {MANIFEST_FILE}, so it is not a bundle of gpu-report")
        if size > MOST_BYTES:
            raise BundleError(f"{self._name}: its manifest has {size} bytes, of at most {MOST_BYTES}; {FETCH_AGAIN}")
        manifest = parse_manifest(b"".join(self._content(size)), bundle=self._name)
        if problem := size_problem(manifest.files, packed_bytes=packed_bytes):
            raise BundleError(f"{self._name}: {problem}; {FETCH_AGAIN}")
        return manifest

    def files(self) -> Iterator[tuple[FileEntry, Iterator[bytes]]]:
        """Each file with its content in pieces, all of which must be taken; until the last is, they may be altered.

        Raises:
            BundleError: a member is no plain file, is unknown, comes twice, or differs from the manifest; one is
                missing; or something follows the last one.
        """
        waiting = {entry.path: entry for entry in self.manifest.files}
        self._source.allow(total_bytes(waiting.values()) + _HEADERS_BYTES * len(waiting))
        while (found := self._next_file()) is not None:
            name, size = found
            entry = waiting.pop(name, None)
            if entry is None:
                raise BundleError(f"{self._name}: {name!r} is not in its manifest, or comes twice; {FETCH_AGAIN}")
            if size != entry.bytes:
                raise BundleError(
                    f"{self._name}: {name} has {size} bytes, its manifest says {entry.bytes}; {FETCH_AGAIN}"
                )
            yield entry, self._checked(entry)
        if waiting:
            raise BundleError(f"{self._name}: lacks {next(iter(waiting))!r}, which its manifest names; {FETCH_AGAIN}")
        self._source.finish()

    def _next_file(self) -> tuple[str, int] | None:
        """Name and size of the next file, whose content follows; None at the archive's end."""
        header = self._next_header()
        if header is None:
            return None
        name = header.name
        if header.type == tarfile.GNUTYPE_LONGNAME:
            if not 0 < header.size <= _LONGEST_NAME:
                raise BundleError(f"{self._name}: a name has {header.size} bytes; {FETCH_AGAIN}")
            name = b"".join(self._content(header.size)).rstrip(b"\0").decode("utf-8", "replace")
            header = self._next_header()
        if header is None or header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or header.size < 0:
            raise BundleError(f"{self._name}: {name!r} is not a plain file; {FETCH_AGAIN}")
        return name, header.size

    def _next_header(self) -> tarfile.TarInfo | None:
        block = self._source.read(tarfile.BLOCKSIZE)
        if block == tarfile.NUL * tarfile.BLOCKSIZE:
            return None
        return tarfile.TarInfo.frombuf(block, "utf-8", "replace")

    def _checked(self, entry: FileEntry) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for chunk in self._content(entry.bytes):
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != entry.sha256:
            raise BundleError(f"{self._name}: the checksum of {entry.path} is another; {FETCH_AGAIN}")

    def _content(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            chunk = self._source.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise EOFError
            left -= len(chunk)
            yield chunk
        self._source.read(-size % tarfile.BLOCKSIZE)


@contextmanager
def open_bundle(path: Path) -> Iterator[BundleReader]:
    """Read a bundle; what the archive's own readers complain of while it is open becomes an error of ours.

    Raises:
        BundleError: the file is missing, cut short, damaged or not trustworthy.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise BundleError(
            f"cannot read bundle {path}: {error.strerror}; gpu-report machines lists those that are there"
        ) from error
    try:
        with file:
            source = _BoundedXz(file, MOST_BYTES + _HEADERS_BYTES)
            yield BundleReader(source, name=str(path), packed_bytes=path.stat().st_size)
    except EOFError as error:
        raise BundleError(f"{path} is cut short: its end is missing; {FETCH_AGAIN}") from error
    except (lzma.LZMAError, tarfile.TarError) as error:
        raise BundleError(f"{path} is damaged or no bundle ({error}); {FETCH_AGAIN}") from error


def read_manifest(bundle: Path) -> Manifest:
    """What the bundle says of itself; the files behind its manifest are not looked at.

    Raises:
        BundleError: there is no such bundle, or its manifest cannot be trusted.
    """
    with open_bundle(bundle) as reader:
        return reader.manifest


class _BoundedXz:
    """The decompressed bytes of an xz file, as a stream that refuses to give more than was allowed."""

    def __init__(self, file: IO[bytes], allowed_bytes: int) -> None:
        self._file = file
        self._decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT_BYTES)
        self._allowed_bytes = allowed_bytes
        self._given_bytes = 0

    def allow(self, further_bytes: int) -> None:
        """From here on give this much, and the padding at the archive's end."""
        self._allowed_bytes = self._given_bytes + further_bytes + 2 * _TAR_RECORD_BYTES

    def read(self, size: int) -> bytes:
        """As many bytes as asked for, or what is left before the end.

        Raises:
            EOFError: the file ends before its data does.
            BundleError: more came out than was allowed.
        """
        parts: list[bytes] = []
        while size > 0 and not self._decompressor.eof:
            compressed = self._file.read(_CHUNK_BYTES) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not compressed:
                raise EOFError
            part = self._decompressor.decompress(compressed, max_length=size)
            parts.append(part)
            size -= len(part)
            self._given_bytes += len(part)
            if self._given_bytes > self._allowed_bytes:
                raise BundleError(f"{self._file.name}: unpacks to more than its manifest says; {FETCH_AGAIN}")
        return b"".join(parts)

    def finish(self) -> None:
        """Read the padding, so that the checksum of the whole is compared, and see that nothing follows."""
        while self.read(_CHUNK_BYTES):
            continue
        if self._decompressor.unused_data or self._file.read(1):
            raise BundleError(f"{self._file.name}: something follows its end; {FETCH_AGAIN}")
