"""The sources' own figures beside ours: what each reports, what the same training took here, and
the ratio of the two.

tables/sources.yaml (theirs) + records and traces (ours) -> one row per figure; ours is missing
where no record is of that training
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

from gpu_report.glossary import METRICS, Row
from gpu_report.records.record import Record, Repetition
from gpu_report.storage.columns import Table, number, text
from gpu_report.storage.json_files import Part, Positive
from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import grouped
from gpu_report.tables.marks import SEPARATOR, Today, marks_of
from gpu_report.tables.operations import Profiled, quotient, tabulate_category_speedups
from gpu_report.tables.processes import are_comparable, brings_loop, built_in, pairs_of, values_of
from gpu_report.tables.sessions import ONE_SESSION, Sessions
from gpu_report.tables.statistics import holm, ratio, summarise, summary
from gpu_report.tables.variants import records_by_variant
from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS
from gpu_report.traces.phases import PHASES
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables

SOURCES: Final = Table(
    name="sources",
    meaning="One row per figure that a source of this project reports: theirs, ours of the same "
    "training, the ratio.",
    columns=(
        text("row", "The requirement it belongs to, such as A1."),
        text("source", "The source, in words."),
        text("hardware", "The source's hardware; 'not reported' where it does not name it."),
        text("measured", "What it is, in words."),
        text("metric", "What is measured, a metric of the sources; speedup is of training_time_s."),
        text("part", "Phase, kind of work, operation or number of the epoch it is of; or empty."),
        text("unit", "Unit of reported and ours."),
        number(
            "reported",
            "unit",
            "The source's figure, on its hardware; missing where it reports only which is faster.",
        ),
        *summary(
            "ours",
            "unit",
            "The same on this machine; missing without a measurement of the same training",
        ),
        number(
            "ours_p",
            "1",
            "The p-value of the hypothesis that neither compared training is faster, adjusted for "
            "the source's other comparisons (Holm); missing for other rows.",
        ),
        *summary("ratio", "1", "Ours over the source's"),
        text("variant", "The variant of ours that answers it; empty where none can."),
        text("reference_variant", "The variant that it is compared with; else empty."),
        text(
            "differs",
            "What differs from the source, or was chosen where that says nothing; where no variant "
            "answers it, why; or empty.",
        ),
        text("marks", "Quality flags of our measurement, separated by semicolons; empty if none."),
    ),
)

COMPARED: Final = ("speedup", "ratio")
"""Metrics of two trainings of which a source says that one is faster."""
Metric = Literal[
    "training_time_s",
    "epoch_time_s",
    "throughput_per_s",
    "memory_peak_mib",
    "memory_percent",
    "utilisation_percent",
    "quality",
    "parameters",
    "speedup",
    "ratio",
    "time_percent",
    "time_reduction_percent",
    "category_speedup",
    "device_time_percent",
    "profiled_time_ms",
]


class Source(Part):
    """One source, of which the rows begin with one letter."""

    title: str
    hardware: str


class ReportedFigure(Part):
    """A number that a source reports, or which of two it reports as faster; tables/sources.yaml
    explains the fields.
    """

    row: str
    measured: str
    metric: Metric
    part: str = ""
    value: Positive | None = None
    of_gb: Positive = math.nan
    variant: str = ""
    over: str = ""
    differs: str = ""


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


def tabulate_sources(
    records: Iterable[Record],
    traces: Mapping[str, TraceTables],
    *,
    today: Today,
    sessions: Sessions = ONE_SESSION,
) -> list[Row]:
    """The table SOURCES, in the order of the sources.

    Raises:
        RecordError: two records are of one variant.
    """
    by_variant = records_by_variant(
        record for record in records if record.status == "ok" and _is_same(record)
    )
    rows = [_row(figure, by_variant, traces, today, sessions) for figure in reported().figures]
    return [
        {**row, "ours_p": p}
        for compared in grouped(rows, lambda row: row["source"]).values()
        for row, p in zip(compared, holm([row["ours_p"] for row in compared]), strict=True)
    ]


def _is_same(record: Record) -> bool:
    """Whether it is of the training that the sources describe, by what a variant's name
    leaves out.
    """
    asked, found = (
        reported().settings.get(record.as_variant().workload),
        record.measurement["workload"]["settings"],
    )
    return asked is not None and built_in(record) is not None and asked.items() <= found.items()


def _row(
    figure: ReportedFigure,
    by_variant: Mapping[str, Record],
    traces: Mapping[str, TraceTables],
    today: Today,
    sessions: Sessions,
) -> Row:
    record, reference = by_variant.get(figure.variant), by_variant.get(figure.over)
    values = [*_values(figure, record, reference, traces)] if record else []
    source, theirs = reported().sources[figure.row[0]], figure.value
    metric = METRICS[figure.metric]
    # The flags of either side of a comparison are about it.
    marks = dict.fromkeys(
        mark
        for side in (record, reference)
        if side and values
        for mark in marks_of(
            side,
            summarise(values_of(side, "throughput_per_s")),
            today,
            reference=reference,
            sessions=sessions,
        )
    )
    by_index = dict(enumerate(values if figure.metric in COMPARED else []))
    return {
        "row": figure.row,
        "source": source.title,
        "hardware": source.hardware,
        "measured": figure.measured,
        "metric": figure.metric,
        "part": figure.part,
        "unit": metric.unit,
        "reported": theirs,
        **summarise(values, scale=metric.scale).as_columns("ours"),
        "ours_p": ratio(by_index, dict.fromkeys(by_index, 1.0)).p,
        **summarise(
            [value / theirs for value in values] if theirs else [], scale=metric.scale
        ).as_columns("ratio"),
        "variant": figure.variant,
        "reference_variant": figure.over,
        "differs": figure.differs,
        "marks": SEPARATOR.join(marks),
    }


def _values(
    figure: ReportedFigure,
    record: Record,
    reference: Record | None,
    traces: Mapping[str, TraceTables],
) -> Iterator[float]:
    """One value per process, and one of a profiled run; none of a comparison with what was not
    measured, or by another protocol.
    """
    if figure.metric in _OF_TWO:
        if reference and are_comparable(record, reference):
            for before, after in pairs_of(reference, record):
                yield _OF_TWO[figure.metric](
                    _training_time_s(reference, before) / _training_time_s(record, after),
                    after.throughput_per_s / before.throughput_per_s,
                )
    elif figure.metric == "training_time_s":
        yield from (_training_time_s(record, repetition) for repetition in record.repetitions)
    elif figure.metric == "epoch_time_s":
        for repetition in record.repetitions:
            yield repetition.epochs[int(figure.part) - 1].wall_time_s
    elif figure.metric == "parameters":
        yield from [float(record.workload.parameters)] if record.workload else []
    elif figure.metric == "memory_percent":
        for memory_mib in values_of(record, "memory_peak_mib"):
            yield 100 * memory_mib * 2**20 / (1e9 * figure.of_gb)
    elif figure.part:
        found = _profiled(figure, traces).get((figure.metric, figure.part))
        yield from [] if found is None else [found]
    else:
        yield from values_of(record, figure.metric)


_OF_TWO: Final[Mapping[str, Callable[[float, float], float]]] = {
    "speedup": lambda time_ratio, _: time_ratio,
    "time_reduction_percent": lambda time_ratio, _: 100 * (1 - 1 / time_ratio),
    "ratio": lambda _, rate_ratio: rate_ratio,
    "time_percent": lambda _, rate_ratio: 100 / rate_ratio,
}
"""Metrics of two variants, from the ratios of their training times and of their throughputs."""


def _profiled(
    figure: ReportedFigure, traces: Mapping[str, TraceTables]
) -> dict[tuple[str, str], float]:
    """What profiled runs say of the figure's variant, by metric and part.

    The time of an operation is the mean of a call, on the GPU where it launches work; that of a
    phase is on the device, per step.
    """
    compared = {name: traces[name] for name in (figure.over, figure.variant) if name in traces}
    profile = Profiled(
        variant=Variant.from_slug(figure.variant), tables=traces.get(figure.variant, {})
    )
    phases = profile.rows_on_own_device(PHASES)
    all_ms, cudnn_ms = (sum(row[name] for row in phases) for name in ("self_ms", "cudnn_ms"))
    percent = {
        **{
            row["category"]: 100 * row["share"]
            for row in profile.rows_on_own_device(CATEGORY_TIMES)
        },
        **{row["phase"]: 100 * row["share"] for row in phases},
        "cuDNN": 100 * quotient(cudnn_ms, all_ms),
    }
    operations = (*profile.rows(OPERATIONS), *profile.rows_on_own_device(OPERATIONS))
    times_ms = {
        **{row["name"]: row["total_ms"] / row["calls"] for row in operations},
        **{row["phase"]: row["self_ms"] / len(profile.tables[STEPS]) for row in phases},
    }
    return {
        **{
            ("category_speedup", row["category"]): row["speedup"]
            for row in tabulate_category_speedups(compared, loops=())
        },
        **{("device_time_percent", part): value for part, value in percent.items()},
        **{("profiled_time_ms", part): value for part, value in times_ms.items()},
    }


def _training_time_s(record: Record, repetition: Repetition) -> float:
    """All epochs that were asked for, the first included; of a custom training loop one, which is a
    whole training.
    """
    if brings_loop(record):
        return statistics.median(epoch.wall_time_s for epoch in repetition.timed_epochs)
    return sum(epoch.wall_time_s for epoch in repetition.epochs)
