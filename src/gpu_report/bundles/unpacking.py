"""From a bundle to a machine's folder of results: everything is checked before anything appears
there.
"""

import math
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_report.bundles.archive import open_bundle
from gpu_report.bundles.manifest import (
    CALIBRATION_FILE,
    FETCH_AGAIN,
    RAW_FOLDERS,
    RECORD_NAME,
    TABLES_FOLDER,
    Manifest,
    trace_paths,
)
from gpu_report.errors import BundleError, RecordError, TableError
from gpu_report.records.batch_sizes import SEARCH_FILE, SEARCHES_FOLDER
from gpu_report.records.calibration import CALIBRATION_FILE as CALIBRATIONS
from gpu_report.records.record import RECORD_FILE
from gpu_report.storage.files import unfinished_folder, write_errors
from gpu_report.traces.tables import file_name, read_trace_tables

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
        if manifest.with_traces:
            _make_raw_folders(folder, manifest)
        now = time.time()
        for path in folder.rglob("*"):
            os.utime(path, (now, now))
        return _put_in_place(folder, machines / manifest.machine, manifest)


def _extract(bundle: Path, folder: Path) -> Manifest:
    with open_bundle(bundle) as reader:
        dates = set()
        try:
            for entry, chunks in reader.files():
                target = folder / entry.path
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    for chunk in chunks:
                        file.write(chunk)
                dates.add(_check_file(bundle, folder, target, reader.manifest))
            for tables in folder.glob(f"runs/*/{TABLES_FOLDER}"):
                _check_tables(tables, can_be_made_anew=reader.manifest.with_traces)
        except (RecordError, TableError) as error:
            said = str(error).replace(f"{folder}/", "").partition("; ")[0]
            raise BundleError(f"{bundle}: {said}; {FETCH_AGAIN}") from error
        dates.discard("")
        if not min(dates) <= reader.manifest.measured_at <= max(dates):
            raise BundleError(
                f"{bundle}: says it was measured at {reader.manifest.measured_at}, its records "
                f"from {min(dates)} to {max(dates)}; {FETCH_AGAIN}"
            )
        return reader.manifest


def _check_file(bundle: Path, folder: Path, file: Path, manifest: Manifest) -> str:
    """Check each record as it is unpacked, so that the first bad one refuses the bundle.

    Returns:
        When a record was measured; empty for any other file.
    """
    if file.name == RECORD_NAME:
        slug = file.parent.name
        record = RECORD_FILE.read(file, from_elsewhere=True)
        if (record.machine, record.variant) != (manifest.machine, slug):
            raise BundleError(
                f"{bundle}: the record in runs/{slug} is of {record.variant} on {record.machine}; "
                f"{FETCH_AGAIN}"
            )
        held = {entry.path for entry in manifest.files}
        if manifest.with_traces and not held.issuperset(
            f"runs/{slug}/{trace}" for trace in trace_paths(record)
        ):
            raise BundleError(f"{bundle}: lacks the trace of {slug}; {FETCH_AGAIN}")
        return record.provenance.measured_at
    if file.parent == folder / SEARCHES_FOLDER:
        found = SEARCH_FILE.read(file, from_elsewhere=True)
        if (found.machine, found.search.slug) != (manifest.machine, file.stem):
            raise BundleError(
                f"{bundle}: {file.name} is of {found.search.slug} on {found.machine}; {FETCH_AGAIN}"
            )
    if file == folder / CALIBRATION_FILE:
        calibration = CALIBRATIONS.read(file, from_elsewhere=True)
        if calibration.machine != manifest.machine:
            raise BundleError(f"{bundle}: its calibration is of another machine; {FETCH_AGAIN}")
    return ""


def _check_tables(folder: Path, *, can_be_made_anew: bool) -> None:
    """Tables of another version's columns are left out where the trace comes along, so that a study
    can go on.
    """
    try:
        tables = read_trace_tables(folder)
    except TableError:
        if not can_be_made_anew:
            raise
        shutil.rmtree(folder)
        return
    for table, rows in tables.items():
        for value in (value for row in rows for value in row.values() if isinstance(value, float)):
            if value and math.isfinite(value) and not _SMALLEST < abs(value) < _LARGEST:
                raise TableError(
                    f"table {folder / file_name(table)}: {value} is no measurement; make it again"
                )


def _make_raw_folders(folder: Path, manifest: Manifest) -> None:
    """A variant that did not fit has them empty; without them it would count as not measured."""
    for slug in manifest.variants:
        for name in RAW_FOLDERS:
            (folder / "runs" / slug / name).mkdir(exist_ok=True)


def _put_in_place(unpacked: Path, folder: Path, manifest: Manifest) -> Unpacked:
    """A run is moved as a whole, so that an interruption leaves whole runs."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    placed, kept = [], []
    for slug in manifest.variants:
        target = folder / "runs" / slug
        if (target / RECORD_NAME).exists():
            kept.append(slug)
            continue
        shutil.rmtree(target, ignore_errors=True)
        (unpacked / "runs" / slug).rename(target)
        placed.append(slug)
    # Of a bundle without searches it is empty; without it, it would count as not unpacked.
    (folder / SEARCHES_FOLDER).mkdir(exist_ok=True)
    for slug in manifest.searches:
        name = f"{SEARCHES_FOLDER}/{slug}.json"
        if not (folder / name).exists():
            (unpacked / name).rename(folder / name)
    if manifest.has_calibration and not (folder / CALIBRATION_FILE).exists():
        (unpacked / CALIBRATION_FILE).rename(folder / CALIBRATION_FILE)
    return Unpacked(folder=folder, manifest=manifest, placed=tuple(placed), kept=tuple(kept))
