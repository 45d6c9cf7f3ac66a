"""The headline numbers: of every experiment and model, the fastest variant and its gain over the baseline."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from gpu_report.findings.rules.optimization import saves_memory
from gpu_report.glossary import SHOWN, Row
from gpu_report.options import is_bound
from gpu_report.writing.experiment_view import ExperimentView
from gpu_report.writing.fields import text_field
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import Tex, escape
from gpu_report.writing.words import marks_of, model_words, on_device, titled, value_words

_WITHOUT_LOOPS: Final = Tex("Of workloads with own loops, comparisons by device and by batch size are left out.")
_MOST_ROWS_WITH_INTERVALS: Final = 8
"""More rows, and the summary would fill a page with intervals that the sections have."""


def summary_table(experiments: Sequence[ExperimentView], *, most_rows: int) -> TableBlock:
    """One row per model of an experiment, that of the group with the greatest gain.

    Without a gain where the fastest is the baseline or there is none. Experiments that are not about speed are left
    out: those that save memory, and those between workloads, of which none is faster at what the other does. So are
    bounds, which do not train, and, between devices and between numbers of points, loops that a workload brings, which
    have an experiment of their own.

    Args:
        experiments: Those of one machine.
        most_rows: Where there are more, of each experiment the greatest gains.
    """
    about_speed = [experiment for experiment in experiments if experiment.experiment.axis != "workload"]
    found = [_best_of_each_model(list(_fastest_rows(experiment))) for experiment in about_speed]
    rows = _greatest_of_each(found, most_rows)
    left_out = sum(map(len, found)) - len(rows)
    return lay_out(
        rows,
        name="headline",
        caption=escape("Headline numbers: the fastest variant of every comparison, and its gain over the baseline."),
        fields=[
            text_field("varied", "varied"),
            text_field("trained", "trained", width=0.32),
            text_field("fastest", "fastest", width=0.24),
        ],
        metrics=[SHOWN[key] for key in ("throughput", "speedup", "quality")],
        headers={"speedup": "gain"},
        group=lambda row: row["varied"],
        intervals=len(rows) <= _MOST_ROWS_WITH_INTERVALS,
        marks=lambda row: [mark for mark in marks_of(row) if mark != "projected"],
        notes=[
            Tex("Gain: throughput over the experiment's baseline, none where that is the fastest."),
            Tex("Of several comparisons of a model the greatest, over whole epochs where there are."),
            *([escape(f"Left out: {left_out} of smaller gain.")] if left_out else []),
            *([_WITHOUT_LOOPS] if any(row["begins_anew"] for row in rows) else []),
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


def _greatest_of_each(experiments: Sequence[Sequence[Row]], most: int) -> list[Row]:
    """The rows of all experiments, of each only the greatest gains where there are more than `most`."""
    longest = max(map(len, experiments), default=0)
    fitting = (size for size in range(longest, 0, -1) if sum(min(len(rows), size) for rows in experiments) <= most)
    size = next(fitting, 1)
    of_each = [row for rows in experiments for row in sorted(rows, key=_gain_or_nothing, reverse=True)[:size]]
    kept = sorted(of_each, key=_gain_or_nothing, reverse=True)[:most]
    return [row for rows in experiments for row in rows if row in kept]


def _weight(row: Row) -> tuple[bool, float]:
    """Whole epochs count for more than any gain over shortened ones."""
    return not row["epoch_time_projected"], _gain_or_nothing(row)


def _gain_or_nothing(row: Row) -> float:
    return 0.0 if math.isnan(row["speedup"]) else float(row["speedup"])


def _fastest_rows(experiment: ExperimentView) -> Iterator[Row]:
    leaves_out_loops = experiment.experiment.axis in ("device", "batch_size")
    for group in experiment.groups:
        if leaves_out_loops and any(row["begins_anew"] for row in group):
            continue
        speeding = [row for row in group if not saves_memory(row) and not is_bound(row["options"])]
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
    unsaid = row["is_baseline"] or not SHOWN["speedup"].is_in([row])
    return dict.fromkeys(("speedup", "speedup_low", "speedup_high"), float("nan")) if unsaid else {}


def _value(row: Row, axis: str) -> str:
    return value_words(axis, row[axis])


def _trained(row: Row, experiment: ExperimentView) -> str:
    axis = experiment.experiment.axis
    model = titled(row) if axis == "size" else model_words(row)
    return model if axis == "device" else f"{model} {on_device(row['device'])}"
