"""Commands that pack one machine's results into a bundle, unpack one, and list the machines a
report can show.
"""

from argparse import Namespace
from pathlib import Path

from gpu_report.bundles.shown_machines import BUNDLE_SUFFIX, MACHINES, PUBLISHED, find_bundles
from gpu_report.bundles.unpacking import unpack as unpack_results
from gpu_report.errors import RecordError
from gpu_report.printing.terminal import new_console, say
from gpu_report.records.batch_sizes import SEARCHES_FOLDER
from gpu_report.records.record import RECORD_FILE
from gpu_report.storage.files import list_content
from gpu_report.study.config import read_config
from gpu_report.study.machine import find_machine


def pack(arguments: Namespace) -> None:
    """Write the bundle of one machine and say what is in it."""
    from gpu_report.bundles.packing import pack as pack_results

    machine = arguments.machine or find_machine().id
    name = f"{machine}{BUNDLE_SUFFIX}"
    target = arguments.out or (
        Path("results") / f"with-traces-{name}" if arguments.traces else PUBLISHED / name
    )
    packed = pack_results(
        MACHINES / machine,
        target,
        machine=machine,
        study=str(read_config(arguments.configfile).get("name", "")),
        with_traces=arguments.traces,
        allow_dirty=arguments.allow_dirty,
    )
    for slug, reason in packed.left_out.items():
        say(f"left out {slug}: {reason}", to_stderr=True)
    say(f"{target}: {packed.manifest.records} records of {machine}, {packed.bytes / 1e6:.2f} MB")


def unpack(arguments: Namespace) -> None:
    """Put a bundle's results into the folder of its machine, beside what is measured there
    already.
    """
    unpacked = unpack_results(arguments.bundle, arguments.machine_folder)
    for name in ("runs", SEARCHES_FOLDER):
        list_content(unpacked.folder / name)
    say(f"{unpacked.folder}: {len(unpacked.placed)} records of {unpacked.manifest.hardware}")
    if unpacked.kept:
        say(
            f"left as they were, being measured there already: {', '.join(unpacked.kept)}",
            to_stderr=True,
        )


def list_machines(_: Namespace) -> None:
    """Print this machine and every published one: records, those of no clean commit, the newest,
    and the hardware.
    """
    from rich.table import Table

    here = find_machine()
    table = Table(
        "machine",
        "from",
        "records",
        "dirty",
        "newest",
        "hardware",
        box=None,
        pad_edge=False,
        expand=False,
    )
    records = []
    for path in sorted((MACHINES / here.id / "runs").glob("*/record.json")):
        try:
            records.append(RECORD_FILE.read(path))
        except RecordError as error:
            say(f"left out: {error}", to_stderr=True)
    newest = max((record.provenance.measured_at for record in records), default="")
    dirty = sum(not record.provenance.is_clean for record in records)
    accelerators = [accelerator.name for accelerator in here.accelerators]
    table.add_row(
        here.id,
        "here",
        str(len(records)),
        str(dirty),
        newest,
        ", ".join([*accelerators, here.cpu_model, f"{here.cores} cores"]),
    )
    for bundle in find_bundles().values():
        manifest = bundle.manifest
        dirty_text = "unknown" if manifest.dirty_records is None else str(manifest.dirty_records)
        counts = (str(manifest.records), dirty_text)
        table.add_row(
            manifest.machine, str(bundle.path), *counts, manifest.measured_at, manifest.hardware
        )
    new_console(unwrapped_when_piped=True).print(table)
