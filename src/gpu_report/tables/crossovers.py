"""From which batch size on an accelerator is faster than the CPU, interpolated between the sizes that were measured.

experiment -> groups that differ in batch size alone -> speedup at each size -> where it passes 1

log S is taken as a straight line in log b between neighbouring batch sizes. Every size's processes are drawn again with
replacement, on both devices, and the interpolation repeated: the middle 95 % of the sizes so found is the interval.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from gpu_report.records import Record
from gpu_report.study import Experiment
from gpu_report.tables.consistency import REFERENCE_DEVICE
from gpu_report.tables.experiments import group_names
from gpu_report.tables.processes import process_values
from gpu_report.tables.schema import CROSSOVERS
from gpu_report.tables.statistics import CONFIDENCE, NOT_MEASURED, Summary
from gpu_report.tables.variants import records_by_variant
from gpu_report.variant import Variant

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

_RESAMPLES: Final = 9999
_SEED: Final = 20260504
_BELOW: Final = 0.0
"""The crossover of an accelerator that wins at every size measured."""
_ABOVE: Final = math.inf
"""That of one that wins at none."""

_Fields = tuple[tuple[str, Any], ...]
_Pairs = dict[int, tuple[list[float], list[float]]]


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """Where an accelerator begins to win; `batch_size` is measured only where the verdict is 'crosses'."""

    verdict: str
    batch_size: Summary = NOT_MEASURED


UNCLEAR: Final = Crossover(verdict="unclear")


def tabulate_crossovers(experiments: Iterable[Experiment], records: Iterable[Record]) -> "pd.DataFrame":
    """The table CROSSOVERS, in the order of the experiments; batch sizes that one side did not train are passed over.

    A group has a row where two batch sizes at least were measured on both devices. The verdict is unclear where the
    faster device changes more than once, where it is the CPU that wins the large batches, where the interval leaves the
    sizes measured, and where a variant was measured in one process alone.

    Raises:
        RecordError: two records are of one variant.
    """
    by_variant = records_by_variant(records)
    return CROSSOVERS.from_rows(
        row for experiment in experiments if experiment.axis == "device" for row in _rows(experiment, by_variant)
    )


def find_crossover(throughput: Mapping[int, tuple[list[float], list[float]]]) -> Crossover:
    """From which batch size on the second of two devices is faster.

    `throughput` maps a batch size to that of the CPU and of the accelerator, one value per process.
    """
    import numpy as np

    sizes = sorted(throughput)
    if any(len(side) < 2 for size in sizes for side in throughput[size]):
        return UNCLEAR
    random = np.random.default_rng(_SEED)
    speedups = np.stack([_resampled_speedups(*throughput[size], random) for size in sizes], axis=1)
    measured, *resampled = _crossing_sizes(np.array(sizes, dtype=np.float64), speedups).tolist()
    return _judge(measured, resampled, processes=min(len(side) for sides in throughput.values() for side in sides))


def _judge(measured: float, resampled: list[float], *, processes: int) -> Crossover:
    known = sorted(size for size in resampled if not math.isnan(size))
    tail = (1 - CONFIDENCE) / 2
    if math.isnan(measured) or len(known) < CONFIDENCE * len(resampled):
        return UNCLEAR
    low, high = known[int(tail * len(known))], known[int((1 - tail) * len(known))]
    if low == measured == high == _BELOW:
        return Crossover(verdict="accelerator always")
    if low == measured == high == _ABOVE:
        return Crossover(verdict="cpu always")
    if not _BELOW < low <= measured <= high < _ABOVE:
        return UNCLEAR
    return Crossover(verdict="crosses", batch_size=Summary(median=measured, low=low, high=high, count=processes))


def _resampled_speedups(
    reference: list[float], values: list[float], random: "np.random.Generator"
) -> "NDArray[np.float64]":
    """The ratio of medians as measured, and after it those of the processes drawn again."""
    import numpy as np

    sides = []
    for side in (values, reference):
        ordered = np.sort(np.array(side))
        drawn = random.choice(ordered, size=(_RESAMPLES, ordered.size))
        sides.append(np.concatenate([[np.median(ordered)], np.median(drawn, axis=1)]))
    return np.asarray(sides[0] / sides[1])


def _crossing_sizes(sizes: "NDArray[np.float64]", speedups: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Per row of speedups, one column per size: where it passes 1, _BELOW, _ABOVE, or NaN if it falls back."""
    import numpy as np

    wins = speedups >= 1
    rises_once = ~np.any(wins[:, :-1] & ~wins[:, 1:], axis=1)
    crossings = np.where(rises_once, np.where(wins[:, 0], _BELOW, _ABOVE), np.nan)
    rows = np.flatnonzero(rises_once & ~wins[:, 0] & wins[:, -1])
    right = np.argmax(wins[rows], axis=1)
    size, speedup = np.log(sizes), np.log(speedups[rows])
    before, after = (speedup[np.arange(len(rows)), column] for column in (right - 1, right))
    share = before / (before - after)
    crossings[rows] = np.exp(size[right - 1] + share * (size[right] - size[right - 1]))
    return crossings


def _rows(experiment: Experiment, by_variant: Mapping[str, Record]) -> Iterator[dict[str, Any]]:
    groups: dict[tuple[str, _Fields], _Pairs] = {}
    for variant in experiment.variants:
        twin = _twin(variant, experiment)
        speeds = [_throughput(each, by_variant) for each in (twin, variant) if each]
        if len(speeds) == 2 and all(speeds):
            pairs = groups.setdefault((variant.device, _shared_fields(variant)), {})
            pairs[variant.batch_size] = (speeds[0], speeds[1])
    names = group_names(fields for _, fields in groups)
    for (device, fields), pairs in groups.items():
        if len(pairs) > 1:
            found = find_crossover(pairs)
            yield {
                "experiment": experiment.name,
                "group": names[fields],
                "workload": dict(fields)["workload"],
                "device": device,
                "smallest": min(pairs),
                "largest": max(pairs),
                "verdict": found.verdict,
                **found.batch_size.as_columns("batch_size"),
            }


def _twin(variant: Variant, experiment: Experiment) -> Variant | None:
    """The same on the CPU, if need be with epochs of another length; None for a variant of the CPU itself."""
    if variant.device == REFERENCE_DEVICE:
        return None
    twins = [
        each
        for each in experiment.variants
        if each.device == REFERENCE_DEVICE
        and each.batch_size == variant.batch_size
        and _without_length(each) == _without_length(variant)
    ]
    return max(twins, key=lambda each: _shared_fields(each) == _shared_fields(variant), default=None)


def _throughput(variant: Variant, by_variant: Mapping[str, Record]) -> list[float]:
    record = by_variant.get(variant.slug)
    return process_values(record)["throughput_per_s"] if record else []


def _shared_fields(variant: Variant) -> _Fields:
    return tuple((name, value) for name, value in asdict(variant).items() if name not in ("device", "batch_size"))


def _without_length(variant: Variant) -> _Fields:
    return tuple((name, value) for name, value in _shared_fields(variant) if name not in ("epochs", "steps_per_epoch"))
