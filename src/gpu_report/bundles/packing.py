"""From one machine's folder of results to a bundle, which holds what was measured of a study, or
all that was measured.
"""

import hashlib
import io
import lzma
import math
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gpu_report import __version__
from gpu_report.bundles.manifest import (
    BESIDE,
    CALIBRATION_FILE,
    MANIFEST,
    MANIFEST_FILE,
    RAW_FOLDERS,
    RECORD_NAME,
    SCHEMA_VERSION,
    TABLES_FOLDER,
    FileEntry,
    Manifest,
    Measured,
    name_of,
    read_own,
    why_no_trace,
)
from gpu_report.bundles.unpacking import read_manifest
from gpu_report.errors import BundleError, RecordError, TableError, TraceError
from gpu_report.records.batch_sizes import SEARCH_FILE, SearchRecord
from gpu_report.records.provenance import hardware_name, why_no_commit
from gpu_report.records.record import (
    RECORD_FILE,
    RICH_TRACE_FOLDER,
    TRACE_FOLDER,
    Record,
    SentinelPoint,
)
from gpu_report.storage.files import unfinished_folder, write_errors, write_text_atomically
from gpu_report.storage.json_files import JsonFile
from gpu_report.study.machine import device_name
from gpu_report.traces.tables import (
    as_csv,
    read_trace_tables,
    table_files,
    tabulate_trace_of,
)

PUBLISHED_LIMIT_BYTES: Final = 2_000_000
"""A repository keeps every version of a bundle for good, so one without traces stays below this."""
_SMALLEST: Final = 9 | lzma.PRESET_EXTREME
_QUICK: Final = 1
"""With traces, which are compressed already: 79 MB of them take a quarter of the time and become 3
% larger.
"""


def pack(
    results: Path,
    target: Path,
    *,
    machine: str,
    study: str,
    with_traces: bool,
    asked: Collection[str] | None = None,
    allow_dirty: bool = False,
) -> tuple[Manifest, dict[str, str]]:
    """Write the bundle of one machine; an older one stays until the new one is whole.

    Traces that are not tabulated, as where measuring was interrupted, are tabulated for a bundle
    without traces.

    Args:
        results: The machine's folder, which holds `runs`, `batch_sizes`, `sentinels` and
            `calibration.json`.
        target: The file to write.
        machine: The machine's id.
        study: Name of the study, for the manifest.
        with_traces: Whether the profiler's traces and the snapshots of memory go in, so that
            measuring can go on.
        asked: Names of the study's variants and searches, which alone go in; unless given, all
            that was measured does.
        allow_dirty: Whether records that no commit holds the code of go in as well; the manifest
            counts them.

    Returns:
        What was packed, and why what was left out.

    Raises:
        BundleError: nothing is measured, the calibration is missing, a record is of another machine
            or of no clean commit, a bundle without traces is too large to be published, or the
            target is there and no such bundle of this machine and study.
        FileWriteError: the target cannot be written.
    """
    if target.exists():
        _check_replaced(target, machine=machine, study=study, with_traces=with_traces)
    runs = results / "runs"
    found, left_out = _read_all(runs, {f"*/{RECORD_NAME}": RECORD_FILE}, asked, machine=machine)
    records = {name_of(path): record for path, record in found.items()}
    problem_of = why_no_trace if with_traces else _problem_of_tables
    for slug in list(records):
        if problem := problem_of(runs / slug, records[slug]):
            left_out[slug] = problem
            del records[slug]
    if not records:
        reason = next(
            iter(left_out.values()),
            "no configuration is measured; gpu-report run --missing measures those of a study",
        )
        raise BundleError(f"there is nothing to pack in {results}: {reason}")
    beside, unreadable = _read_all(results, BESIDE, asked, machine=machine)
    left_out |= unreadable
    if not allow_dirty:
        # Nobody measures a point again, so that one of an edited tree must not keep the rest back.
        beside = {
            path: each
            for path, each in beside.items()
            if each.provenance.is_clean or not isinstance(each, SentinelPoint)
        }
        _check_commits({**records, **{name_of(path): each for path, each in beside.items()}})
    paths = _paths(results, list(records), beside, with_traces=with_traces)
    # Alike beside alike compresses better.
    entries = [
        _entry(results, path)
        for path in sorted(
            paths, key=lambda path: (path.parent.name == TABLES_FOLDER, path.name, path)
        )
    ]
    searched = {each.search.device for each in beside.values() if isinstance(each, SearchRecord)}
    manifest = _manifest(
        machine, study, list(records.values()), searched, entries, with_traces=with_traces
    )
    calibration = results / CALIBRATION_FILE
    if calibration not in beside and not with_traces:
        raise BundleError(
            left_out.get(calibration.stem)
            or f"there is no {calibration}; calibrate with: gpu-report calibrate --machine "
            f"{machine} --devices {' '.join(manifest.devices)} --calibration {calibration}"
        )
    _write(
        manifest, results, target, limit_bytes=math.inf if with_traces else PUBLISHED_LIMIT_BYTES
    )
    return manifest, left_out


def _check_replaced(target: Path, *, machine: str, study: str, with_traces: bool) -> None:
    try:
        there = read_manifest(target)
    except BundleError as error:
        raise BundleError(
            f"{target} is there already, and is no bundle that this version reads; remove it, or "
            "pack into another file with --out"
        ) from error
    if (there.machine, there.study, there.with_traces) != (machine, study, with_traces):
        raise BundleError(
            f"{target} is a bundle {'with' if there.with_traces else 'without'} traces of "
            f"{there.machine} and the study {there.study!r}; pack into another file with --out"
        )


def _read_all(
    folder: Path,
    kinds: Mapping[str, JsonFile[Measured]],
    asked: Collection[str] | None,
    *,
    machine: str,
) -> tuple[dict[Path, Measured], dict[str, str]]:
    """What has the current schema, by its file, and by name why the others are left out, such as
    a variant or search that is not asked for.
    """
    found: dict[Path, Measured] = {}
    left_out: dict[str, str] = {}
    for pattern, kind in kinds.items():
        for path in sorted(folder.glob(pattern)):
            if (
                asked is not None
                and kind in (RECORD_FILE, SEARCH_FILE)
                and name_of(path) not in asked
            ):
                left_out[name_of(path)] = (
                    "not in the study of the machine's tables; make its report again, or pack "
                    "--traces"
                )
                continue
            try:
                found[path] = read_own(kind, path, machine=machine)
            except RecordError as error:
                left_out[name_of(path)] = str(error)
    return found, left_out


def _problem_of_tables(run: Path, record: Record) -> str:
    """Why there are no trace tables; empty once there are, which it sees to."""
    if _has_its_tables(run):
        return ""
    try:
        rows = tabulate_trace_of(record, run / TRACE_FOLDER, run / RICH_TRACE_FOLDER)
    except TraceError as error:
        return str(error)
    for name, text in as_csv(rows).items():
        write_text_atomically(run / TABLES_FOLDER / name, text)
    return ""


def _has_its_tables(run: Path) -> bool:
    """Whether the trace tables are whole, have today's columns, and are no older than the trace, if
    that is there.
    """
    trace = run / TRACE_FOLDER
    try:
        read_trace_tables(run / TABLES_FOLDER)
    except TableError:
        return False
    made_ns = min(file.stat().st_mtime_ns for file in table_files(run / TABLES_FOLDER).values())
    return not trace.exists() or made_ns >= trace.stat().st_mtime_ns


def _check_commits(found: Mapping[str, Any]) -> None:
    dirty = {name: each.provenance for name, each in found.items() if not each.provenance.is_clean}
    if not dirty:
        return
    changed = dict.fromkeys(file for each in dirty.values() for file in each.changed_files or [])
    if any(each.git_commit is None for each in dirty.values()):
        what = "; ".join(filter(None, ["there was no commit", why_no_commit()]))
    else:
        what = f"changed were {', '.join(changed) or 'files whose names are not known'}"
    raise BundleError(
        f"{len(dirty)} of {len(found)} measurements were made by code that no commit holds, such "
        f"as {next(iter(dirty))}: {what}; commit, delete them and measure them again, or pack them "
        "all the same with --allow-dirty, which labels the bundle"
    )


def _paths(
    results: Path, variants: Sequence[str], beside: Iterable[Path], *, with_traces: bool
) -> Iterator[Path]:
    yield from beside
    for run in (results / "runs" / slug for slug in variants):
        yield run / RECORD_NAME
        if _has_its_tables(run):
            yield from table_files(run / TABLES_FOLDER).values()
        for folder in RAW_FOLDERS if with_traces else ():
            yield from (path for path in (run / folder).glob("[!.]*") if path.is_file())


def _entry(results: Path, path: Path) -> FileEntry:
    content = path.read_bytes()
    return FileEntry(
        path=path.relative_to(results).as_posix(),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _manifest(
    machine: str,
    study: str,
    records: Sequence[Record],
    searched: set[str],
    entries: Sequence[FileEntry],
    *,
    with_traces: bool,
) -> Manifest:
    used = [
        (record, variant)
        for record in records
        if (variant := record.as_variant()).device_type != "cpu"
    ]
    shared = {
        device_name(variant.device_type, index)
        for record, variant in used
        for index in range(1, variant.devices // record.hosts)
    }
    accelerators = ({variant.device for _, variant in used} | shared | searched) - {"cpu"}
    return Manifest(
        schema_version=SCHEMA_VERSION,
        record_schema_version=RECORD_FILE.version,
        gpu_report=__version__,
        machine=machine,
        hardware=hardware_name(records),
        devices=["cpu", *sorted(accelerators)],
        study=study,
        with_traces=with_traces,
        records=len(records),
        dirty_records=sum(not record.provenance.is_clean for record in records),
        measured_at=max(record.provenance.measured_at for record in records),
        files=list(entries),
    )


def _write(manifest: Manifest, results: Path, target: Path, *, limit_bytes: float) -> None:
    with write_errors(target), unfinished_folder(target) as unfinished:
        packed = unfinished / target.name
        # In the manifest's order, without times and owners: equal files give equal bytes.
        preset = _QUICK if any(each.path.endswith(".gz") for each in manifest.files) else _SMALLEST
        with (
            lzma.open(packed, "wb", preset=preset) as compressed,
            tarfile.open(fileobj=compressed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
        ):
            _add(archive, MANIFEST_FILE, MANIFEST.as_bytes(manifest))
            for entry in manifest.files:
                content = (results / entry.path).read_bytes()
                if hashlib.sha256(content).hexdigest() != entry.sha256:
                    raise BundleError(
                        f"{entry.path} changed while it was packed; wait until nothing measures, "
                        "then again"
                    )
                _add(archive, entry.path, content)
        size = packed.stat().st_size
        if size > limit_bytes:
            largest = sorted(manifest.files, key=lambda entry: -entry.bytes)[:3]
            share = sum(each.bytes for each in largest) / sum(each.bytes for each in manifest.files)
            names = ", ".join(f"{each.path} ({each.bytes / 1e3:.0f} kB)" for each in largest)
            raise BundleError(
                f"the bundle takes {size / 1e6:.2f} MB, of at most {limit_bytes / 1e6:.0f} MB for "
                f"one that is published; unpacked, the largest of its {len(manifest.files)} files "
                f"are {names}, {share:.0%} of all; shorten those configurations or take them out "
                "of runs, or keep it for yourself with --traces"
            )
        packed.chmod(0o644)
        packed.replace(target)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(content), 0o644, 0
    archive.addfile(member, io.BytesIO(content))
