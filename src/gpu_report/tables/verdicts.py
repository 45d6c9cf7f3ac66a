"""Did a configuration get slower, need more memory or predict worse from one side to the other,
and how sure is that: the verdicts of `gpu-report compare` and `gpu-report guard`.

what each side measured, a value per process -> change with its interval -> Holm over all changes ->
verdict

Time or memory is worse only where the whole interval of its change is above the tolerance, and not
worse only where the whole interval is below it; what is neither gets no verdict. So a gate fails
for what was shown and passes for what was shown, and the width of the interval decides how much
that is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from gpu_report.glossary import QUALITY_TOLERANCE, STATUS_WORDS, TIME_TOLERANCE, Row, Scale
from gpu_report.printing.number_format import (
    Quantity,
    count,
    duration,
    memory,
    quantity,
    share,
    signed,
)
from gpu_report.records.provenance import measures_alike
from gpu_report.records.record import MemoryKind, Record, Status, differing, timed_step_ms
from gpu_report.storage.columns import Table, number, text
from gpu_report.tables.marks import CLOCK_DRIFT, WEAKENS_TIMES, marks_of_numbers
from gpu_report.tables.processes import same_threads, values_by_seed, values_of
from gpu_report.tables.statistics import (
    CONFIDENCE,
    NOT_MEASURED,
    BySeed,
    Summary,
    difference,
    holm,
    ratio,
    students_t,
    summarise,
    summary,
)

MEMORY_TOLERANCES: Final[Mapping[MemoryKind, float]] = {"allocator": 0.01, "resident set": 0.05}
"""PyTorch's allocator peaks at the same byte in every process that does the same; a resident set
holds much else.
"""
POWER: Final = 0.8
"""Probability with which a slowdown that is called detectable is found."""

TIME: Final = "time per step"
MEMORY: Final = "peak memory"
QUALITY: Final = "held-out metric"
STATUS: Final = "status"
NO_CHANGE: Final = "no change"
NO_VERDICT: Final = "no verdict"
_WORDS: Final = {
    TIME: ("slower", "faster"),
    MEMORY: ("more memory", "less memory"),
    QUALITY: ("worse", "better"),
    STATUS: ("fails", "runs"),
}
SLOWER: Final = _WORDS[TIME][0]
REGRESSIONS: Final = frozenset(worse for worse, _ in _WORDS.values())
"""Verdicts with which a gate fails."""
IMPROVEMENTS: Final = frozenset(better for _, better in _WORDS.values())
NOT_WORSE: Final = {what: f"not {worse}" for what, (worse, _) in _WORDS.items()}
"""The verdict if nothing got worse; it may have improved."""
_NOT_SIGNIFICANT: Final = "not significant among all configurations (Holm)"

VERDICTS: Final = Table(
    name="verdicts",
    meaning="One row per configuration and what is compared of it before and after.",
    columns=(
        text("configuration", "Its name."),
        text(
            "compared",
            "time per step, peak memory, held-out metric, or the status where one side has no "
            "numbers.",
        ),
        text("unit", "Of before and after: ms, MiB, or the name of the held-out metric."),
        *summary(
            "before",
            "as named",
            "Before: wall time per step of the median timed epoch, peak, or metric (compared over "
            "the seeds that both sides have)",
        ),
        *summary("after", "as named", "The same after"),
        *summary(
            "change",
            "as described",
            "Share by which time or memory is more after; of a metric after less before",
        ),
        number(
            "p",
            "1",
            "Probability of such a change where the truth is the tolerance, adjusted for its kind "
            "(Holm).",
        ),
        number(
            "detectable",
            "as described",
            "The smallest change for the worse that 4 of 5 such comparisons find.",
        ),
        text(
            "verdict",
            "slower, not slower, faster, no change, no verdict; of memory more memory, and so on.",
        ),
        text(
            "why",
            "Why there is no verdict or no improvement, or what the status is; empty otherwise.",
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Side:
    """What one side measured of a configuration: a value per process by what it has in common with
    one of the other.

    `doubts` are quality flags with which its times support no verdict. `better` is where the metric
    is better.
    """

    status: Status = "ok"
    reason: str = ""
    step_times_ms: BySeed = field(default_factory=dict)
    memory_mib: BySeed = field(default_factory=dict)
    memory_kind: MemoryKind = "allocator"
    quality: BySeed = field(default_factory=dict)
    quality_name: str = ""
    better: Literal["higher", "lower"] = "higher"
    diverged: int = 0
    doubts: Sequence[str] = ()


class Change(NamedTuple):
    """By which share one side is worse than the other, what is too little of it to matter, and its
    confidence.

    In the table the share is times `unit`: that of a metric is below 0 where a higher value is
    better.
    """

    amount: Summary
    tolerance: float
    confidence: float
    unit: float = 1.0

    @property
    def detectable(self) -> float:
        """As in the table: so far beyond the tolerance that the interval's lower end stays there as
        often.
        """
        freedom, half = self.amount.count - 1, (self.amount.high - self.amount.low) / 2
        if math.isnan(half):
            return math.nan
        quantiles = [
            students_t(freedom, confidence=each) for each in (2 * POWER - 1, self.confidence)
        ]
        return self.unit * (self.tolerance + half * (1 + quantiles[0] / quantiles[1]))


def side_of(record: Record) -> Side:
    """A record as one side of a comparison."""
    if record.status != "ok" or record.workload is None:
        return Side(status=record.status, reason=record.reason)
    each = record.repetitions
    marks = marks_of_numbers(record, summarise(values_of(record, "throughput_per_s")))
    return Side(
        step_times_ms={(one.index, one.seed): timed_step_ms([one]) for one in each},
        memory_mib=values_by_seed(record, "memory_peak_mib"),
        memory_kind=each[0].memory_kind,
        quality=values_by_seed(record, "quality"),
        quality_name=record.workload.quality_name,
        better=record.workload.quality_better,
        diverged=sum(
            not all(math.isfinite(loss) for epoch in one.epochs for loss in epoch.train_losses)
            for one in each
        ),
        doubts=[mark for mark in WEAKENS_TIMES if mark in marks],
    )


def tabulate_verdicts(
    sides: Mapping[str, tuple[Side, Side]],
    *,
    in_turns: bool,
    tolerance: float = TIME_TOLERANCE,
    confidence: float = CONFIDENCE,
) -> list[Row]:
    """The table VERDICTS of the configurations that both sides have, by name, that before
    first.

    Measured in turns, processes that began alike are compared in pairs; of two sessions they share
    nothing that times depend on. `tolerance` is that of times. `confidence` is that of each
    interval where several looks at growing numbers of processes together have 95 %. Changes of one
    kind are adjusted for each other, by Holm.
    """
    changes = {
        name: _changes(*pair, in_turns=in_turns, tolerance=tolerance, confidence=confidence)
        for name, pair in sides.items()
    }
    rows = []
    for what in (TIME, MEMORY, QUALITY):
        of_it = {name: each[what] for name, each in changes.items() if what in each}
        adjusted = holm([change.amount.p for change in of_it.values()])
        rows += [
            _row(name, what, sides[name], change, p)
            for (name, change), p in zip(of_it.items(), adjusted, strict=True)
        ]
    rows += [
        _status_row(name, before, after)
        for name, (before, after) in sides.items()
        if not before.status == after.status == "ok"
    ]
    order = list(sides)
    return sorted(rows, key=lambda row: order.index(row["configuration"]))


def in_words(row: Row) -> dict[str, str]:
    """`before`, `after` and `change` of a row as a person reads them, the change with its
    interval.
    """
    if row["compared"] == STATUS:
        return dict.fromkeys(("before", "after", "change"), "")
    formatters: dict[str, tuple[Callable[..., Quantity], Callable[..., Quantity]]] = {
        TIME: (milliseconds, share),
        MEMORY: (memory, share),
    }
    shown, changed = formatters.get(row["compared"], (quantity, quantity))
    change = changed(row["change"], low=row["change_low"], high=row["change_high"])
    sides = {
        side: shown(row[side], low=row[f"{side}_low"], high=row[f"{side}_high"]).plain(
            interval=False
        )
        for side in ("before", "after")
    }
    return {**sides, "change": signed(change).plain()}


def milliseconds(time_ms: float, *, low: float = math.nan, high: float = math.nan) -> Quantity:
    """A time in ms, also where another unit suits it better: both sides have the same."""
    return duration(time_ms / 1e3, low=low / 1e3, high=high / 1e3, unit="ms")


def mismatches(before: Mapping[str, Record], after: Mapping[str, Record]) -> list[str]:
    """Why numbers of the two sides are not of the same thing, a sentence each; empty where they
    are.
    """
    machines = [{record.machine for record in side.values()} for side in (before, after)]
    found = differing(*({"machine": ", ".join(sorted(names))} for names in machines))
    common = [(before[name], after[name]) for name in before if name in after]
    if before and after and not common:
        found.append(
            "configuration: the sides have none in common; before has "
            f"{next(iter(before))}, after {next(iter(after))}"
        )
    for name, (one, other) in {one.variant: (one, other) for one, other in common}.items():
        asked = [
            {
                "protocol": measurement["protocol"],
                f"class of {name}": measurement["workload"]["class_path"],
                name: measurement["workload"]["settings"],
            }
            for measurement in (one.measurement, other.measurement)
        ]
        found += differing(*asked)
        if not same_threads(one, other):
            found += differing(
                *(
                    {f"threads of {name}": side.environment["torch_threads"]}
                    for side in (one, other)
                )
            )
        if not measures_alike(one.provenance.code_digest, other.provenance.code_digest):
            found.append("measuring code: two versions of gpu-report measured the two sides")
    return list(dict.fromkeys(found))


def environment_differences(before: Mapping[str, Record], after: Mapping[str, Record]) -> list[str]:
    """What else differs between the sides, a sentence each: software, hardware, clocks and the
    user's own workload.
    """
    common = [(before[name], after[name]) for name in before if name in after]
    found = [
        text for one, other in common for text in differing(one.environment, other.environment)
    ]
    for one, other in common:
        if one.provenance.workload_digest != other.provenance.workload_digest:
            found.append(f"code of workload {one.as_variant().workload}: changed")
        clocks = [summarise(values_of(each, "sm_clock_mhz")).value for each in (one, other)]
        if abs(clocks[0] - clocks[1]) > CLOCK_DRIFT * max(clocks):
            mhz = [count(clock, "MHz").plain() for clock in clocks]
            found.append(f"GPU clock of {one.variant}: {mhz[0]} before, {mhz[1]} after")
    return list(dict.fromkeys(found))


def _changes(
    before: Side, after: Side, *, in_turns: bool, tolerance: float, confidence: float
) -> dict[str, Change]:
    if not before.status == after.status == "ok":
        return {}
    found = {
        what: Change(
            _worse_by(values, reference, least, in_turns=in_turns, confidence=confidence),
            least,
            confidence,
        )
        for what, values, reference, least in (
            (TIME, after.step_times_ms, before.step_times_ms, tolerance),
            (MEMORY, after.memory_mib, before.memory_mib, MEMORY_TOLERANCES[before.memory_kind]),
        )
        if values or reference
    }
    if before.quality or after.quality or before.diverged or after.diverged:
        found[QUALITY] = _quality_lost(before, after, confidence)
    return found


def _worse_by(
    values: BySeed, reference: BySeed, tolerance: float, *, in_turns: bool, confidence: float
) -> Summary:
    """By which share the one is more than the other; p is that of a change no larger than the
    tolerance.
    """
    found = ratio(values, reference, paired=in_turns, confidence=confidence)
    edge = 1 + tolerance if found.value > 1 else 1 / (1 + tolerance)
    beyond = ratio(values, {key: edge * value for key, value in reference.items()}, paired=in_turns)
    p = beyond.p if abs(math.log(found.value)) > math.log1p(tolerance) else 1.0
    return replace(found.mapped(lambda times: times - 1), p=p)


def metric_scale(before: Side, after: Side) -> float:
    """What tolerances of the held-out metric are shares of: 1 of one from 0 to 1, of another its
    mean before.
    """
    is_share = before.better == "higher" and all(
        0 <= value <= 1 for side in (before, after) for value in side.quality.values()
    )
    return 1.0 if is_share else abs(summarise([*before.quality.values()], scale="linear").value)


def _quality_lost(before: Side, after: Side, confidence: float) -> Change:
    """How much worse the metric is: of one from 0 to 1 the difference, of another as a share of its
    mean before.
    """
    is_higher_better = before.better == "higher"
    better, worse = (
        (before.quality, after.quality) if is_higher_better else (after.quality, before.quality)
    )
    found = difference(better, worse, confidence=confidence)
    scale = metric_scale(before, after)
    if not scale > 0:
        return Change(found, math.nan, confidence, unit=-1.0 if is_higher_better else 1.0)
    edge = math.copysign(QUALITY_TOLERANCE * scale, found.value)
    beyond = difference({key: value - edge for key, value in better.items()}, worse)
    lost = found.mapped(lambda end: end / scale)
    amount = replace(lost, p=beyond.p if abs(lost.value) > QUALITY_TOLERANCE else 1.0)
    return Change(amount, QUALITY_TOLERANCE, confidence, unit=-scale if is_higher_better else scale)


def _row(name: str, what: str, pair: tuple[Side, Side], change: Change, p: float) -> Row:
    seeds = pair[0].quality.keys() & pair[1].quality.keys()
    metrics: list[BySeed] = [
        {seed: side.quality[seed] for seed in seeds or side.quality} for side in pair
    ]
    values, unit = {
        TIME: ([side.step_times_ms for side in pair], "ms"),
        MEMORY: ([side.memory_mib for side in pair], "MiB"),
        QUALITY: (metrics, pair[0].quality_name or pair[1].quality_name),
    }[what]
    scale: Scale = "linear" if what == QUALITY else "log"
    before, after = (summarise([*each.values()], scale=scale) for each in values)
    verdict, why = _verdict(what, pair, change, p)
    return {
        "configuration": name,
        "compared": what,
        "unit": unit,
        **before.as_columns("before"),
        **after.as_columns("after"),
        **change.amount.mapped(lambda share: change.unit * share + 0.0).as_columns("change"),
        "p": p,
        "detectable": math.nan
        if what == TIME and (pair[0].doubts or pair[1].doubts)
        else change.detectable,
        "verdict": verdict,
        "why": why,
    }


def _verdict(what: str, pair: tuple[Side, Side], change: Change, p: float) -> tuple[str, str]:
    (worse, better), (amount, tolerance, confidence, unit) = _WORDS[what], change
    before, after = pair
    if what == QUALITY and (before.diverged or after.diverged):
        said = (
            f"processes with a loss or metric that is not finite: {before.diverged} before, "
            f"{after.diverged} after"
        )
        return (worse if not before.diverged and after.diverged > 1 else NO_VERDICT), said
    if what == TIME and (before.doubts or after.doubts):
        return NO_VERDICT, "; ".join(
            f"{mark} {when}"
            for side, when in zip(pair, ("before", "after"), strict=True)
            for mark in side.doubts
        )
    if what == MEMORY and before.memory_kind != after.memory_kind:
        return NO_VERDICT, f"{before.memory_kind} before, {after.memory_kind} after"
    if math.isnan(amount.low):
        return NO_VERDICT, (
            f"too few processes for an interval: {amount.count}" if amount.count else "not measured"
        )
    if math.isnan(tolerance):
        return NO_VERDICT, "the metric was 0 before, so that no tolerance is a share of it"
    is_significant = p < 1 - confidence
    if amount.low > tolerance:
        return (worse, "") if is_significant else (NO_VERDICT, _NOT_SIGNIFICANT)
    if amount.high > tolerance:
        written = quantity(tolerance * abs(unit)) if what == QUALITY else share(tolerance)
        return NO_VERDICT, f"the interval includes the tolerance of {written.plain()}"
    if amount.low >= -tolerance:
        return NO_CHANGE, ""
    if amount.high >= 1 / (1 + tolerance) - 1:
        return NOT_WORSE[what], ""
    return (
        (better, "")
        if is_significant
        else (NOT_WORSE[what], f"the improvement is {_NOT_SIGNIFICANT}")
    )


def _status_row(name: str, before: Side, after: Side) -> Row:
    worse, better = _WORDS[STATUS]
    if before.status == "ok":
        verdict = worse
    elif (
        before.status == "failed"
    ):  # for a reason that may be none of its own, such as data that is not there
        verdict = NO_VERDICT
    else:
        verdict = (
            NO_CHANGE
            if after.status == before.status
            else better
            if after.status == "ok"
            else NO_VERDICT
        )
    said = [
        f"{STATUS_WORDS.get(side.status, 'runs')} {when}"
        + (f" ({side.reason})" if side.reason else "")
        for side, when in ((before, "before"), (after, "after"))
    ]
    return {
        "configuration": name,
        "compared": STATUS,
        "unit": "",
        **NOT_MEASURED.as_columns("before"),
        **NOT_MEASURED.as_columns("after"),
        **NOT_MEASURED.as_columns("change"),
        "p": math.nan,
        "detectable": math.nan,
        "verdict": verdict,
        "why": "; ".join(said),
    }
