"""The manifest: the first file of a bundle, which says whose results it has and names every other
file.

manifest.json -> Manifest -> FileEntry (path, bytes, SHA-256); all of it is checked before a file is
written
"""

import re
from collections import Counter
from collections.abc import Iterator
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
"""What only a bundle with traces has: the profiler's traces and the snapshots of memory."""
HEADERS_BYTES: Final = 2048
"""Of tar, for each file: a header for a long name, that name, the file's own header and its
padding.
"""
_LIMIT_BYTES: Final = 8 * 2**30
"""At 16 MiB of traces and snapshots for each of 500 variants."""
_ALWAYS_ALLOWED_BYTES: Final = 8 * 2**20
_MOST_EXPANDED: Final = 50
"""A bundle with records and tables expands about 12 times, one with traces hardly."""
_LARGEST_RAW_BYTES: Final = 2**30
"""Of one file: forty times the largest of the default study."""
_FILE: Final = re.compile(
    rf"{CALIBRATION_FILE}|{SEARCHES_FOLDER}/(?P<search>{SEARCH_NAME.pattern})\.json"
    rf"|runs/(?P<variant>[^/]+)/({RECORD_NAME}"
    rf"|{TABLES_FOLDER}/({'|'.join([*map(file_name, TRACE_TABLES), *DROPPED_FILES])})"
    rf"|(?P<raw>{'|'.join(RAW_FOLDERS)})/{FILE_NAME.pattern})"
)
"""A file that a bundle may have; none of these paths leaves the machine's folder."""
_NEEDED_TABLES: Final = [file_name(table) for table in TRACE_TABLES if table not in ADDED_LATER]

FETCH_AGAIN: Final = "fetch it again, or have it packed anew"


class FileEntry(Part):
    """One file of the bundle, under its path inside a machine's folder of results."""

    path: str = Field(max_length=1000)
    bytes: int = Field(ge=0)
    sha256: Digest

    def named(self, part: str) -> str:
        """The `search`, `variant` or `raw` folder in the path; empty if it has none."""
        found = _FILE.fullmatch(self.path)
        return (found[part] or "") if found else ""


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
    with_traces: bool = Field(description="Whether it has what the trace tables are made from too.")
    records: int = Field(ge=1)
    dirty_records: int | None = Field(
        default=None,
        ge=0,
        description="Records of no clean commit; None in bundles packed before they were counted.",
    )
    measured_at: Moment = Field(description="Of the newest record.")
    files: Values[FileEntry] = Field(description="In the archive's order, without this one.")

    @property
    def variants(self) -> list[str]:
        """Names of the variants whose records it has."""
        return [
            each.named("variant")
            for each in self.files
            if each.path.endswith(f"/{RECORD_NAME}") and not each.named("raw")
        ]

    @property
    def searches(self) -> list[str]:
        """Names of the batch-size searches that it has."""
        return [name for each in self.files if (name := each.named("search"))]

    @property
    def has_calibration(self) -> bool:
        """Whether it has the machine's ceilings."""
        return any(entry.path == CALIBRATION_FILE for entry in self.files)

    @property
    def unpacked_bytes(self) -> int:
        """Size of its files in the archive, with what describes them there."""
        return sum(entry.bytes + HEADERS_BYTES for entry in self.files)


MANIFEST: Final = JsonFile(
    name="manifest",
    content=Manifest,
    version=SCHEMA_VERSION,
    error=BundleError,
    again=FETCH_AGAIN,
    older="have it packed anew by this version",
    most_parts=100_000,
)


def problems_of(manifest: Manifest, *, packed_bytes: int) -> Iterator[str]:
    """What speaks against unpacking these files from a bundle of that size, and what to do; only
    the first is sure to be one.
    """
    version = manifest.record_schema_version
    if version != RECORD_SCHEMA_VERSION:
        is_newer = version > RECORD_SCHEMA_VERSION
        yield (
            f"its records have schema version {version}, this gpu-report reads "
            f"{RECORD_SCHEMA_VERSION}; "
            + ("update gpu-report" if is_newer else "have it packed anew by this version")
        )
    yield from (f"{each}; {FETCH_AGAIN}" for each in _damages(manifest, packed_bytes=packed_bytes))


def _damages(manifest: Manifest, *, packed_bytes: int) -> Iterator[str]:
    for entry in manifest.files:
        if _FILE.fullmatch(entry.path) is None or not _is_variant(entry.named("variant")):
            yield f"has {entry.path!r}, which is not among a machine's results"
        if entry.named("raw") and not manifest.with_traces:
            yield f"has {entry.path!r}, although it says that it has no traces"
        largest = _LARGEST_RAW_BYTES if entry.named("raw") else MOST_BYTES
        if entry.bytes > largest:
            yield f"{entry.path} has {entry.bytes} bytes, of at most {largest}"
    counts = Counter(entry.path for entry in manifest.files)
    yield from (f"names {path!r} twice" for path, count in counts.items() if count > 1)
    if len(manifest.variants) != manifest.records:
        yield f"says {manifest.records} records and names {len(manifest.variants)}"
    allowed_bytes = min(_LIMIT_BYTES, max(_ALWAYS_ALLOWED_BYTES, _MOST_EXPANDED * packed_bytes))
    if manifest.unpacked_bytes > allowed_bytes:
        yield f"unpacks to {manifest.unpacked_bytes} bytes, of at most {allowed_bytes}"
    # Every run has its record and, if the bundle has no traces to make them from, its trace tables.
    tables = [] if manifest.with_traces else [f"{TABLES_FOLDER}/{name}" for name in _NEEDED_TABLES]
    for slug in dict.fromkeys(filter(None, (each.named("variant") for each in manifest.files))):
        needed = (f"runs/{slug}/{name}" for name in (RECORD_NAME, *tables))
        yield from (f"lacks {path}" for path in needed if path not in counts)


def _is_variant(slug: str) -> bool:
    try:
        return not slug or bool(Variant.from_slug(slug))
    except ConfigError:
        return False


def trace_paths(record: Record) -> list[str]:
    """The traces that a record names, of all its ranks, by their paths inside the folder of its
    run.
    """
    if record.profile is None:
        return []
    names = [record.profile.trace_file, *(each.trace_file for each in record.profile.other_ranks)]
    folders = [TRACE_FOLDER, *([RICH_TRACE_FOLDER] if record.profile.rich_trace_file else [])]
    return [f"{folder}/{name}" for folder in folders for name in names]
