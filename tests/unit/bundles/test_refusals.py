"""A bundle that was cut, damaged or made to harm is refused with the reason, and nothing of it is
put anywhere.
"""

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_report.bundles.packing import pack
from gpu_report.bundles.unpacking import read_manifest, unpack
from gpu_report.errors import BundleError
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
    "path: String should match": add_file("../../escaped"),
    "files.*path: String should match": add_file("/etc/passwd"),
    "lacks 'batch_sizes/a.json', which": add_file("batch_sizes/a.json"),
    "says 1 records and names 2": add_file("runs/a/record.json"),
    r"files\.\d+\.path: String should match": add_file("runs/a/evil.py"),
    "records have schema version 1,.*packed anew": lambda manifest: manifest.update(
        record_schema_version=1
    ),
    "measured_at: .* use a time in UTC": lambda manifest: manifest.update(measured_at="yesterday"),
    "the checksum of calibration.json is another": lambda manifest: manifest["files"][0].update(
        sha256="0" * 64
    ),
    "holds 'runs/.*/trace_tables/steps.csv', which is no file .* names": lambda manifest: manifest[
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


def test_a_member_that_is_no_plain_file_takes_the_place_of_none(
    bundle: Path, tmp_path: Path
) -> None:
    whole = contents_of(bundle)
    del whole["calibration.json"]
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE):
        write(bundle, whole, link("calibration.json", kind))

        assert_refused(bundle, tmp_path, "holds 'calibration.json', which is no file")


@pytest.mark.parametrize("name", ["../../escaped", f"runs/{SLUG}/a", "calibration.json"])
def test_a_member_that_the_manifest_does_not_name_is_refused(
    bundle: Path, tmp_path: Path, name: str
) -> None:
    """Nor is one that it names a second time."""
    write(bundle, contents_of(bundle), tarfile.TarInfo(name))

    assert_refused(bundle, tmp_path, f"holds '{name}', which is no file that its manifest names")
    assert not [*tmp_path.rglob("escaped"), *tmp_path.rglob("a")]


def test_a_file_that_the_manifest_names_must_be_there(bundle: Path, tmp_path: Path) -> None:
    contents = contents_of(bundle)
    del contents["calibration.json"]
    write(bundle, contents)

    assert_refused(bundle, tmp_path, "lacks 'calibration.json', which its manifest names")


def test_a_bundle_cut_anywhere_is_refused(bundle: Path, tmp_path: Path) -> None:
    whole = bundle.read_bytes()
    for size in (0, 5, 100, len(whole) // 2, len(whole) - 100):
        bundle.write_bytes(whole[:size])

        assert_refused(bundle, tmp_path, "damaged or no bundle")


def test_a_bundle_with_a_flipped_bit_is_refused_or_gives_what_was_packed(
    bundle: Path, tmp_path: Path
) -> None:
    whole, contents = bundle.read_bytes(), contents_of(bundle)
    for number, position in enumerate(range(0, len(whole), max(1, len(whole) // 50))):
        altered = bytearray(whole)
        altered[position] ^= 4
        bundle.write_bytes(altered)

        try:
            folder, *_ = unpack(bundle, tmp_path / f"into{number}")
        except BundleError:
            assert not list((tmp_path / f"into{number}").glob("**/*"))
        else:
            record = folder / RECORD
            assert record.read_bytes() == contents[RECORD]


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
    replace_file(bundle, f"runs/{SLUG}/trace_tables/steps.csv", b"colour\nred\n")
    assert_refused(
        bundle,
        tmp_path,
        r"table runs/.*/steps.csv: its columns are colour, expected .*; fetch it again",
    )


def test_tables_of_other_columns_are_left_out_where_their_trace_comes_along(tmp_path: Path) -> None:
    results = write_results(tmp_path / "machines", make_study(), machine=MACHINE, variants=[SLUG])
    bundle = tmp_path / "bundle.tar.xz"
    pack(results, bundle, machine=MACHINE, study="default", with_traces=True)
    replace_file(bundle, f"runs/{SLUG}/trace_tables/steps.csv", b"step,duration\n")

    _, manifest, kept = unpack(bundle, tmp_path / "other")

    run = tmp_path / "other" / MACHINE / "runs" / SLUG
    assert (manifest.variants, kept) == ([SLUG], [])
    assert sorted(path.name for path in run.iterdir()) == [
        "memory",
        "record.json",
        "rich_trace",
        "trace",
    ]
