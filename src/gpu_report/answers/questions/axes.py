"""Questions about any axis, those about DataLoader workers, and one about the sources.

Which value trains fastest? Does any cost quality, or save energy (B2, C4)? Do DataLoader workers
help, and how many suffice (E4)? Do the sources' comparisons hold here?
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from gpu_report.answers.estimate import (
    estimate,
    falls,
    is_paired,
    is_share,
    of_source,
    quality_change,
    quality_gain,
    ratio_of,
    speedup,
)
from gpu_report.answers.finding import Evidence
from gpu_report.answers.phrases import (
    as_share,
    change_by_seed,
    evidence,
    how_many,
    shown,
    times,
)
from gpu_report.answers.question import (
    HALF,
    OTHER_AXES,
    Answer,
    Compared,
    against_baseline,
    decided,
    each_group,
    evidence_of,
    missing,
    not_measured,
    question,
    surely_faster,
    verdict_of,
)
from gpu_report.answers.scope import SOURCES, Group, Scope, saves_memory
from gpu_report.glossary import QUALITY_TOLERANCE, Row
from gpu_report.printing.number_format import count, counted
from gpu_report.tables.bundle import fastest_of
from gpu_report.words import listed

COLD_COST: Final = "preparation_cold_s"
MEMORY_TOLERANCE: Final = 0.10
SUFFICES: Final = 0.95
_MOST_RIVALS_NAMED: Final = 2
FEWEST_STEPS: Final = 30
"""Optimizer steps: after fewer, a training has hardly begun, whatever its batch size."""
NO_QUALITY: Final = (
    "a training diverged, or the workload has no held-out metric, so that there are no two "
    "qualities"
)
_NO_ENERGY: Final = "no two configurations ran long enough for the driver's energy counter"


def for_speed(scope: Scope) -> Iterator[Group]:
    """The groups; of optimizations without the configurations that save memory, and without the
    groups about these alone.
    """
    if scope.axis != "optimization":
        yield from scope.groups
        return
    for group in scope.groups:
        rows = tuple(row for row in group.rows if row["is_baseline"] or not saves_memory(row))
        if any(not row["is_baseline"] for row in rows):
            yield replace(group, rows=rows)


def _of_one_task(scope: Scope) -> Iterator[Group]:
    """Those for speed whose workloads learn the same: of two tasks neither is faster."""
    for group in for_speed(scope):
        if group.axis != "workload" or len({_task(row) for row in group.measured}) <= 1:
            yield group


@question("Which {axis} trains fastest?", OTHER_AXES, "workload", "precision", "optimization")
@partial(each_group, groups=_of_one_task)
@against_baseline
def best(group: Group, before: Row) -> Answer:
    """Another value is faster if the whole interval of its speedup over the baseline is above 1,
    and the difference is significant among the experiment's comparisons (Holm). Of those the
    fastest is named; of precisions and optimizations that tie, the simplest.
    """
    faster = surely_faster(group.others, before)
    after = max(faster, key=lambda row: float(row["speedup"]))
    if group.axis in ("optimization", "precision"):
        after = fastest_of(faster)
    gain = speedup(after, before)
    fast, slow, subject = group.words(after), group.words(before), group.title
    advice = f"Train {subject} with {fast} instead of {slow}"
    repaid = break_even(group, before, after)
    least = repaid.steps if repaid.rival is None else repaid.over_rival
    if least > after["optimizer_steps"]:
        advice += f", only above {count(least).plain()} steps with an empty compile cache"
        if repaid.rival is not None:
            advice += f"; below that, {group.words(repaid.rival)}"
    return decided(
        group,
        gain,
        yes=f"{subject} was fastest with {fast}: {shown(after, 'throughput_per_s', short=True)}, "
        f"{times(gain)} the throughput with {slow}{rivals(group, after)}",
        no=f"{subject} was fastest with {slow}: {shown(before, 'throughput_per_s', short=True)}. "
        f"The next, {fast}, reached {times(gain)} that",
        whether=f"{subject} is faster with {fast} than with {slow}",
        if_unclear=f"; it trained {times(gain)} as fast",
        evidence=evidence_of(group, {"throughput_per_s": "throughput"}, [after, before]),
        advice={} if group.axis == "workload" else {"yes": f"{advice}."},
        gain=gain,
    )


class BreakEven(NamedTuple):
    """The optimizer steps from which on compiling and capturing are repaid against the baseline,
    and against the fastest with at most half their time where that takes longer than the measured
    training; NaN and None where there are none.
    """

    steps: float
    rival: Row | None = None
    over_rival: float = math.nan


def break_even(group: Group, before: Row, after: Row) -> BreakEven:
    """When a configuration has repaid what it compiles and captures with an empty cache."""
    steps = float(after["break_even_steps"])
    cheap = [row for row in group.others if row[COLD_COST] <= HALF * after[COLD_COST]]
    rival = max([before, *cheap], key=lambda row: float(row["throughput_per_s"]))
    if (
        math.isfinite(steps)
        and rival is not before
        and ratio_of("step_time_ms", group.tables)(rival, after).against(1.0) == "above"
    ):
        saved_ms = rival["step_time_ms"] - after["step_time_ms"]
        over_rival = math.ceil(1000 * (after[COLD_COST] - rival[COLD_COST]) / saved_ms)
        if over_rival > max(steps, after["optimizer_steps"]):
            return BreakEven(steps, rival, over_rival)
    return BreakEven(steps)


def _task(row: Row) -> tuple[Any, ...]:
    """What distinguishes its task from others; without a chance level a workload's task is
    its own.
    """
    chance = float(row["quality_chance"])
    return row["quality_name"], row["workload"] if math.isnan(chance) else chance


def rivals(group: Group, fastest: Row) -> str:
    """The others that may be as fast as the fastest, as the end of a sentence that names it."""
    over = ratio_of("throughput_per_s", group.tables)
    names = [
        group.words(row)
        for row in group.others
        if row is not fastest and over(fastest, row).against(1.0) != "above"
    ]
    if not names:
        return ""
    named = listed(names) if len(names) <= _MOST_RIVALS_NAMED else f"{len(names)} others"
    return f"; not significantly slower: {named}"


@question("Does any {axis} cost quality?", OTHER_AXES, "precision", "optimization")
@each_group
@against_baseline
def quality(group: Group, baseline: Row) -> Answer:
    """A fall means that the difference, intervals included, is more than 0.02: about what a few
    held-out samples make. Of a metric that falls as models get better, or is not from 0 to 1, it is
    a rise, or a fall, by more than 2 %. It is taken between processes of the same seed, which began
    alike, where both configurations have the same seeds. After fewer than 30 optimizer steps a
    training has hardly begun, so that its quality says nothing.
    """
    subject = group.title
    if baseline["optimizer_steps"] < FEWEST_STEPS:
        reason = f"fewer than {FEWEST_STEPS} optimizer steps were made"
        return not_measured(subject, reason, key=group.key)
    gains = [(row, quality_gain(row, baseline)) for row in group.others]
    known = [(row, gain) for row, gain in gains if gain.known]
    if not known:
        return not_measured(subject, NO_QUALITY, key=group.key)
    loss = "a loss of 0.02" if all(map(is_share, [baseline, *group.others])) else "a loss of 2 %"
    compared = Compared(group=group, pairs=known, limit=-QUALITY_TOLERANCE, limit_in_words=loss)
    metric, extreme = baseline["quality_name"], "highest" if falls(baseline) else "lowest"
    worst = (max if falls(baseline) else min)(
        (row for row, _ in known), key=lambda row: float(row["quality"])
    )
    before = f"against {shown(baseline, 'quality', short=True)} with {group.words(baseline)}"
    at_worst = (
        f"the {extreme} held-out {metric} is {shown(worst, 'quality', short=True)}, with "
        f"{group.words(worst)}, {before}{by_seed(baseline, worst)}."
    )
    lost = compared.listed(
        compared.on("below"),
        lambda row, _: f"with {group.words(row)} {shown(row, 'quality', short=True)}",
    )
    others = how_many(len(known), len(known), "other configuration")
    return compared.answer(
        "below",
        yes=f"{subject} lost quality: held-out {metric} {lost}, {before}.",
        no=f"{subject} lost no quality in {others}: {at_worst}",
        whether=f"{subject} loses quality",
        if_unclear=f"; {at_worst}",
        evidence=quality_evidence(group, baseline, worst),
    )


def quality_evidence(group: Group, before: Row, after: Row) -> tuple[Evidence, ...]:
    """The quality of all configurations of a group, and what became of it seed by seed in the two
    that decide.
    """
    label = f"held-out {after['quality_name']}"
    change = change_by_seed(after, before, short=False)
    by_seed = [evidence(f"change of {label} by seed", change, group.table, after)] if change else []
    return (*by_seed, *evidence_of(group, {"quality": label}, [after, before]))


def by_seed(before: Row, after: Row) -> str:
    """The end of a sentence that gave both qualities, where the table paired processes of the same
    seeds.
    """
    if not is_paired(after, before):
        return ""
    change = quality_change(after, before)
    if change.low == change.high == 0:
        return "; seed by seed it did not change"
    return f"; seed by seed it changed by {change_by_seed(after, before)}"


@question("Does the fastest {axis} save energy?", "precision", "optimization")
@partial(each_group, groups=for_speed)
def energy(group: Group) -> Answer | None:
    """It does if the ratio of the GPU's energy per sample is below 1, intervals included. The
    energy of the host is not in it.
    """
    if not any(row["power_w"] > 0 for row in group.rows):
        return None  # a CPU's driver reports none
    known = [row for row in group.measured if estimate(row, "energy_per_sample_j").known]
    others = [row for row in known if not row["is_baseline"] and row["throughput_per_s"] > 0]
    before = group.baseline
    if before is None or before not in known or not others:
        return missing(group, _NO_ENERGY)
    after, fastest = (
        max(surely_faster(rows, before), key=lambda row: float(row["throughput_per_s"]))
        for rows in (others, group.others)
    )
    least = min(known, key=lambda row: float(row["energy_per_sample_j"]))
    ratio = ratio_of("energy_per_sample_j", group.tables)(after, before)
    rank = "the fastest" if after is fastest else "the fastest that ran long enough for the counter"
    what = f"with {group.words(after)}, {rank}"
    return decided(
        group,
        ratio,
        holds="below",
        yes=f"{group.title} used less energy {what}",
        no=f"{group.title} used more energy {what}",
        whether=f"{group.title} uses less energy {what},",
        measured=f": {shown(after, 'energy_per_sample_j')} per sample, {times(ratio, short=True)} "
        f"the {shown(before, 'energy_per_sample_j', short=True)} with {group.words(before)}"
        + ("." if least is after else f"; {group.words(least)} took least."),
        evidence=evidence_of(group, {"energy_per_sample_j": "energy per sample"}, [after, before]),
    )


@question("Do DataLoader workers help?", "workers", name="help")
@each_group
@against_baseline
def workers_help(group: Group, before: Row) -> Answer:
    """They help if the whole interval of the fastest's speedup over loading in the training process
    is above 1.
    """
    after = max(group.others, key=lambda row: float(row["throughput_per_s"]))
    gain = speedup(after, before)
    waits = [shown(row, "data_wait_share", short=True) for row in (before, after)]
    return decided(
        group,
        gain,
        yes=f"DataLoader workers helped {group.title}",
        no=f"DataLoader workers did not help {group.title}",
        whether=f"DataLoader workers help {group.title}",
        measured=f": with {group.words(after)}, the fastest of the others, it trained "
        f"{times(gain)} as fast as with {group.words(before)}, and waited for data in {waits[1]} "
        f"of the time instead of in {waits[0]}.",
        evidence=evidence_of(
            group,
            {"throughput_per_s": "throughput", "data_wait_share": "time waiting for data"},
            [after, before],
        ),
        advice={
            "yes": f"Train {group.title} with {group.words(after)}, the fastest number measured.",
            "no": f"Train {group.title} with {group.words(before)}.",
        },
        gain=gain.inverse if gain.value < 1 else gain,
    )


@question("How many DataLoader workers suffice?", "workers")
@each_group
def enough(group: Group) -> Answer:
    """A number suffices if it reaches at least 95 % of the throughput of any other, intervals
    included; each further worker costs memory and a core, which 5 % would not repay.
    """
    rows, subject = group.measured, group.title
    if len(rows) < 2:
        return missing(group, "it takes two numbers of workers")
    for row in rows:  # up to the first that is not below the limit, or else the last
        fastest = max(
            (other for other in rows if other is not row),
            key=lambda other: float(other["throughput_per_s"]),
        )
        reached = ratio_of("throughput_per_s", group.tables)(row, fastest)
        if reached.against(SUFFICES) != "below":
            break
    verdict = "no" if row is rows[-1] else verdict_of(reached, SUFFICES)
    number = group.words(row)
    share = f"{as_share(reached, short=True)} of what {group.words(fastest)} gave"
    statement = {
        "yes": f"{number} sufficed for {subject}: it trained {shown(row, 'throughput_per_s')}, "
        f"{share}, the fastest of the others.",
        "no": f"{number}, the largest number measured, may be too few for {subject}: it trained "
        f"{shown(row, 'throughput_per_s')}, {share}.",
    }.get(
        verdict,
        f"How many DataLoader workers suffice for {subject} is too close to call, because "
        f"{reached.why_unclear(SUFFICES, '95 %')}: with {number} it reached {share}, the fastest "
        "of the others.",
    )
    advice = {
        "yes": f"Train {subject} with {number}.",
        "no": f"Train {subject} with at least {number}, the largest number measured.",
    }
    return Answer(
        verdict=verdict,
        statement=statement,
        subject=subject,
        evidence=evidence_of(group, {"throughput_per_s": "throughput"}),
        key=group.key,
        advice=advice.get(verdict, ""),
        gain=None if group.baseline is None else speedup(row, group.baseline),
    )


@question("Is everything that the sources report as faster also faster on this machine?", SOURCES)
def faster_too(scope: Scope) -> Iterator[Answer]:
    """Each source compares two trainings, by a factor above 1 or by saying which is faster. This
    holds if the interval of our factor is above 1, and does not hold if it is below; it is
    corrected for the other comparisons of the source.
    """
    sides = [of_source(row).against(1.0) for row in scope.rows]
    holding, unclear, failing = (sides.count(side) for side in ("above", "unclear", "below"))
    yield Answer(
        verdict="no" if failing else "too close to call" if unclear else "yes",
        statement=f"This machine measured {counted(len(sides), 'comparison')} of the sources; "
        f"holding: {holding}; too close to call: {unclear}; not holding: {failing}.",
        evidence=[
            evidence(row["measured"], times(estimate(row, "ours")), scope.table, row)
            for row in scope.rows
        ],
    )
