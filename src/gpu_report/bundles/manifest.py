"""The manifest: the first file of a bundle, which says whose results it has and names every other
file.

manifest.json -> Manifest -> FileEntry (path, bytes, SHA-256); all of it is checked before a file is
written
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import Field

from gpu_report.errors import BundleError
from gpu_report.records.batch_sizes import SEARCH_FILE, SEARCHES_FOLDER, SearchRecord
from gpu_report.records.calibration import CALIBRATION_FILE as CALIBRATIONS
from gpu_report.records.calibration import Calibration
from gpu_report.records.record import (
    POINT_FILE,
    RICH_TRACE_FOLDER,
    SENTINELS_FOLDER,
    TRACE_FOLDER,
    DeviceName,
    MachineId,
    Record,
    SentinelPoint,
)
from gpu_report.storage.json_files import Digest, JsonFile, Moment, Part, Text, Values

SCHEMA_VERSION: Final = 3
MANIFEST_FILE: Final = "manifest.json"
CALIBRATION_FILE: Final = "calibration.json"
RECORD_NAME: Final = "record.json"
TABLES_FOLDER: Final = "trace_tables"
RAW_FOLDERS: Final = (TRACE_FOLDER, RICH_TRACE_FOLDER, "memory")
"""What only a bundle with traces has: the profiler's traces and the snapshots of memory."""
_RUN: Final = re.compile(rf"runs/([^/]+)/{RECORD_NAME}")
_SEARCH: Final = re.compile(rf"{SEARCHES_FOLDER}/([^/]+)\.json")

FETCH_AGAIN: Final = "fetch it again, or have it packed anew"
Measured = TypeVar("Measured", bound=Record | SearchRecord | SentinelPoint | Calibration)
"""What a file of a machine's folder of results may hold."""
BESIDE: Final[Mapping[str, JsonFile[Any]]] = {
    f"{SEARCHES_FOLDER}/*.json": SEARCH_FILE,
    f"{SENTINELS_FOLDER}/*.json": POINT_FILE,
    CALIBRATION_FILE: CALIBRATIONS,
}
"""What is in that folder beside the runs, and where."""

_NAME: Final = "[^/.][^/]{0,254}"
_PATH: Final = (
    f"^({re.escape(CALIBRATION_FILE)}|({SEARCHES_FOLDER}|{SENTINELS_FOLDER})/{_NAME}"
    f"|runs/{_NAME}/({re.escape(RECORD_NAME)}"
    f"|({'|'.join((TABLES_FOLDER, *RAW_FOLDERS))})/{_NAME}))$"
)
"""A file that a bundle may have; none of these paths leaves the machine's folder."""


class FileEntry(Part):
    """One file of the bundle, under its path inside a machine's folder of results."""

    path: str = Field(pattern=_PATH)
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
    with_traces: bool = Field(description="Whether it has what the trace tables are made from too.")
    records: int = Field(ge=1)
    dirty_records: int = Field(ge=0, description="Records not measured from a clean commit.")
    measured_at: Moment = Field(description="Of the newest record.")
    files: Values[FileEntry] = Field(description="In the archive's order, without this one.")

    @property
    def variants(self) -> list[str]:
        """Names of the variants whose records it has."""
        return self._names(_RUN)

    @property
    def searches(self) -> list[str]:
        """Names of the batch-size searches that it has."""
        return self._names(_SEARCH)

    @property
    def has_calibration(self) -> bool:
        """Whether it has the machine's ceilings."""
        return any(entry.path == CALIBRATION_FILE for entry in self.files)

    def _names(self, pattern: re.Pattern[str]) -> list[str]:
        return [found[1] for entry in self.files if (found := pattern.fullmatch(entry.path))]


MANIFEST: Final = JsonFile(
    name="manifest",
    content=Manifest,
    version=SCHEMA_VERSION,
    error=BundleError,
    again=FETCH_AGAIN,
    older="have it packed anew by this version",
)


def why_no_trace(run: Path, record: Record) -> str:
    """Why the folder of a run lacks traces that its record names, of any rank; empty if it has
    them.
    """
    if record.profile is None:
        return ""
    names = [record.profile.trace_file, *(each.trace_file for each in record.profile.other_ranks)]
    folders = [TRACE_FOLDER, *([RICH_TRACE_FOLDER] if record.profile.rich_trace_file else [])]
    if all((run / folder / name).exists() for folder in folders for name in names):
        return ""
    return f"its trace is gone; measure it again with gpu-report run {record.variant}"


def name_of(path: Path) -> str:
    """The name of the variant, search or sentinel that a file of a machine's folder of results is
    of.
    """
    return path.parent.name if path.name == RECORD_NAME else path.stem


def read_own(kind: JsonFile[Measured], path: Path, *, machine: str) -> Measured:
    """A file of a machine's folder of results, which is of what its name says.

    Raises:
        RecordError: it cannot be read.
        BundleError: it is of another one, or of another machine.
    """
    content, slug = kind.read(path), name_of(path)
    name = (
        content.search.slug
        if isinstance(content, SearchRecord)
        else getattr(content, "variant", slug)
    )
    # The name of a sentinel's file begins with its time.
    if content.machine != machine or not (name == slug or slug.endswith(f"Z-{name}")):
        raise BundleError(f"{path} is of {name} on {content.machine}; take it out of this folder")
    return content
