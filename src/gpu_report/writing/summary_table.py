"""The headline numbers: of every experiment and model, the fastest variant and its gain over the baseline."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from gpu_report.findings.rules.optimization import saves_memory
from gpu_report.writing.cells import Row
from gpu_report.writing.experiment_view import ExperimentView
from gpu_report.writing.fields import text_field
from gpu_report.writing.metrics import METRICS
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import Tex, escape
from gpu_report.writing.words import marks_of, model_words, on_device, titled, value_words

_MOST_ROWS_WITH_INTERVALS: Final = 8
"""More rows, and the summary would fill a page with intervals that the sections have."""


def summary_table(experiments: Sequence[ExperimentView]) -> TableBlock:
    """One row per model of an experiment, that of the group with the greatest gain.

    Without a gain where the fastest is the baseline or there is none. Experiments that are not about speed are left
    out: those that save memory, and those between workloads, of which none is faster at what the other does.
    """
    about_speed = [experiment for experiment in experiments if experiment.experiment.axis != "workload"]
    rows = [row for experiment in about_speed for row in _best_of_each_model(list(_fastest_rows(experiment)))]
    return lay_out(
        rows,
        name="headline",
        caption=escape("Headline numbers: the fastest variant of every comparison, and its gain over the baseline."),
        fields=[
            text_field("varied", "varied"),
            text_field("trained", "trained", width=0.32),
            text_field("fastest", "fastest", width=0.24),
        ],
        metrics=[METRICS[key] for key in ("throughput", "speedup", "quality")],
        headers={"speedup": "gain"},
        group=lambda row: row["varied"],
        intervals=len(rows) <= _MOST_ROWS_WITH_INTERVALS,
        marks=lambda row: [mark for mark in marks_of(row) if mark != "projected"],
        notes=[
            Tex("Gain: throughput over that of the experiment's baseline; none where the baseline is the fastest."),
            Tex(
                "Of several comparisons of the same model, one over whole epochs where there is one, and of these the "
                "one with the greatest gain."
            ),
            Tex("Quality is in the metric of each workload."),
        ],
    )


def _best_of_each_model(rows: Sequence[Row]) -> list[Row]:
    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        model = (row["workload"], row["size"])
        if model not in best or _weight(row) > _weight(best[model]):
            best[model] = row
    return list(best.values())


def _weight(row: Row) -> tuple[bool, float]:
    """Whole epochs count for more than any gain over shortened ones."""
    return not row["epoch_time_projected"], _gain_or_nothing(row)


def _gain_or_nothing(row: Row) -> float:
    return 0.0 if math.isnan(row["speedup"]) else float(row["speedup"])


def _fastest_rows(experiment: ExperimentView) -> Iterator[Row]:
    for group in experiment.groups:
        speeding = [row for row in group if not saves_memory(row)]
        measured = [row for row in speeding if row["status"] == "ok"]
        if measured and (len(speeding) > 1 or len(group) == 1):
            fastest = max(measured, key=lambda row: float(row["throughput_per_s"]))
            yield {
                **fastest,
                **_gain(fastest),
                "varied": experiment.axis,
                "trained": _trained(fastest, experiment),
                "fastest": _value(fastest, experiment.experiment.axis) + ("" if len(measured) > 1 else " (alone)"),
            }


def _gain(row: Row) -> Row:
    unsaid = row["is_baseline"] or not METRICS["speedup"].is_in([row])
    return dict.fromkeys(("speedup", "speedup_low", "speedup_high"), float("nan")) if unsaid else {}


def _value(row: Row, axis: str) -> str:
    return value_words(axis, row[axis])


def _trained(row: Row, experiment: ExperimentView) -> str:
    axis = experiment.experiment.axis
    model = titled(row) if axis == "size" else model_words(row)
    return model if axis == "device" else f"{model} {on_device(row['device'])}"
