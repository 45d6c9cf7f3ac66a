"""How to cite gpu-report and what a machine measured with it, and what it took, for an artifact
evaluation.

package -> BibTeX; records -> facts, time, energy -> BibTeX, and a paragraph in plain text
"""

import hashlib
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from gpu_report import __version__
from gpu_report.printing.number_format import counted, in_minutes, scaled
from gpu_report.records.provenance import hardware_name
from gpu_report.records.record import Record
from gpu_report.tables.machine_facts import NONE, tabulate_machine
from gpu_report.writing.tex import pdf_string


def software_entry() -> str:
    """BibTeX for gpu-report, from the metadata of the package that is installed."""
    package = metadata.metadata("gpu-report")
    return _entry(
        f"software{{{package['Name']}",
        {
            "title": f"{package['Name']}: {package['Summary'].rstrip('.')}",
            "author": package["Author"],
            "version": __version__,
            "license": package["License-Expression"],
        },
    )


def measurements_entry(records: Sequence[Record], *, title: str, bundle: Path | None = None) -> str:
    """BibTeX for what one machine measured.

    Nobody is named as the author, since no record says who measured; `key` is what BibTeX sorts by
    instead.

    Args:
        records: Of one machine, at least one.
        title: Title of the study.
        bundle: The file that has the records, for its checksum.
    """
    facts = _facts(records)
    return _entry(
        f"misc{{gpu-report-{facts['machine']}",
        {
            "title": f"{title}: measurements on {hardware_name(records) or facts['machine']}",
            "year": max(record.provenance.measured_at for record in records)[:4],
            "key": "gpu-report",
            "howpublished": f"Measured {facts['measured on']} with gpu-report {facts['gpu-report']}"
            + ("" if facts["commit"] == NONE else f" (commit {facts['commit']})")
            + f", protocol version {facts['protocol version']}",
            **(
                {"note": f"Bundle with SHA-256 {hashlib.sha256(bundle.read_bytes()).hexdigest()}"}
                if bundle
                else {}
            ),
        },
    )


def artifact_paragraph(records: Sequence[Record], *, disk: str, rebuilt: str) -> str:
    """What an artifact evaluation asks: hardware, software, what was measured, hours, energy, disk,
    and how to make the report again.

    The time is that of the processes alone where older records say no more. The energy is that
    of the timed epochs, where the GPU's driver gave it.

    Args:
        records: Of one machine, at least one.
        disk: How much its results take, in words.
        rebuilt: The sentence that says how.
    """
    facts = _facts(records)
    hardware = [hardware_name(records) or facts["machine"]] + [
        f"{facts[name]} of {what}"
        for name, what in (("GPU memory", "memory per GPU"), ("main memory", "main memory"))
        if name in facts
    ]
    software = [
        f"{name} {facts[name]}"
        for name in ("PyTorch", "CUDA", "Python", "gpu-report")
        if facts.get(name, NONE) != NONE
    ]
    processes = [each for record in records for each in record.repetitions]
    processes_s = sum(
        each.build_time_s + each.preparation_time_s + each.training_wall_s for each in processes
    )
    measuring_s = [record.provenance.measuring_s for record in records]
    took = (
        f"Building, compiling and training took {in_minutes(processes_s)} of wall "
        "time; the time for starting processes and profiling was not measured."
        if None in measuring_s
        else f"Measuring them took {in_minutes(sum(filter(None, measuring_s)))} of wall time."
    )
    energies_j = [
        each.telemetry.energy_j
        for each in processes
        if each.telemetry and each.telemetry.energy_j is not None
    ]
    energy = (
        f"The GPU used {scaled(sum(energies_j) / 3600, 'Wh').plain()} in the timed epochs of "
        f"the {len(energies_j)} processes whose energy was measured."
        if energies_j
        else "The energy was not measured."
    )
    return (
        f"Hardware: {', '.join(hardware)}. Software: {', '.join(software)}. "
        f"Measured: {counted(int(facts['configurations measured']), 'configuration')} in "
        f"{len(processes)} fresh processes, {facts['measured on']}. {took} {energy} "
        f"The results take {disk}. {rebuilt}"
    )


def _facts(records: Sequence[Record]) -> dict[str, str]:
    return {str(row["name"]): str(row["value"]) for row in tabulate_machine(records)}


def _entry(head: str, fields: Mapping[str, str]) -> str:
    # BibTeX counts every brace, also after a backslash. The inner braces of titles and names keep
    # capitals and words as they are.
    lines = [
        f"  {name} = "
        + ("{{%s}}" if name in ("title", "author") else "{%s}")
        % str(pdf_string(text))
        .replace(r"\{", r"\textbraceleft{}")
        .replace(r"\}", r"\textbraceright{}")
        for name, text in fields.items()
    ]
    return ",\n".join([f"@{head}", *lines]) + "}"
