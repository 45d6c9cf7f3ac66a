"""The table of one experiment: its variants in groups that differ along one axis, each compared
with the baseline.

variants -> groups (all fields but those of the axis) -> speedup of each over the variant at the
baseline
experiment -> groups that differ in batch size alone -> speedup at each size -> where it passes 1,
from which batch size on a GPU is faster than the CPU

Speedup S = X / X_b, with the throughput X of a variant and X_b of its baseline; the time for the
same number of samples shrinks by 1 - 1 / S (Hennessy and Patterson, Computer Architecture, section
1.8: speedup is the ratio of times).

For a crossover, log S is taken as a straight line in log b between neighbouring batch sizes. Where
the lines through the ends of the speedups' 95 % intervals pass 1, there are the ends of the
interval: in it, no size is significantly faster on either.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from gpu_report.errors import RecordError
from gpu_report.glossary import Row, field_words
from gpu_report.records.record import Record, timed_step_ms
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.study.options import NO_OPTIONS
from gpu_report.study.study import Experiment, Prices
from gpu_report.study.variant import LENGTH_FIELDS, Variant
from gpu_report.tables.bundle import grouped
from gpu_report.tables.curves import REFERENCE_DEVICE
from gpu_report.tables.marks import Today
from gpu_report.tables.operations import convolution_workspace_mib, profiled
from gpu_report.tables.processes import (
    preparation_cold_s,
    quality_change,
    speedup,
    times_to_target_s,
    values_of,
)
from gpu_report.tables.sessions import ONE_SESSION, Sessions
from gpu_report.tables.statistics import (
    DEVICE,
    FEWEST_FOR_INTERVAL,
    NOT_MEASURED,
    SIGNIFICANCE,
    WORKLOAD,
    Summary,
    holm,
    metric,
    summarise,
    summary_of,
)
from gpu_report.tables.variants import NO_PRICES, VARIANTS, records_by_variant, variant_row
from gpu_report.traces.tables import TraceTables

_ADJUSTED: Final = (
    "adjusted for the table's other comparisons (Holm); missing of fewer than "
    f"{FEWEST_FOR_INTERVAL} processes."
)

EXPERIMENT: Final = Table(
    name="experiment",
    meaning="One row per variant of an experiment, in the order of the configuration, compared "
    "within its group.",
    columns=(
        *VARIANTS.columns,
        text("group", "What the compared variants share, in short, for instance 'cnn medium cpu'."),
        flag("is_baseline", "The variant that the others of its group are compared with."),
        *summary_of("speedup"),
        number("speedup_p", "1", f"That chance alone made it differ from 1, {_ADJUSTED}"),
        metric("time_reduction_percent"),
        *summary_of("fastest_cpu_speedup"),
        metric("break_even_steps"),
        *summary_of("quality_change"),
        number("quality_change_p", "1", f"That chance alone made it differ from 0, {_ADJUSTED}"),
        metric("convolution_workspace_mib"),
        number(
            "target",
            "1",
            "Held-out quality that the experiment asks for; missing where it asks for none.",
        ),
        *summary_of("time_to_target_s"),
    ),
)

_ALWAYS_NAMED: Final = ("workload", "size", "device")
_OF_CONFIGURATION: Final = (*LENGTH_FIELDS, "precision", "workers", "accumulation", "options")
"""Fields in which two trainings of one model and batch may differ."""
_Fields = tuple[tuple[str, Any], ...]


def tabulate_experiment(
    experiment: Experiment,
    records: Iterable[Record],
    traces: Mapping[str, TraceTables] = MappingProxyType({}),
    *,
    today: Today,
    prices: Prices = NO_PRICES,
    sessions: Sessions = ONE_SESSION,
) -> Iterator[Row]:
    """The table EXPERIMENT, in the order of the experiment's variants; records and traces of others
    are passed over.

    Along the axis `device`, a variant without a twin at the baseline is compared with the one that
    differs in the length of its epochs too: a CPU that cannot keep up trains for fewer steps. One
    at the baseline that nothing is compared with, such as a CPU in its fastest configuration, is in
    the group of the first that trains the same model and batch, and is compared with that.

    Raises:
        RecordError: a variant has no record, or two.
    """
    by_variant = records_by_variant(records)
    for variant in experiment.variants:
        if variant.slug not in by_variant:
            raise RecordError(
                f"experiment {experiment.name}: variant {variant.slug} has no record; measure it "
                f"with gpu-report run {variant.slug}"
            )
    chosen = {variant: by_variant[variant.slug] for variant in experiment.variants}
    groups = groups_of(experiment)
    names = group_names(groups.values())
    references = {
        variant: None if baseline is None else chosen[baseline]
        for variant, baseline in baselines_of(experiment).items()
    }
    speedups = _compared(chosen, references, partial(_speedup, sessions=sessions))
    changes = _compared(chosen, references, quality_change)
    on_cpu = grouped(
        [
            record
            for variant, record in chosen.items()
            if variant.device == REFERENCE_DEVICE and record.status == "ok"
        ],
        lambda record: groups[record.as_variant()],
    )
    workspaces = {
        each.variant: convolution_workspace_mib(each)
        for each in profiled(
            {variant.slug: traces[variant.slug] for variant in chosen if variant.slug in traces}
        )
    }
    for variant, record in chosen.items():
        reference, found, change = references[variant], speedups[variant], changes[variant]
        yield {
            **variant_row(
                record, today=today, prices=prices, reference=reference, sessions=sessions
            ),
            "optimization": variant.optimization_with_precision
            if experiment.through_precisions
            else variant.optimization,
            "group": names[groups[variant]],
            "is_baseline": record is reference,
            **found.as_columns("speedup"),
            "speedup_p": found.p,
            "time_reduction_percent": 100 * (1 - 1 / found.value),
            **_over_fastest(record, on_cpu.get(groups[variant], []), sessions).as_columns(
                "fastest_cpu_speedup"
            ),
            "break_even_steps": break_even_steps(record, reference, found),
            **change.as_columns("quality_change"),
            "quality_change_p": change.p,
            "convolution_workspace_mib": workspaces.get(variant),
            "target": experiment.target,
            **summarise(times_to_target_s(record, experiment.target)).as_columns(
                "time_to_target_s"
            ),
        }


def baselines_of(experiment: Experiment) -> dict[Variant, Variant | None]:
    """The variant that each is compared with, a baseline with itself; None where there is none."""
    groups = groups_of(experiment)
    own = {each: each.fields_without(*experiment.compared_fields) for each in experiment.variants}

    def is_at_home(variant: Variant) -> tuple[bool, bool]:
        """Whether it is in its own group, by all fields and but for the length."""
        group = groups[variant]
        alike = _without(own[variant], LENGTH_FIELDS) == _without(group, LENGTH_FIELDS)
        return alike, own[variant] == group

    baselines: dict[_Fields, Variant] = {}
    for variant in sorted(experiment.variants, key=is_at_home, reverse=True):
        if experiment.value_of(variant) == experiment.baseline:
            baselines.setdefault(groups[variant], variant)
    return {variant: baselines.get(group) for variant, group in groups.items()}


def _compared(
    chosen: Mapping[Variant, Record],
    references: Mapping[Variant, Record | None],
    compare: Callable[[Record, Record | None], Summary],
) -> dict[Variant, Summary]:
    """Every variant with the baseline of its group, p adjusted for the others; a baseline itself
    claims nothing.
    """
    found = {variant: compare(record, references[variant]) for variant, record in chosen.items()}
    claims = [
        math.nan if chosen[variant] is references[variant] else each.p
        for variant, each in found.items()
    ]
    return {
        variant: replace(found[variant], p=p)
        for variant, p in zip(found, holm(claims), strict=True)
    }


def _speedup(record: Record, reference: Record | None, sessions: Sessions) -> Summary:
    """Over the baseline of its group; a measured baseline is 1 by definition, without any
    uncertainty.
    """
    found = speedup(record, reference, sessions)
    return replace(found, low=1.0, high=1.0) if record is reference and found.count else found


def _over_fastest(record: Record, on_cpu: Sequence[Record], sessions: Sessions) -> Summary:
    """The speedup over the fastest of these; missing of one on the CPU, and where there is one
    alone, which is the baseline.
    """
    if record.as_variant().device == REFERENCE_DEVICE or len(on_cpu) < 2:
        return NOT_MEASURED
    fastest = max(on_cpu, key=lambda each: summarise(values_of(each, "throughput_per_s")).value)
    return speedup(record, fastest, sessions)


def break_even_steps(record: Record, reference: Record | None, speedup: Summary) -> float:
    """Whole steps after which the time saved per step exceeds the extra time of compiling.

    Both with an empty cache. NaN where nothing is prepared, where one of them was not measured, and
    where the speedup is not significant: time that chance may have saved pays for nothing.
    """
    if reference is None or not (speedup.low > 1 and speedup.p < SIGNIFICANCE):
        return math.nan
    step_ms, reference_step_ms = (timed_step_ms(one.repetitions) for one in (record, reference))
    saved_s = (reference_step_ms - step_ms) / 1000
    longer_s = preparation_cold_s(record) - preparation_cold_s(reference)
    return math.ceil(longer_s / saved_s) if longer_s > 0 and saved_s > 0 else math.nan


def groups_of(experiment: Experiment) -> dict[Variant, _Fields]:
    """What each variant shares with those that it is compared with."""
    groups = {
        variant: variant.fields_without(*experiment.compared_fields)
        for variant in experiment.variants
    }
    if experiment.axis != "device":
        return groups
    exact = dict(groups)
    baselines = [each for each in exact if experiment.value_of(each) == experiment.baseline]
    compared = [variant for variant in exact if variant not in baselines]
    twins = {exact[variant] for variant in compared}
    # A baseline that has a twin of its own comes last, so that it is nobody else's where another
    # one is left.
    lengthless = {
        _without(exact[v], LENGTH_FIELDS): v
        for v in sorted(baselines, key=lambda v: exact[v] not in twins)
    }
    for variant in compared:
        baseline = lengthless.get(_without(exact[variant], LENGTH_FIELDS))
        if baseline is None or exact[variant] in {exact[each] for each in baselines}:
            continue
        if groups[baseline] not in twins:
            groups[baseline] = exact[variant]
        groups[variant] = groups[baseline]
    used = {groups[variant] for variant in compared}
    of_batch = {
        _without(groups[each], _OF_CONFIGURATION): groups[each]
        for each in reversed(baselines)
        if groups[each] in used
    }
    alone = {each: groups[each] for each in baselines if groups[each] not in used}
    return groups | {
        each: of_batch.get(_without(group, _OF_CONFIGURATION), group)
        for each, group in alone.items()
    }


def _without(fields: _Fields, names: Collection[str]) -> _Fields:
    return tuple((name, value) for name, value in fields if name not in names)


def group_names(groups: Iterable[_Fields]) -> dict[_Fields, str]:
    """A short name for each group: workload, size and device, and of the other fields those that
    distinguish groups.
    """
    fields_of = {group: dict(group) for group in groups}
    names = {}
    for group, fields in fields_of.items():
        alike = [
            other
            for other in fields_of.values()
            if all(other.get(name) == fields.get(name) for name in _ALWAYS_NAMED)
        ]
        names[group] = " ".join(
            _in_words(name, value)
            for name, value in group
            if name in _ALWAYS_NAMED or len({other[name] for other in alike}) > 1
            if (name, value) != ("size", "default")
        )
    return names


def _in_words(name: str, value: Any) -> str:
    if (name, value) == ("options", NO_OPTIONS):
        return "no options"
    words = field_words(name, value)
    return f"{words} per epoch" if name == "steps_per_epoch" and value is not None else words


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

_BELOW: Final = 0.0  # the crossover of a GPU that wins at every size measured
_ABOVE: Final = math.inf  # that of one that wins at none


def tabulate_crossovers(
    experiments: Iterable[Experiment],
    records: Iterable[Record],
    sessions: Sessions = ONE_SESSION,
) -> list[Row]:
    """The table CROSSOVERS, in the order of the experiments whose baseline is the CPU; batch sizes
    that one side did not train are passed over.

    A group has a row where two batch sizes at least were measured on both devices. The verdict is
    unclear where the faster device changes more than once, where it is the CPU that wins the large
    batches, where the interval leaves the sizes measured, and where a variant was measured in fewer
    than three processes.

    Raises:
        RecordError: two records are of one variant.
    """
    by_variant = records_by_variant(records)
    return [
        row
        for experiment in experiments
        if (experiment.axis, experiment.baseline) == ("device", REFERENCE_DEVICE)
        for row in _crossover_rows(experiment, by_variant, sessions)
    ]


def find_crossover(speedups: Mapping[int, Summary]) -> tuple[str, Summary]:
    """Whether and from which batch size on the second of two devices is faster; `speedups` are its
    over the first by batch size.

    The size is measured only where the verdict is 'crosses'.
    """
    processes = min(each.count for each in speedups.values())
    if processes < FEWEST_FOR_INTERVAL:
        return "unclear", NOT_MEASURED
    ordered = sorted(speedups.items())
    value, high, low = (
        _crossing_size([(size, getattr(each, end)) for size, each in ordered])
        for end in ("value", "low", "high")
    )
    if low == value == high == _BELOW:
        return "accelerator always", NOT_MEASURED
    if low == value == high == _ABOVE:
        return "cpu always", NOT_MEASURED
    if not _BELOW < low <= value <= high < _ABOVE:
        return "unclear", NOT_MEASURED
    return "crosses", Summary(value=value, low=low, high=high, count=processes)


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


def _crossover_rows(
    experiment: Experiment, by_variant: Mapping[str, Record], sessions: Sessions
) -> Iterator[Row]:
    groups: dict[tuple[str, _Fields], dict[int, Summary]] = {}
    for variant, on_cpu in baselines_of(experiment).items():
        record = by_variant.get(variant.slug)
        if record is None or on_cpu is None or variant.device == REFERENCE_DEVICE:
            continue
        found = speedup(record, by_variant.get(on_cpu.slug), sessions)
        if found.count:
            shared = variant.fields_without("device", "batch_size")
            groups.setdefault((variant.device, shared), {})[variant.batch_size] = found
    names = group_names(fields for _, fields in groups)
    for (device, fields), speedups in groups.items():
        if len(speedups) > 1:
            verdict, batch_size = find_crossover(speedups)
            yield {
                "experiment": experiment.name,
                "group": names[fields],
                "workload": dict(fields)["workload"],
                "device": device,
                "smallest": min(speedups),
                "largest": max(speedups),
                "verdict": verdict,
                **batch_size.as_columns("batch_size"),
            }
