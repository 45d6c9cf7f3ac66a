"""The table of the machine: the hardware and software that measured, from the records, when they
did, and what.

Records rather than the machine in hand, so that a report made elsewhere names the machine that
measured.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gpu_report.glossary import Row
from gpu_report.printing.number_format import quantity
from gpu_report.records.record import Record
from gpu_report.storage.columns import Table, text
from gpu_report.tables.bundle import grouped
from gpu_report.tables.processes import SOFTWARE, class_of
from gpu_report.tables.variants import in_reading_order

MACHINE: Final = Table(
    name="machine",
    meaning="One row per fact about what measured and what was measured, from the records.",
    columns=(
        text("topic", "hardware, software, measurement or workload."),
        text("name", "What the fact is about."),
        text("value", "The fact; several, separated by semicolons, where the records differ."),
    ),
)

NONE: Final = "none"
_HARDWARE: Final = ("host", "other_jobs", "accelerator", "cpu", "memory")
_NAMES: Final = {
    "other_jobs": "other jobs on the node",
    "cpu_model": "CPU",
    "cpu_microarchitecture": "CPU microarchitecture",
    "cpu_sockets": "CPU sockets",
    "cpu_cores": "CPU cores",
    "cpu_quota": "CPU quota in cores",
    "cpu_instructions": "CPU instructions",
    "memory_gib": "main memory",
    "os": "operating system",
    **SOFTWARE,
    "torch_threads": "threads of PyTorch",
}
_WORKLOAD_FACTS: Final = (
    *(
        "title",
        "parameters",
        "train_samples",
        "test_samples",
        "sample_description",
        "data_description",
    ),
    *("quality_name", "quality_chance", "optimizer", "loss", "source_file"),
)
_SHORT_DIGEST: Final = 12


def tabulate_machine(records: Iterable[Record]) -> list[Row]:
    """The table MACHINE: hardware, software, measurement, workloads; where records differ, a fact
    holds every value.
    """
    ordered = in_reading_order(records)
    facts = [*_environment(ordered), *_measurement(ordered), *_facts_of_workloads(ordered)]
    topics = ("hardware", "software", "measurement", "workload")
    return [
        {"topic": topic, "name": name, "value": value}
        for wanted in topics
        for topic, name, value in facts
        if topic == wanted
    ]


def _environment(records: Sequence[Record]) -> Iterator[tuple[str, str, str]]:
    for key in dict.fromkeys(key for record in records for key in record.environment):
        values = [
            _text(key, record.environment[key]) for record in records if key in record.environment
        ]
        name = _NAMES.get(
            key, key.removesuffix("_gib").replace("_", " ").replace("accelerator", "GPU")
        )
        topic = "measurement" if key.startswith("torch_threads") else "software"
        yield "hardware" if key.startswith(_HARDWARE) else topic, name, _joined(values)
    variants = [record.as_variant() for record in records if record.status == "ok"]
    most = max((variant.devices for variant in variants if variant.device_type != "cpu"), default=1)
    if most > 1:
        yield "hardware", "most GPUs in one training", str(most)


def _measurement(records: Sequence[Record]) -> Iterator[tuple[str, str, str]]:
    if not records:
        return
    days = sorted(record.provenance.measured_at[: len("2026-05-04")] for record in records)
    counts = [str(len(record.repetitions)) for record in records if record.status == "ok"]
    failed = len(records) - len(counts)
    measured = {
        "machine": _joined(record.machine for record in records),
        "configurations measured": str(len(counts)),
        **({"configurations without numbers": str(failed)} if failed else {}),
        "processes per configuration": _joined(counts) or NONE,
        "protocol version": _joined(
            str(record.measurement["protocol"]["version"]) for record in records
        ),
        "measured on": days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}",
        "gpu-report": _joined(record.provenance.package_version for record in records),
        "commit": _joined(
            NONE
            if (commit := record.provenance.git_commit) is None
            else commit[:_SHORT_DIGEST] + (" with changes" if record.provenance.git_dirty else "")
            for record in records
        ),
        "measuring code": _joined(
            record.provenance.code_digest[:_SHORT_DIGEST] for record in records
        ),
    }
    of_users = (each for each in map(class_of, records) if each[1])
    if classes := _joined(f"{path} {digest[:_SHORT_DIGEST]}" for path, digest in of_users):
        measured["your class"] = classes
    if changed := sorted(
        {file for record in records for file in record.provenance.changed_files or []}
    ):
        measured["changed files"] = ", ".join(changed)
    yield from (("measurement", name, value) for name, value in measured.items())


def _facts_of_workloads(records: Sequence[Record]) -> Iterator[tuple[str, str, str]]:
    models = grouped(
        [record for record in records if record.workload],
        lambda record: (record.as_variant().workload, record.as_variant().size),
    )
    for (workload, size), of_model in models.items():
        for fact in _WORKLOAD_FACTS:
            said = (getattr(record.workload, fact) for record in of_model)
            values = (NONE if value in (None, "") else str(value) for value in said)
            yield "workload", f"{workload} {size}: {fact.replace('_', ' ')}", _joined(values)


def _text(key: str, value: str | float | None) -> str:
    if value is None:
        return NONE
    if isinstance(value, float):
        return quantity(value, "GiB" if key.endswith("_gib") else "", most_decimals=1).plain()
    return str(value)


def _joined(values: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(values))
