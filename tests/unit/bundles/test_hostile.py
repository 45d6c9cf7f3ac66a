"""A bundle made to harm is refused in one line, or gives what its manifest names alone."""

import io
import lzma
import shutil
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_report.bundles.unpacking import read_manifest, unpack
from gpu_report.errors import BundleError

from .test_refusals import MACHINE, RECORD, SLUG, contents_of, write


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> bytes:
    """One block, of tar's GNU format."""
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)[:512]


def file(name: str, content: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    return header(name, kind, len(content)) + content + bytes(-len(content) % 512)


def extended(**keys: str) -> bytes:
    """A PAX header with these keys, as tarfile writes it, and the member that it describes."""
    member = tarfile.TarInfo("manifest.json")
    member.pax_headers = keys
    return member.tobuf(tarfile.PAX_FORMAT)


def manifest_of(content: bytes) -> bytes:
    return file("manifest.json", content) + bytes(1024)


ARCHIVES: Final[dict[str, Callable[[], bytes]]] = {
    "a sparse file whose map is malformed": lambda: extended(
        **{"GNU.sparse.map": "one,two", "GNU.sparse.size": "x"}
    ),
    "a global PAX header": lambda: file(
        "././@PaxHeader", b"24 comment=one of a kind\n", tarfile.XGLTYPE
    ),
    "a PAX header of Solaris": lambda: file(
        "././@PaxHeader", b"18 path=elsewhere\n", tarfile.SOLARIS_XHDTYPE
    ),
    "a name without end": lambda: file("././@LongLink", b"", tarfile.GNUTYPE_LONGNAME) * 100_000,
    "a member of less than nothing": lambda: manifest_of(b"{}")[:1024] + header("x", size=-512),
    "a name of 4 GiB": lambda: header("././@LongLink", tarfile.GNUTYPE_LONGNAME, 4 << 30),
    "a manifest of less than nothing": lambda: header("manifest.json", size=-512) + bytes(1024),
    "lists nested 100,000 deep": lambda: manifest_of(b"[" * 100_000),
    "objects nested 100,000 deep": lambda: manifest_of(b'{"files":' * 100_000),
    "half a character": lambda: manifest_of(b'{"schema_version": 3, "hardware": "\\ud800"}'),
    "a number of 10,000 digits": lambda: manifest_of(b'{"schema_version": ' + b"9" * 10_000 + b"}"),
    "nothing": lambda: b"",
    "an end and no file": lambda: bytes(1024),
    "half a header": lambda: header("manifest.json")[:100],
}
"""Without a sound manifest, by what they begin with."""


def is_one_line(error: str) -> bool:
    return "\n" not in error and len(error) < 1000


@pytest.mark.parametrize("archive", ARCHIVES)
def test_an_archive_without_a_sound_manifest_is_refused(archive: str, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.tar.xz"
    bundle.write_bytes(lzma.compress(ARCHIVES[archive](), preset=0))

    for carry_out in (partial(unpack, bundle, tmp_path / "into"), partial(read_manifest, bundle)):
        with pytest.raises(BundleError) as caught:
            carry_out()

        assert is_one_line(str(caught.value))
    assert not list(tmp_path.glob("into/**/*"))


KINDS: Final = (
    *(
        tarfile.REGTYPE,
        tarfile.AREGTYPE,
        tarfile.LNKTYPE,
        tarfile.SYMTYPE,
        tarfile.DIRTYPE,
        tarfile.CONTTYPE,
    ),
    *(
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.GNUTYPE_SPARSE,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
    ),
)
MEMBERS: Final = st.builds(
    lambda name, kind, size, content: (
        header(name, kind, size) + content + bytes(-len(content) % 512)
    ),
    st.sampled_from(
        [
            "manifest.json",
            "calibration.json",
            RECORD,
            "././@LongLink",
            "../up",
            "/etc/passwd",
            "a\x1b[2J",
        ]
    ),
    st.sampled_from(KINDS),
    st.integers(-600, 2000),
    st.one_of(
        st.binary(max_size=600),
        st.just(b"27 GNU.sparse.map=0,0,0,x\n"),
        st.just(b'{"schema_version":3}'),
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(members=st.lists(MEMBERS, max_size=4), place=st.integers(0, 3), cut=st.integers(0, 600))
def test_whatever_members_an_archive_holds_it_is_refused_or_gives_what_its_manifest_names(
    sound: Path, tmp_path: Path, members: list[bytes], place: int, cut: int
) -> None:
    with tarfile.open(sound) as archive:
        ends = [member.offset_data + member.size + -member.size % 512 for member in archive]
    whole = lzma.decompress(sound.read_bytes())
    begin = ends[place - 1] if place else 0
    hostile = whole[:begin] + b"".join(members) + whole[begin + cut :]
    if hostile == whole:
        return
    bundle = tmp_path / "bundle.tar.xz"
    bundle.write_bytes(lzma.compress(hostile, preset=0))

    into, error = tmp_path / "into", ""
    try:
        unpack(bundle, into)
    except BundleError as refused:
        error = str(refused)
    if error:
        assert "\n" not in error
        assert not list(into.glob("**/*"))
    else:
        found = {
            path.relative_to(into / MACHINE).as_posix(): path
            for path in into.glob("**/*")
            if path.is_file()
        }
        assert {name: path.read_bytes() for name, path in found.items()} == {
            name: content for name, content in contents_of(sound).items() if name != "manifest.json"
        }
        shutil.rmtree(into)


def test_an_archive_as_tar_writes_it_by_hand_is_unpacked(sound: Path, tmp_path: Path) -> None:
    """Another order of nothing: the names of GNU's and of POSIX's format are read alike."""
    contents = contents_of(sound)
    write(tmp_path / "gnu.tar.xz", contents)
    with tarfile.open(tmp_path / "ustar.tar.xz", "w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

    for name in ("gnu", "ustar"):
        _, manifest, kept = unpack(tmp_path / f"{name}.tar.xz", tmp_path / name)
        assert (manifest.variants, kept) == ([SLUG], [])
