"""From which batch size on a GPU is faster than the CPU, interpolated between the sizes that were
measured.

experiment -> groups that differ in batch size alone -> speedup at each size -> where it passes 1

log S is taken as a straight line in log b between neighbouring batch sizes. Where the lines through
the ends of the speedups' 95 % intervals pass 1, there are the ends of the interval: in it, no size
is significantly faster on either.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_report.glossary import Row
from gpu_report.records.record import Record
from gpu_report.storage.columns import Table, text, whole
from gpu_report.study.study import Experiment
from gpu_report.study.variant import LENGTH_FIELDS, Variant
from gpu_report.tables.column_kinds import DEVICE, WORKLOAD, summary_of
from gpu_report.tables.consistency import REFERENCE_DEVICE
from gpu_report.tables.experiments import group_names
from gpu_report.tables.pairs import speedup
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL, NOT_MEASURED, Summary
from gpu_report.tables.variants import records_by_variant

CROSSOVERS: Final = Table(
    name="crossovers",
    meaning="One row per experiment that compares devices at several batch sizes: from which one "
    "the GPU wins.",
    columns=(
        text("experiment", "Name of the experiment."),
        text("group", "What the compared variants share, for instance 'cnn small'."),
        WORKLOAD,
        DEVICE,
        whole("smallest", "1", "Smallest batch size measured on both devices."),
        whole("largest", "1", "Largest one."),
        text("verdict", "'crosses', 'accelerator always', 'cpu always' or 'unclear'."),
        *summary_of("batch_size"),
    ),
)

_BELOW: Final = 0.0
"""The crossover of a GPU that wins at every size measured."""
_ABOVE: Final = math.inf
"""That of one that wins at none."""

_Fields = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """Where a GPU begins to win; `batch_size` is measured only where the verdict is 'crosses'."""

    verdict: str
    batch_size: Summary = NOT_MEASURED


UNCLEAR: Final = Crossover(verdict="unclear")


def tabulate_crossovers(experiments: Iterable[Experiment], records: Iterable[Record]) -> list[Row]:
    """The table CROSSOVERS, in the order of the experiments; batch sizes that one side did not
    train are passed over.

    A group has a row where two batch sizes at least were measured on both devices. The verdict is
    unclear where the faster device changes more than once, where it is the CPU that wins the large
    batches, where the interval leaves the sizes measured, and where a variant was measured in fewer
    than four processes.

    Raises:
        RecordError: two records are of one variant.
    """
    by_variant = records_by_variant(records)
    return [
        row
        for experiment in experiments
        if experiment.axis == "device"
        for row in _rows(experiment, by_variant)
    ]


def find_crossover(speedups: Mapping[int, Summary]) -> Crossover:
    """From which batch size on the second of two devices is faster; `speedups` are its over the
    first by batch size.
    """
    processes = min(each.count for each in speedups.values())
    if processes < FEWEST_FOR_INTERVAL:
        return UNCLEAR
    ordered = sorted(speedups.items())
    value, high, low = (
        _crossing_size([(size, getattr(each, end)) for size, each in ordered])
        for end in ("value", "low", "high")
    )
    if low == value == high == _BELOW:
        return Crossover(verdict="accelerator always")
    if low == value == high == _ABOVE:
        return Crossover(verdict="cpu always")
    if not _BELOW < low <= value <= high < _ABOVE:
        return UNCLEAR
    return Crossover(
        verdict="crosses", batch_size=Summary(value=value, low=low, high=high, count=processes)
    )


def _crossing_size(speedups: Sequence[tuple[int, float]]) -> float:
    """Where the line through the speedups passes 1: _BELOW or _ABOVE all sizes, or NaN if it falls
    back.
    """
    wins = [speedup >= 1 for _, speedup in speedups]
    if wins != sorted(wins):
        return math.nan
    if wins[0] or not wins[-1]:
        return _BELOW if wins[0] else _ABOVE
    after = wins.index(True)
    (size, speedup), (next_size, next_speedup) = (
        tuple(map(math.log, point)) for point in (speedups[after - 1], speedups[after])
    )
    return math.exp(size - speedup * (next_size - size) / (next_speedup - speedup))


def _rows(experiment: Experiment, by_variant: Mapping[str, Record]) -> Iterator[Row]:
    groups: dict[tuple[str, _Fields], dict[int, Summary]] = {}
    for variant in experiment.variants:
        twin = _twin(variant, experiment)
        record, reference = (
            by_variant.get(variant.slug),
            by_variant.get(twin.slug) if twin else None,
        )
        found = speedup(record, reference) if record else NOT_MEASURED
        if found.count:
            groups.setdefault((variant.device, _shared_fields(variant)), {})[variant.batch_size] = (
                found
            )
    names = group_names(fields for _, fields in groups)
    for (device, fields), speedups in groups.items():
        if len(speedups) > 1:
            found_at = find_crossover(speedups)
            yield {
                "experiment": experiment.name,
                "group": names[fields],
                "workload": dict(fields)["workload"],
                "device": device,
                "smallest": min(speedups),
                "largest": max(speedups),
                "verdict": found_at.verdict,
                **found_at.batch_size.as_columns("batch_size"),
            }


def _twin(variant: Variant, experiment: Experiment) -> Variant | None:
    """The same on the CPU, if need be with epochs of another length; None for a variant of the CPU
    itself.
    """
    if variant.device == REFERENCE_DEVICE:
        return None
    twins = [
        each
        for each in experiment.variants
        if each.device == REFERENCE_DEVICE
        and each.batch_size == variant.batch_size
        and _without_length(each) == _without_length(variant)
    ]
    return max(
        twins, key=lambda each: _shared_fields(each) == _shared_fields(variant), default=None
    )


def _shared_fields(variant: Variant) -> _Fields:
    return variant.fields_without("device", "batch_size")


def _without_length(variant: Variant) -> _Fields:
    return variant.fields_without("device", "batch_size", *LENGTH_FIELDS)
