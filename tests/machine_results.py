"""A machine's folder of results as measuring leaves it, without training: records, traces, tables,
calibration.
"""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from gpu_report.records.calibration import (
    CALIBRATION_FILE,
    SCHEMA_VERSION,
    Calibration,
    Ceilings,
    MatrixProduct,
    Transfer,
)
from gpu_report.records.record import RECORD_FILE, Provenance, Record
from gpu_report.storage.files import write_bytes_atomically, write_text_atomically
from gpu_report.study.study import Study
from gpu_report.traces.tables import EMPTY_TABLES, as_csv
from tests.factories import CODE_DIGEST, make_records


def write_results(
    machines: Path, study: Study, *, machine: str, variants: Sequence[str] | None = None
) -> Path:
    """The folder of a machine that measured these variants of the study, or all of them."""
    results = machines / machine
    for record in make_records(study, variants=variants, machine=machine):
        write_run(results / "runs" / record.variant, record)
    devices = dict.fromkeys(variant.device for variant in study.variants)
    CALIBRATION_FILE.write(
        make_plain_calibration(machine, list(devices)), results / "calibration.json"
    )
    return results


def write_run(folder: Path, record: Record) -> None:
    """Record, trace and trace tables of one variant; the trace holds nothing, and the tables have
    no rows.
    """
    RECORD_FILE.write(record, folder / "record.json")
    (folder / "trace").mkdir()
    if record.profile:
        trace = gzip.compress(json.dumps({"traceEvents": []}).encode(), mtime=0)
        write_bytes_atomically(folder / "trace" / record.profile.trace_file, trace)
    for name, text in as_csv(EMPTY_TABLES).items():
        write_text_atomically(folder / "trace_tables" / name, text)


def make_plain_calibration(machine: str, devices: Sequence[str]) -> Calibration:
    """Round ceilings, the same for every device."""
    return Calibration(
        schema_version=SCHEMA_VERSION,
        machine=machine,
        ceilings=[_ceilings(device) for device in devices],
        environment={"torch": "2.15.0"},
        provenance=Provenance(
            measured_at="2026-05-04T09:00:00Z",
            package_version="0.1.0",
            git_commit="0" * 40,
            git_dirty=False,
            code_digest=CODE_DIGEST,
        ),
    )


def _ceilings(device: str) -> Ceilings:
    sizes = [] if device == "cpu" else [4096, 2**20, 2**30]
    return Ceilings(
        device=device,
        name=f"a {device}",
        matrix_products=[
            MatrixProduct(precision=precision, size=2048, flops_per_s=[1e12, 1.1e12, 1.2e12])
            for precision in ("fp32", "tf32", "fp16", "bf16")
        ],
        copy_bytes=2**28,
        copy_bytes_per_s=[1e10, 1.1e10, 1.2e10],
        transfers=[
            Transfer(
                direction=direction, memory=memory, bytes=size, times_s=[size / 1e10 + 1e-5] * 3
            )
            for direction in ("to device", "to host")
            for memory in ("pageable", "pinned")
            for size in sizes
        ],
    )
