"""A bundle made to harm is refused in one line, and takes neither the machine's memory nor its
disk.

Every hostile bundle is small. Each is unpacked, and listed as a published one is, in a process
whose memory is watched.
"""

import io
import json
import lzma
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_report.bundles.unpacking import read_manifest, unpack
from gpu_report.errors import BundleError

from .test_refusals import MACHINE, RECORD, SLUG, contents_of, write

MOST_BYTES: Final = 200 * 2**20
HANGS_AFTER_S: Final = 60
STEPS: Final = f"runs/{SLUG}/trace_tables/steps.csv"
JSON_BYTES: Final = 4_000_000


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


def sparse_by_gnu() -> bytes:
    """The old kind of member with holes: 1 TB of which no byte is stored."""
    block = bytearray(header("manifest.json", tarfile.GNUTYPE_SPARSE))
    block[483:495] = b"\x80" + bytes(3) + (2**40).to_bytes(8, "big")
    checksum = sum(block[:148]) + 8 * ord(" ") + sum(block[156:512])
    block[148:156] = b"%06o\0 " % checksum
    return bytes(block)


def manifest_of(content: bytes) -> bytes:
    return file("manifest.json", content) + bytes(1024)


def repeated(begin: bytes, item: bytes, end: bytes) -> bytes:
    return begin + item * ((JSON_BYTES - len(begin)) // len(item)) + item.rstrip(b",") + end


def many_keys() -> bytes:
    return b"{" + b",".join(b'"%d":1' % number for number in range(JSON_BYTES // 12)) + b"}"


BEGIN: Final = b'{"schema_version": 3, "files": ['
ARCHIVES: Final[dict[str, Callable[[], bytes]]] = {
    "a sparse file of 1 TB in a PAX header": lambda: extended(
        **{
            "GNU.sparse.major": "0",
            "GNU.sparse.minor": "1",
            "GNU.sparse.size": "1" + "0" * 12,
            "GNU.sparse.map": "0,0",
        }
    ),
    "a sparse file whose map is malformed": lambda: extended(
        **{"GNU.sparse.map": "one,two", "GNU.sparse.size": "x"}
    ),
    "an old sparse file of 1 TB": sparse_by_gnu,
    "a PAX header of 4 GiB": lambda: (
        header("././@PaxHeader", tarfile.XHDTYPE, 2**32) + bytes(2**26)
    ),
    "a global PAX header": lambda: file(
        "././@PaxHeader", b"24 comment=one of a kind\n", tarfile.XGLTYPE
    ),
    "a PAX header of Solaris": lambda: file(
        "././@PaxHeader", b"18 path=elsewhere\n", tarfile.SOLARIS_XHDTYPE
    ),
    "a long link of 8 GiB": lambda: (
        header("././@LongLink", tarfile.GNUTYPE_LONGLINK, 2**33) + bytes(2**26)
    ),
    "a name without end": lambda: file("././@LongLink", b"", tarfile.GNUTYPE_LONGNAME) * 100_000,
    "a manifest of 1 TB": lambda: header("manifest.json", size=2**40) + bytes(2**26),
    "a manifest of less than nothing": lambda: header("manifest.json", size=-512) + bytes(1024),
    "lists nested 100,000 deep": lambda: manifest_of(b"[" * 100_000),
    "objects nested 100,000 deep": lambda: manifest_of(b'{"files":' * 100_000),
    "a million empty lists": lambda: manifest_of(repeated(BEGIN, b"[],", b"]}")),
    "a million empty objects": lambda: manifest_of(repeated(BEGIN, b"{},", b"]}")),
    "a million numbers": lambda: manifest_of(repeated(BEGIN, b"1,", b"]}")),
    "a million devices": lambda: manifest_of(
        repeated(b'{"schema_version": 3, "devices": [', b'"",', b"]}")
    ),
    "half a million unknown keys": lambda: manifest_of(many_keys()),
    "half a character": lambda: manifest_of(b'{"schema_version": 3, "hardware": "\\ud800"}'),
    "a number of 10,000 digits": lambda: manifest_of(b'{"schema_version": ' + b"9" * 10_000 + b"}"),
    "nothing": lambda: b"",
    "an end and no file": lambda: bytes(1024),
    "half a header": lambda: header("manifest.json")[:100],
}
"""Without a sound manifest, by what they begin with."""


def is_one_line(error: str | None) -> bool:
    return bool(error) and "\n" not in str(error) and len(str(error)) < 1000


def unpack_and_list(folder: Path) -> None:
    """Print for every bundle of the folder what is said of it, and last this process's peak of
    memory in bytes.
    """
    for bundle in sorted(folder.glob("*.tar.xz")):
        for carry_out in (partial(unpack, bundle, folder / "into"), partial(read_manifest, bundle)):
            try:
                carry_out()
                print(json.dumps({"bundle": bundle.name, "error": None}))
            except BundleError as error:
                print(json.dumps({"bundle": bundle.name, "error": str(error)}))
    # Unlike what getrusage says, this does not begin with the peak of the process that started this
    # one.
    status = Path("/proc/self/status").read_text("ascii")
    print(1024 * int(status.partition("VmHWM:")[2].split()[0]))


def said_of(folder: Path) -> Iterator[tuple[str, list[str | None]]]:
    command = [
        sys.executable,
        "-c",
        f"from {__name__} import *; unpack_and_list(Path({str(folder)!r}))",
    ]
    answer = subprocess.run(
        command,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    *lines, peak_bytes = answer.stdout.splitlines()
    assert int(peak_bytes) < MOST_BYTES
    errors: dict[str, list[str | None]] = {}
    for line in map(json.loads, lines):
        errors.setdefault(line["bundle"], []).append(line["error"])
    yield from errors.items()


def test_no_small_bundle_takes_memory_or_is_unpacked(sound: Path, tmp_path: Path) -> None:
    for number, make in enumerate(ARCHIVES.values()):
        (tmp_path / f"archive{number}.tar.xz").write_bytes(lzma.compress(make(), preset=0))

    said = dict(said_of(tmp_path))

    assert len(said) == len(ARCHIVES)
    for bundle, errors in said.items():
        assert all(map(is_one_line, errors)), (bundle, errors)
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
    st.one_of(st.integers(-600, 2000), st.sampled_from([2**31, 2**40, 2**63, 8**11])),
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
        assert unpack(tmp_path / f"{name}.tar.xz", tmp_path / name).placed == (SLUG,)
