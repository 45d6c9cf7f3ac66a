"""The table of one experiment: its variants in groups that differ along one axis, each compared with the baseline.

variants -> groups (all fields but the axis) -> speedup of each over the variant at the baseline

Speedup S = X / X_b, with the throughput X of a variant and X_b of its baseline; the time for the same number of samples
shrinks by 1 - 1 / S (Hennessy and Patterson, Computer Architecture, section 1.8: speedup is the ratio of times).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gpu_report.errors import RecordError
from gpu_report.records import Record
from gpu_report.study import Experiment
from gpu_report.tables.marks import Today
from gpu_report.tables.processes import process_values
from gpu_report.tables.schema import EXPERIMENT
from gpu_report.tables.statistics import Summary, ratio_of_medians
from gpu_report.tables.variants import records_by_variant, variant_row
from gpu_report.variant import Variant

if TYPE_CHECKING:
    import pandas as pd

_ALWAYS_NAMED: Final = ("workload", "size", "device")
_WORDS: Final[Mapping[str, str]] = {
    "batch_size": "batch {}",
    "workers": "{} workers",
    "epochs": "{} epochs",
    "steps_per_epoch": "{} steps per epoch",
    "seed": "seed {}",
}

_Fields = tuple[tuple[str, Any], ...]


def tabulate_experiment(experiment: Experiment, records: Iterable[Record], *, today: Today) -> "pd.DataFrame":
    """The table EXPERIMENT, in the order of the experiment's variants; records of other variants are passed over.

    Raises:
        RecordError: a variant has no record, or two.
    """
    by_variant = records_by_variant(records)
    chosen = {variant: _record_of(experiment, variant, by_variant) for variant in experiment.variants}
    throughput = {variant: process_values(record)["throughput_per_s"] for variant, record in chosen.items()}
    baselines = {_shared_fields(v, experiment.axis): v for v in chosen if _is_baseline(v, experiment)}
    names = _group_names([_shared_fields(variant, experiment.axis) for variant in chosen])
    rows = []
    for variant, record in chosen.items():
        group = _shared_fields(variant, experiment.axis)
        baseline = baselines.get(group)
        reference = throughput[baseline] if baseline else []
        speedup = speedup_of(throughput[variant], reference, is_baseline=variant == baseline)
        rows.append(
            {
                **variant_row(record, today=today),
                "group": names[group],
                "is_baseline": variant == baseline,
                **speedup.as_columns("speedup"),
                "time_reduction_percent": 100 * (1 - 1 / speedup.median),
            }
        )
    return EXPERIMENT.from_rows(rows)


def speedup_of(throughput: Sequence[float], reference: Sequence[float], *, is_baseline: bool) -> Summary:
    """Ratio of median throughputs over processes; a measured baseline is 1 by definition, without any uncertainty."""
    if is_baseline and reference:
        return Summary(median=1.0, low=1.0, high=1.0, count=len(reference))
    return ratio_of_medians(throughput, reference)


def _record_of(experiment: Experiment, variant: Variant, by_variant: Mapping[str, Record]) -> Record:
    if variant.slug not in by_variant:
        raise RecordError(
            f"experiment {experiment.name}: variant {variant.slug} has no record; measure it with gpu-report run "
            f"{variant.slug}"
        )
    return by_variant[variant.slug]


def _is_baseline(variant: Variant, experiment: Experiment) -> bool:
    return bool(getattr(variant, experiment.axis) == experiment.baseline)


def _shared_fields(variant: Variant, axis: str) -> _Fields:
    return tuple((name, value) for name, value in asdict(variant).items() if name != axis)


def _group_names(groups: Iterable[_Fields]) -> dict[_Fields, str]:
    """A short name for each group: workload, size and device, and of the other fields those that tell groups apart."""
    distinct = list(dict.fromkeys(groups))
    alike: dict[tuple[Any, ...], list[_Fields]] = {}
    for group in distinct:
        alike.setdefault(_short_key(group), []).append(group)
    return {group: " ".join(_named(group, _differing(alike[_short_key(group)]))) for group in distinct}


def _short_key(group: _Fields) -> tuple[Any, ...]:
    return tuple(value for name, value in group if name in _ALWAYS_NAMED)


def _differing(groups: Sequence[_Fields]) -> set[str]:
    values: dict[str, set[Any]] = {}
    for group in groups:
        for name, value in group:
            values.setdefault(name, set()).add(value)
    return {name for name, found in values.items() if len(found) > 1}


def _named(group: _Fields, differing: set[str]) -> list[str]:
    named = [(name, value) for name, value in group if name in _ALWAYS_NAMED or name in differing]
    return [
        "whole epochs" if value is None else _WORDS.get(name, "{}").format(value)
        for name, value in named
        if (name, value) != ("size", "default")
    ]
