"""The sources' own figures beside ours: what each reports, what the same training took here, and
the ratio of the two.

tables/sources.yaml (theirs) + records (ours) -> one row per figure; ours is missing where no record
is of that training
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

from gpu_report.glossary import METRICS, Row
from gpu_report.records.record import Record, Repetition
from gpu_report.storage.columns import Table, number, text
from gpu_report.storage.json_files import Part, Positive
from gpu_report.tables.marks import SEPARATOR, Today, marks_of
from gpu_report.tables.processes import brings_loop, built_in, pairs_of, same_protocol, values_of
from gpu_report.tables.statistics import summarise, summary
from gpu_report.tables.variants import records_by_variant

SOURCES: Final = Table(
    name="sources",
    meaning="One row per figure that a source of this project reports: theirs, ours of the same "
    "training, the ratio.",
    columns=(
        text("row", "The requirement it belongs to, such as A1."),
        text("source", "The source, in words."),
        text("hardware", "The source's hardware; 'not reported' where it does not name it."),
        text("measured", "What it is, in words."),
        text(
            "metric",
            "training_time_s, speedup (of that), throughput_per_s, memory_peak_mib, quality or "
            "parameters.",
        ),
        text("unit", "Unit of reported and ours."),
        number(
            "reported",
            "unit",
            "The source's figure, on its hardware; missing where it reports none.",
        ),
        *summary(
            "ours",
            "unit",
            "The same on this machine; missing without a measurement of the same training",
        ),
        *summary("ratio", "1", "Ours over the source's"),
        text("variant", "The variant of ours that answers it."),
        text("reference_variant", "The variant that a speedup is over; else empty."),
        text("assumed", "What the source leaves open and was chosen here; or empty."),
        text("marks", "Quality flags of our measurement, separated by semicolons; empty if none."),
    ),
)

Metric = Literal[
    "training_time_s", "speedup", "throughput_per_s", "memory_peak_mib", "quality", "parameters"
]


class Source(Part):
    """One source, of which the rows begin with one letter."""

    title: str
    hardware: str


class ReportedFigure(Part):
    """A number that a source reports, or that it could have; tables/sources.yaml explains the
    fields.
    """

    row: str
    measured: str
    metric: Metric
    value: Positive | None = None
    variant: str
    over: str | None = None
    assumed: str = ""


class Reported(Part):
    """All that the sources report."""

    sources: dict[str, Source]
    settings: dict[str, dict[str, Any]]
    figures: list[ReportedFigure]


@cache
def reported() -> Reported:
    """What tables/sources.yaml holds, checked."""
    import yaml

    text = resources.files("gpu_report.tables").joinpath("sources.yaml").read_text("utf-8")
    return Reported.model_validate(yaml.safe_load(text))


def tabulate_sources(records: Iterable[Record], *, today: Today) -> list[Row]:
    """The table SOURCES, in the order of the sources.

    Raises:
        RecordError: two records are of one variant.
    """
    by_variant = records_by_variant(
        record for record in records if record.status == "ok" and _is_same(record)
    )
    return [_row(figure, by_variant, today) for figure in reported().figures]


def _is_same(record: Record) -> bool:
    """Whether it is of the training that the sources describe, by what a variant's name
    leaves out.
    """
    asked, found = (
        reported().settings.get(record.as_variant().workload),
        record.measurement["workload"]["settings"],
    )
    return asked is not None and built_in(record) is not None and asked.items() <= found.items()


def _row(figure: ReportedFigure, by_variant: Mapping[str, Record], today: Today) -> Row:
    record, reference = by_variant.get(figure.variant), by_variant.get(figure.over or "")
    values = [*_values(figure, record, reference)] if record else []
    source, theirs = reported().sources[figure.row[0]], figure.value
    metric = METRICS[figure.metric]
    throughput = summarise(values_of(record, "throughput_per_s") if record else [])
    marks = marks_of(record, throughput, today, reference=reference) if record and values else []
    return {
        "row": figure.row,
        "source": source.title,
        "hardware": source.hardware,
        "measured": figure.measured,
        "metric": figure.metric,
        "unit": metric.unit,
        "reported": theirs,
        **summarise(values, scale=metric.scale).as_columns("ours"),
        **summarise(
            [value / theirs for value in values] if theirs else [], scale=metric.scale
        ).as_columns("ratio"),
        "variant": figure.variant,
        "reference_variant": figure.over or "",
        "assumed": figure.assumed,
        "marks": SEPARATOR.join(marks),
    }


def _values(figure: ReportedFigure, record: Record, reference: Record | None) -> Iterator[float]:
    """One value per process; none of a speedup over what was not measured, or by another
    protocol.
    """
    if figure.metric == "speedup":
        if reference and same_protocol(record, reference):
            for before, after in pairs_of(reference, record):
                yield _training_time_s(reference, before) / _training_time_s(record, after)
    elif figure.metric == "training_time_s":
        yield from (_training_time_s(record, repetition) for repetition in record.repetitions)
    elif figure.metric == "parameters":
        yield from [float(record.workload.parameters)] if record.workload else []
    else:
        yield from values_of(record, figure.metric)


def _training_time_s(record: Record, repetition: Repetition) -> float:
    """All epochs that were asked for, the first included; of a custom training loop one, which is a
    whole training.
    """
    if brings_loop(record):
        return statistics.median(epoch.wall_time_s for epoch in repetition.timed_epochs)
    return sum(epoch.wall_time_s for epoch in repetition.epochs)
