"""Machines side by side: each variant that others measured too, against the first machine.

records of each machine -> pairs of records of one variant -> ratio of throughputs, and what else
differs between them

The ratio is between machines. It never enters a speedup, which compares variants within one
machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records.provenance import measures_alike
from gpu_report.records.record import Record
from gpu_report.storage.columns import Table, text
from gpu_report.tables.column_kinds import DEVICE, VARIANT, WORKLOAD, summary
from gpu_report.tables.marks import MEANINGS, SEPARATOR, Today, marks_of
from gpu_report.tables.pairs import other_software, speedup
from gpu_report.tables.processes import protocol_version, values_of
from gpu_report.tables.statistics import summarise
from gpu_report.tables.variants import in_reading_order, records_by_variant

COMPARISON: Final = Table(
    name="comparison",
    meaning="One row per variant that two machines measured, and pair of them; the ratio is "
    "between machines.",
    columns=(
        VARIANT,
        WORKLOAD,
        text("workload_title", "Its name for readers."),
        DEVICE,
        text("machine", "The machine that is compared."),
        text(
            "reference_machine",
            "The machine it is compared with, the first in the report's order that has it.",
        ),
        *summary("throughput_per_s", "1/s", "Training samples per second on the machine"),
        *summary(
            "reference_throughput_per_s",
            "1/s",
            "Training samples per second on the reference machine",
        ),
        *summary("ratio", "1", "The former over the latter"),
        text(
            "differences",
            "What else differs, such as 'PyTorch 2.11.0 and 2.15.0' or 'protocol 1 and 2'; or "
            "empty.",
        ),
        text(
            "marks", "Quality flags of either measurement, separated by semicolons; empty if none."
        ),
    ),
)


def tabulate_comparison(
    records_by_machine: Mapping[str, Sequence[Record]], *, today: Today
) -> list[Row]:
    """The table COMPARISON of the variants that the first machine and another measured to the end,
    in reading order.

    Raises:
        RecordError: a machine has two records of one variant.
    """
    measured = {
        machine: {
            slug: record
            for slug, record in records_by_variant(records).items()
            if record.status == "ok"
        }
        for machine, records in records_by_machine.items()
    }
    if not measured:
        return []
    (reference, own), *others = measured.items()
    return [
        _row(machine, records[record.variant], reference, record, today)
        for record in in_reading_order(list(own.values()))
        for machine, records in others
        if record.variant in records
    ]


def _row(
    machine: str, record: Record, reference_machine: str, reference: Record, today: Today
) -> Row:
    variant, facts = record.as_variant(), record.workload
    throughput, reference_throughput = (
        summarise(values_of(each, "throughput_per_s")) for each in (record, reference)
    )
    marks = {
        *marks_of(record, throughput, today, reference=reference),
        *marks_of(reference, reference_throughput, today),
    }
    return {
        "variant": variant.slug,
        "workload": variant.workload,
        "workload_title": facts.title if facts else variant.workload,
        "device": variant.device,
        "machine": machine,
        "reference_machine": reference_machine,
        **throughput.as_columns("throughput_per_s"),
        **reference_throughput.as_columns("reference_throughput_per_s"),
        **speedup(record, reference).as_columns("ratio"),
        "differences": f"{SEPARATOR} ".join(_differences(record, reference)),
        "marks": SEPARATOR.join(mark for mark in MEANINGS if mark in marks),
    }


def _differences(record: Record, reference: Record) -> Iterator[str]:
    """What differs besides the machine, in words, the compared machine's value first."""
    yield from other_software(record, reference)
    version, reference_version = protocol_version(record), protocol_version(reference)
    if version != reference_version:
        yield f"protocol {version} and {reference_version}, so that no ratio is formed"
    code, reference_code = record.provenance, reference.provenance
    if not measures_alike(code.code_digest, reference_code.code_digest) or (
        code.workload_digest != reference_code.workload_digest
    ):
        yield "measuring code"
    settings, reference_settings = (
        each.measurement["workload"]["settings"] for each in (record, reference)
    )
    for key in sorted({*settings, *reference_settings}):
        if settings.get(key) != reference_settings.get(key):
            yield f"{key} {settings.get(key, 'none')} and {reference_settings.get(key, 'none')}"
