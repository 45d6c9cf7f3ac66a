"""The manifest: the first file of a bundle, which says whose results it holds and names every other
file.

manifest.json -> Manifest -> FileEntry (path, bytes, SHA-256); a path is checked before anything is
done with it
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

from pydantic import Field

from gpu_report.errors import BundleError, ConfigError
from gpu_report.records.batch_sizes import SEARCH_NAME, SEARCHES_FOLDER
from gpu_report.records.record import RICH_TRACE_FOLDER, TRACE_FOLDER, DeviceName, MachineId, Record
from gpu_report.records.record import SCHEMA_VERSION as RECORD_SCHEMA_VERSION
from gpu_report.storage.json_files import (
    FILE_NAME,
    MOST_BYTES,
    Digest,
    JsonFile,
    Moment,
    Part,
    Text,
    Values,
)
from gpu_report.study.variant import Variant
from gpu_report.traces.tables import ADDED_LATER, DROPPED_FILES, TRACE_TABLES, file_name

SCHEMA_VERSION: Final = 3
MANIFEST_FILE: Final = "manifest.json"
CALIBRATION_FILE: Final = "calibration.json"
RECORD_NAME: Final = "record.json"
TABLES_FOLDER: Final = "trace_tables"
RAW_FOLDERS: Final = (TRACE_FOLDER, RICH_TRACE_FOLDER, "memory")
"""What only a bundle with traces holds: the profiler's traces and the snapshots of memory."""

LIMIT_BYTES: Final = 256 * 2**20
"""Ten times what the records and tables of a study with 500 variants take; more is no report's
bundle.
"""
RAW_LIMIT_BYTES: Final = 8 * 2**30
"""The same for traces and snapshots, at 16 MiB for each of 500 variants."""
_LARGEST_TABLE_BYTES: Final = 2 * 2**20
_LARGEST_RAW_BYTES: Final = 2**30
"""Of one file: forty times the largest of the default study."""
_MOST_EXPANDED: Final = 50
"""A bundle grows by a factor of about 12 where it holds records and tables, and hardly where it
holds traces.
"""
_ALWAYS_ALLOWED_BYTES: Final = 8 * 2**20
_LEAST_BYTES_OF_FILE: Final = 20
_ALWAYS_ALLOWED_FILES: Final = 1000
"""A small bundle may be of files that are much alike, which grow by more; reading it costs little
all the same.
"""

_TABLE_FILES: Final = frozenset(file_name(table) for table in TRACE_TABLES)
_NEEDED_TABLES: Final = _TABLE_FILES - {file_name(table) for table in ADDED_LATER}


FETCH_AGAIN: Final = "fetch it again, or have it packed anew"


class FileEntry(Part):
    """One file of the bundle, under its path inside a machine's folder of results."""

    path: str = Field(max_length=1000)
    bytes: int = Field(ge=0)
    sha256: Digest


class Manifest(Part):
    """What a bundle says of itself."""

    schema_version: int
    record_schema_version: int
    gpu_report: Text = Field(description="Version that packed.")
    machine: MachineId
    hardware: Text = Field(description="The machine in words.")
    devices: Values[DeviceName] = Field(
        min_length=1, description="PyTorch device names of its records, the CPU first."
    )
    study: Text = Field(description="Name of the study it was packed for.")
    with_traces: bool = Field(
        description="Whether it holds what the trace tables are made from, as well."
    )
    records: int = Field(ge=1)
    dirty_records: int | None = Field(
        default=None,
        ge=0,
        description="Records of no clean commit; None in bundles packed before they were counted.",
    )
    measured_at: Moment = Field(description="Of the newest record.")
    files: Values[FileEntry] = Field(
        description="In the order in which they lie in the archive, without this one."
    )

    @property
    def variants(self) -> list[str]:
        """Names of the variants whose records it holds."""
        return [
            entry.path.split("/")[1]
            for entry in self.files
            if entry.path.endswith(f"/{RECORD_NAME}")
        ]

    @property
    def searches(self) -> list[str]:
        """Names of the batch-size searches that it holds."""
        return [PurePosixPath(entry.path).stem for entry in self.files if is_search(entry.path)]

    @property
    def has_calibration(self) -> bool:
        """Whether it holds the machine's ceilings."""
        return any(entry.path == CALIBRATION_FILE for entry in self.files)

    def as_json(self) -> bytes:
        """The same manifest gives the same bytes."""
        return _MANIFEST.as_bytes(self)


_MANIFEST: Final = JsonFile(
    name="manifest",
    content=Manifest,
    version=SCHEMA_VERSION,
    error=BundleError,
    again=FETCH_AGAIN,
    older="have it packed anew by this version",
    most_parts=100_000,
)


def parse_manifest(content: bytes, *, bundle: str) -> Manifest:
    """Read a manifest and check everything that it says of the files to come.

    Raises:
        BundleError: it is damaged, of a newer or older schema, or names a file that no bundle
            holds.
    """
    manifest = _MANIFEST.parse(content, where=f"manifest of {bundle}", from_elsewhere=True)
    version = manifest.record_schema_version
    if version != RECORD_SCHEMA_VERSION:
        action = (
            "update gpu-report"
            if version > RECORD_SCHEMA_VERSION
            else "have it packed anew by this version"
        )
        raise BundleError(
            f"{bundle}: its records have schema version {version}, this gpu-report reads "
            f"{RECORD_SCHEMA_VERSION}; {action}"
        )
    _check_files(manifest, bundle)
    return manifest


def _check_files(manifest: Manifest, bundle: str) -> None:
    for entry in manifest.files:
        if not belongs(entry.path):
            raise BundleError(
                f"{bundle}: holds {entry.path!r}, which is not among a machine's results; "
                f"{FETCH_AGAIN}"
            )
        if is_raw(entry.path) and not manifest.with_traces:
            raise BundleError(
                f"{bundle}: holds {entry.path!r}, although it says that it holds no traces; "
                f"{FETCH_AGAIN}"
            )
    twice = [
        path for path, count in Counter(entry.path for entry in manifest.files).items() if count > 1
    ]
    if twice:
        raise BundleError(f"{bundle}: names {twice[0]!r} twice; {FETCH_AGAIN}")
    if len(manifest.variants) != manifest.records:
        raise BundleError(
            f"{bundle}: says {manifest.records} records and names {len(manifest.variants)}; "
            f"{FETCH_AGAIN}"
        )
    # Every run has its record and, if the bundle has no traces to make them from, its trace tables.
    paths = {entry.path for entry in manifest.files}
    needed = [
        RECORD_NAME,
        *([] if manifest.with_traces else (f"{TABLES_FOLDER}/{name}" for name in _NEEDED_TABLES)),
    ]
    runs = dict.fromkeys(path.split("/")[1] for path in paths if path.startswith("runs/"))
    missing = sorted(
        path for slug in runs for inner in needed if (path := f"runs/{slug}/{inner}") not in paths
    )
    if missing:
        raise BundleError(
            f"{bundle}: lacks {missing[0]}; have it packed anew by this version of gpu-report"
        )


def size_problem(entries: Sequence[FileEntry], *, packed_bytes: int) -> str:
    """Why files of these sizes are not in a bundle of that size; empty if they may be."""
    if len(entries) > max(_ALWAYS_ALLOWED_FILES, packed_bytes // _LEAST_BYTES_OF_FILE):
        return f"names {len(entries)} files, which its {packed_bytes} bytes do not hold"
    for entry in entries:
        if is_raw(entry.path):
            largest = _LARGEST_RAW_BYTES
        else:
            largest = MOST_BYTES if entry.path.endswith(".json") else _LARGEST_TABLE_BYTES
        if entry.bytes > largest:
            return f"{entry.path} has {entry.bytes} bytes, of at most {largest}"
    raw_bytes = total_bytes(entry for entry in entries if is_raw(entry.path))
    other_bytes = total_bytes(entries) - raw_bytes
    allowed_bytes = max(_ALWAYS_ALLOWED_BYTES, _MOST_EXPANDED * packed_bytes)
    for found, most in (
        (other_bytes, LIMIT_BYTES),
        (raw_bytes, RAW_LIMIT_BYTES),
        (other_bytes + raw_bytes, allowed_bytes),
    ):
        if found > most:
            return f"unpacks to {found} bytes, of at most {most}"
    return ""


def trace_paths(record: Record) -> list[str]:
    """The traces that a record names, of all its ranks, by their paths inside the folder of its
    run.
    """
    if record.profile is None:
        return []
    names = [record.profile.trace_file, *(each.trace_file for each in record.profile.other_ranks)]
    folders = [TRACE_FOLDER, *([RICH_TRACE_FOLDER] if record.profile.rich_trace_file else [])]
    return [f"{folder}/{name}" for folder in folders for name in names]


def total_bytes(entries: Iterable[FileEntry]) -> int:
    """Size of these files, unpacked."""
    return sum(entry.bytes for entry in entries)


def belongs(path: str) -> bool:
    """Whether a bundle may hold a file of this path; none of those leaves the machine's folder."""
    match path.split("/"):
        case [name]:
            return name == CALIBRATION_FILE
        case [_, _]:
            return is_search(path)
        case ["runs", slug, name]:
            return _is_variant(slug) and name == RECORD_NAME
        case ["runs", slug, folder, name] if folder == TABLES_FOLDER:
            return _is_variant(slug) and name in _TABLE_FILES | DROPPED_FILES
        case ["runs", slug, folder, name] if folder in RAW_FOLDERS:
            return _is_variant(slug) and FILE_NAME.fullmatch(name) is not None
    return False


def is_search(path: str) -> bool:
    """Whether the file has what a batch-size search found."""
    folder, _, name = path.partition("/")
    stem, dot, ending = name.partition(".")
    return (
        folder == SEARCHES_FOLDER
        and dot + ending == ".json"
        and SEARCH_NAME.fullmatch(stem) is not None
    )


def is_raw(path: str) -> bool:
    """Whether the file is a trace or a snapshot of memory."""
    parts = path.split("/")
    return len(parts) == 4 and parts[2] in RAW_FOLDERS


def _is_variant(slug: str) -> bool:
    try:
        Variant.from_slug(slug)
    except ConfigError:
        return False
    return True
