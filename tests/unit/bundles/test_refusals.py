"""A bundle that was cut, damaged or made to harm is refused with the reason, and nothing of it is
put anywhere.
"""

import hashlib
import io
import json
import lzma
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_report.bundles.packing import pack
from gpu_report.bundles.unpacking import read_manifest, unpack
from gpu_report.errors import BundleError
from gpu_report.traces.steps import STEPS
from tests.factories import make_record, make_study
from tests.machine_results import write_results

MACHINE = "h100-80gb-x1-xeon-16c"
SLUG = make_study().variants[0].slug
RECORD = f"runs/{SLUG}/record.json"

Contents = dict[str, bytes]


@pytest.fixture
def bundle(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy2(sound, tmp_path))


def contents_of(bundle: Path) -> Contents:
    with tarfile.open(bundle) as archive:
        return {member.name: _content(archive, member) for member in archive}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def write(bundle: Path, contents: Contents, *further: tarfile.TarInfo) -> None:
    with tarfile.open(bundle, "w:xz", format=tarfile.GNU_FORMAT) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in further:
            archive.addfile(member, io.BytesIO(bytes(member.size)))


def edit_manifest(bundle: Path, change: Callable[[dict[str, Any]], object]) -> None:
    contents = contents_of(bundle)
    manifest = json.loads(contents["manifest.json"])
    change(manifest)
    write(bundle, {**contents, "manifest.json": json.dumps(manifest).encode()})


def replace_file(bundle: Path, path: str, content: bytes) -> None:
    """The file and what the manifest says of it: an alteration that no checksum shows."""
    contents = contents_of(bundle)
    manifest = json.loads(contents["manifest.json"])
    entry = next(entry for entry in manifest["files"] if entry["path"] == path)
    entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    write(bundle, {**contents, path: content, "manifest.json": json.dumps(manifest).encode()})


def add_file(path: str) -> Callable[[dict[str, Any]], object]:
    entry = {"path": path, "bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    return lambda manifest: manifest["files"].append(entry)


def assert_refused(bundle: Path, folder: Path, message: str) -> None:
    with pytest.raises(BundleError, match=message) as caught:
        unpack(bundle, folder / "into")

    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(bundle)) or str(bundle) in str(caught.value)
    assert not list((folder / "into").glob("**/*"))


MANIFESTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "schema version 99, this gpu-report reads 3; update gpu-report": lambda manifest: (
        manifest.update(schema_version=99)
    ),
    "records have schema version 99.*update gpu-report": lambda manifest: manifest.update(
        record_schema_version=99
    ),
    "has no schema_version": lambda manifest: manifest.pop("schema_version"),
    ": machine: String should match": lambda manifest: manifest.update(machine="../elsewhere"),
    ": colour: Extra inputs": lambda manifest: manifest.update(colour="red"),
    "'../../escaped', which is not among": add_file("../../escaped"),
    "'runs/a/record.json', which is not among": add_file("runs/a/record.json"),
    "records have schema version 1,.*packed anew": lambda manifest: manifest.update(
        record_schema_version=1
    ),
    "'/etc/passwd', which is not among": add_file("/etc/passwd"),
    f"'runs/{SLUG}/trace/rank0.gz', although it says that it has no traces": add_file(
        f"runs/{SLUG}/trace/rank0.gz"
    ),
    f"names '{RECORD}' twice": add_file(RECORD),
    "'calibration.json' is not in its manifest": lambda manifest: manifest["files"].pop(0),
    "says 2 records and names 1": lambda manifest: manifest.update(records=2),
    r"calibration.json has 9\d{9} bytes, of at most": lambda manifest: manifest["files"][0].update(
        bytes=9_000_000_000
    ),
    "measured_at: .* use a time in UTC": lambda manifest: manifest.update(measured_at="yesterday"),
    "calibration.json has .* bytes, its manifest says 7": lambda manifest: manifest["files"][
        0
    ].update(bytes=7),
    "the checksum of calibration.json is another": lambda manifest: manifest["files"][0].update(
        sha256="0" * 64
    ),
    "says it was measured at 2001-01-01T00:00:00Z, its records": lambda manifest: manifest.update(
        measured_at="2001-01-01T00:00:00Z"
    ),
    f"lacks runs/{SLUG}/trace_tables/steps.csv; fetch it again": lambda manifest: manifest[
        "files"
    ].remove(next(entry for entry in manifest["files"] if entry["path"].endswith("/steps.csv"))),
}


@pytest.mark.parametrize("message", MANIFESTS)
def test_an_altered_manifest_is_refused(bundle: Path, tmp_path: Path, message: str) -> None:
    edit_manifest(bundle, MANIFESTS[message])

    assert_refused(bundle, tmp_path, message)


def link(name: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


def test_a_member_that_is_no_plain_file_is_refused(bundle: Path, tmp_path: Path) -> None:
    whole = contents_of(bundle)
    for kind in (
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        tarfile.FIFOTYPE,
        tarfile.DIRTYPE,
    ):
        write(bundle, whole, link("calibration.json", kind))

        assert_refused(bundle, tmp_path, "'calibration.json' is not a plain file")


def test_a_member_that_the_manifest_does_not_name_or_that_comes_twice_is_refused(
    bundle: Path, tmp_path: Path
) -> None:
    whole = contents_of(bundle)
    for name in ("../../escaped", "/etc/passwd", RECORD, "manifest.json"):
        write(bundle, whole, tarfile.TarInfo(name))

        assert_refused(bundle, tmp_path, f"{name!r} is not in its manifest, or comes twice")


def test_a_file_that_the_manifest_names_must_be_there(bundle: Path, tmp_path: Path) -> None:
    contents = contents_of(bundle)
    del contents["calibration.json"]
    write(bundle, contents)

    assert_refused(bundle, tmp_path, "lacks 'calibration.json', which its manifest names")


def test_a_bundle_cut_anywhere_is_refused(bundle: Path, tmp_path: Path) -> None:
    whole = bundle.read_bytes()
    for size in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        bundle.write_bytes(whole[:size])

        assert_refused(bundle, tmp_path, "damaged or no bundle")


def test_a_bundle_with_a_flipped_bit_anywhere_is_refused(bundle: Path, tmp_path: Path) -> None:
    whole = bundle.read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 50)):
        altered = bytearray(whole)
        altered[position] ^= 4
        bundle.write_bytes(altered)

        assert_refused(bundle, tmp_path, "bundle.tar.xz")


@pytest.mark.parametrize(
    "further", [b"\0", bytes(4), b"a note", lzma.compress(b"another stream"), lzma.compress(b"")]
)
def test_whatever_follows_the_end_of_the_stream_is_refused(
    bundle: Path, tmp_path: Path, further: bytes
) -> None:
    bundle.write_bytes(bundle.read_bytes() + further)

    assert_refused(bundle, tmp_path, "has further bytes behind its end")


def test_what_follows_the_end_of_the_archive_inside_the_stream_is_refused(
    bundle: Path, tmp_path: Path
) -> None:
    bundle.write_bytes(
        lzma.compress(lzma.decompress(bundle.read_bytes()) + bytes(5000) + b"a note")
    )

    assert_refused(bundle, tmp_path, "has something behind its last file")


def test_an_archive_that_grows_without_end_is_refused_before_it_fills_the_disk(
    bundle: Path, tmp_path: Path
) -> None:
    whole = contents_of(bundle)
    padding = bytes(64 * 2**20)
    with lzma.open(bundle, "wb") as compressed:
        with tarfile.open(fileobj=compressed, mode="w|", format=tarfile.GNU_FORMAT) as archive:
            for name, content in whole.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        compressed.write(padding)

    assert_refused(bundle, tmp_path, "unpacks to more than its manifest says")


def test_a_file_that_is_no_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    write(bundle, {"readme.txt": b"hello"})
    assert_refused(bundle, tmp_path, "does not begin with manifest.json")
    bundle.write_bytes(b"hello, this is a text")
    assert_refused(bundle, tmp_path, "damaged or no bundle")


def test_a_bundle_that_is_not_there_says_how_to_find_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="gpu-report machines lists"):
        read_manifest(tmp_path / "absent.tar.xz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"machine": "another-8c"}, f"runs/{SLUG}/record.json is of {SLUG} on another-8c"),
        (
            {"slug": "lstm-cpu-b7-w0-fp32-e2"},
            f"runs/{SLUG}/record.json is of lstm-cpu-b7-w0-fp32-e2",
        ),
    ],
)
def test_a_record_of_another_machine_or_folder_is_refused(
    bundle: Path, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    record = make_record(change.pop("slug", SLUG), **{"machine": MACHINE, **change})  # type: ignore[arg-type]
    replace_file(bundle, RECORD, record.model_dump_json().encode())

    assert_refused(bundle, tmp_path, message)


def test_a_record_or_table_that_does_not_hold_what_it_should_is_refused(
    bundle: Path, tmp_path: Path
) -> None:
    whole = bundle.read_bytes()
    replace_file(bundle, RECORD, b'{"schema_version": 2, "variant": 7}')
    assert_refused(bundle, tmp_path, rf"record runs/{SLUG}/record.json: .*; fetch it again")

    bundle.write_bytes(whole)
    replace_file(
        bundle,
        RECORD,
        contents_of(bundle)[RECORD].replace(b'"status":', b'"status":"failed","status":', 1),
    )
    assert_refused(bundle, tmp_path, rf"record runs/{SLUG}/record.json .*'status' is there twice")

    bundle.write_bytes(whole)
    replace_file(bundle, f"runs/{SLUG}/trace_tables/steps.csv", b"colour\nred\n")
    assert_refused(bundle, tmp_path, r"table runs/.*/steps.csv: columns missing.*; fetch it again")


def test_more_files_than_a_bundle_can_hold_are_refused(bundle: Path, tmp_path: Path) -> None:
    entry = {"bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    many = [{**entry, "path": f"runs/{SLUG}/trace/{number}"} for number in range(5000)]
    edit_manifest(
        bundle,
        lambda manifest: manifest.update(files=[*manifest["files"], *many], with_traces=True),
    )

    assert_refused(bundle, tmp_path, "unpacks to 1[0-9]{7} bytes, of at most 8388608")


@pytest.mark.parametrize("number", ["1e300", "-1e31", "5e-324"])
def test_a_number_in_a_table_that_no_trace_can_show_is_refused(
    bundle: Path, tmp_path: Path, number: str
) -> None:
    row = {column.name: _CELLS[column.dtype] for column in STEPS.columns} | {"wall_ms": number}
    text = f"{','.join(row)}\n{','.join(row.values())}\n"
    replace_file(bundle, f"runs/{SLUG}/trace_tables/steps.csv", text.encode())

    assert_refused(bundle, tmp_path, "is no measurement")


_CELLS = {"str": "a", "int64": "1", "float64": "1.5", "bool": "true"}


def test_tables_of_other_columns_are_left_out_where_their_trace_comes_along(tmp_path: Path) -> None:
    results = write_results(tmp_path / "machines", make_study(), machine=MACHINE, variants=[SLUG])
    bundle = tmp_path / "bundle.tar.xz"
    pack(results, bundle, machine=MACHINE, study="default", with_traces=True)
    replace_file(bundle, f"runs/{SLUG}/trace_tables/steps.csv", b"step,duration\n")

    unpacked = unpack(bundle, tmp_path / "other")

    run = tmp_path / "other" / MACHINE / "runs" / SLUG
    assert unpacked.placed == (SLUG,)
    assert sorted(path.name for path in run.iterdir()) == [
        "memory",
        "record.json",
        "rich_trace",
        "trace",
    ]
