"""Questions about optimizations, beside those that `axes` asks about any axis, and about custom
training loops of a workload.

Which steps of the ladder are needed, and does compiling break even (B4, B5)? Which options save
memory, and what do they cost (C6)? Which loop is fastest, does fusion help, which device is faster?
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gpu_report.answers.estimate import ratio_of, speedup
from gpu_report.answers.finding import Verdict
from gpu_report.answers.phrases import (
    CPU,
    as_share,
    evidence,
    evidence_of_columns,
    shown,
    times,
)
from gpu_report.answers.question import (
    HALF,
    NOTHING_TO_COMPARE,
    Answer,
    against_baseline,
    decided,
    each_group,
    evidence_of,
    missing,
    not_measured,
    question,
    surely_faster,
    why_missing,
)
from gpu_report.answers.questions import axes
from gpu_report.answers.questions.axes import (
    COLD_COST,
    MEMORY_TOLERANCE,
    break_even,
    for_speed,
)
from gpu_report.answers.scope import (
    OWN_LOOPS,
    Group,
    Scope,
    added_options,
    groups_beside,
    key_of,
    saves_memory,
)
from gpu_report.glossary import Row
from gpu_report.printing.number_format import count, duration, quantity
from gpu_report.study.options import NO_OPTIONS, left_out, option_names
from gpu_report.tables.bundle import (
    best_of_each,
    grouped,
    steps_from_eager,
)
from gpu_report.words import device_in_words, listed, optimization_in_words, part_words

_LOOPS_TABLE: Final = "own_loops"
_LOOPS: Final = OWN_LOOPS + "optimization"
_FUSED: Final = (("fusedstep", "separate"), ("openmp", "none"), ("compile", "none"))
"""Loops that read each point once in an iteration, with what they fuse; the first pair that was
measured is compared.
"""

MEMORY_IS_SHORT: Final = HALF
"""Share of the device's memory from which on saving some is worth time: with less, a batch or a
model twice as large fits.
"""
NEEDED: Final = 1.02
"""How many times as fast the whole ladder is as the one without a step that it needs, or more."""


@question("Does the fastest optimization break even within the measured training?", "optimization")
def compiling(scope: Scope) -> Iterator[Answer]:
    """It does if the cold-cache compile time is less than what the measured training's steps save
    against the eager baseline, and the whole interval of the speedup is above 1. With a cache that
    an earlier training filled it breaks even sooner. One significantly slower than the baseline is
    not asked about. Where it does not break even against the fastest with at most half its
    cold-cache compile time, those break-even steps are given too.
    """
    is_measured = False
    for group in scope.groups:
        before = group.baseline
        if before is None:
            continue
        compiled = [
            row
            for row in group.others
            if row[COLD_COST] > 0
            and row[COLD_COST] > before[COLD_COST]
            and row["optimizer_steps"] > 0
        ]
        if compiled:
            is_measured = True
            after = max(
                surely_faster(compiled, before), key=lambda row: float(row["throughput_per_s"])
            )
            if speedup(after, before).against(1.0) != "below":
                yield _compiling(group, before, after)
    asked = any("compile" in row["options"] or "graphs" in row["options"] for row in scope.rows)
    if asked and not is_measured:
        reason = why_missing(scope.rows, "nothing is compiled or captured")
        yield not_measured("compile and capture time", reason)


def _compiling(group: Group, before: Row, after: Row) -> Answer:
    gain, repaid = speedup(after, before), break_even(group, before, after)
    subject, name, epochs = group.title, group.words(after), int(after["epochs"])
    steps = int(after["optimizer_steps"])
    cold = duration(after[COLD_COST]).plain()
    warm = duration(after["preparation_time_s"]).plain()
    costs = {"cold-cache compile time": cold, "compile and capture time": warm}
    when = "saves no time that could repay it"
    if math.isfinite(repaid.steps):
        needed_steps = costs["break-even steps"] = count(repaid.steps).plain()
        needed_epochs = quantity(repaid.steps / (steps / epochs)).plain()
        when = f"breaks even after {needed_steps} steps ({needed_epochs} epochs)"
        if repaid.rival is not None:
            label = f"against {group.words(repaid.rival)}"
            later = costs[f"break-even steps {label}"] = count(repaid.over_rival).plain()
            when += f", but after {later} steps {label}"
    side = gain.against(1.0)
    verdict: Verdict = "yes" if side == "above" and repaid.steps <= steps else "no"
    if side == "unclear":
        verdict = "too close to call"
    compiled = f"it compiled and captured for {cold} with an empty cache, {warm} with a filled one"
    trained = f"the measured training had {count(steps).plain()} steps in {epochs} epochs"
    statement = {
        "yes": f"{subject} with {name} broke even: {compiled}, and {when}; {trained}.",
        "no": f"{subject} with {name} did not break even in the measured training: {compiled}, and "
        f"{when}; {trained}.",
    }.get(
        verdict,
        f"Whether {subject} with {name} ever breaks even is too close to call, because "
        f"{gain.why_unclear(1.0, '1')}: {compiled}, for {times(gain, short=True)} the speed.",
    )
    return Answer(
        verdict=verdict,
        statement=statement,
        subject=subject,
        evidence=[evidence(label, cost, group.table, after) for label, cost in costs.items()],
        key=group.key,
    )


@question("Does the whole ladder need each of its steps?", "optimization")
@partial(each_group, groups=for_speed)
def needed(group: Group) -> Answer | None:
    """Each step is left out once. A step is needed if the training is at least 2 % faster with it
    than without, intervals included.
    """
    ladder_of = _whole_ladder(group)
    if ladder_of is None:
        return None
    whole, without = ladder_of
    measured = {step: row for step, row in without.items() if row["status"] == "ok"}
    subject, ladder = group.title, group.words(whole)
    if whole["status"] != "ok" or not measured:
        reason = why_missing([whole, *without.values()], NOTHING_TO_COMPARE)
        return not_measured(f"what {subject} needs", reason, key=group.key)
    over = ratio_of("throughput_per_s", group.tables)
    gains = {step: over(whole, row) for step, row in measured.items()}
    needless = [step for step, gain in gains.items() if gain.against(NEEDED) == "below"]
    unclear = [step for step, gain in gains.items() if gain.against(NEEDED) == "unclear"]
    lost = [step for step in without if step not in measured]
    factors = "; ".join(f"{step} {times(gain, short=True)}" for step, gain in gains.items())
    verdict: Verdict = "yes"
    statement, advice = f"{subject} needs each step of {ladder}", ""
    if needless:
        verdict = "no"
        statement = f"{subject} does not need {listed(needless)} in {ladder}"
        if unclear:
            statement += f"; whether it needs {listed(unclear)} is too close to call"
        advice = f"Leave {min(needless, key=lambda step: gains[step].value)} out for {subject}."
    elif unclear:
        verdict = "too close to call"
        statement = (
            f"Whether {subject} needs {listed(unclear)} in {ladder} is too close to call, because "
            f"without {unclear[0]}, {gains[unclear[0]].why_unclear(NEEDED, 'a gain of 2 %')}"
        )
    return Answer(
        verdict=verdict,
        statement=f"{statement}. What a step multiplies the throughput by: {factors}"
        + (f"; without {listed(lost)} there are no numbers." if lost else "."),
        subject=subject,
        evidence=[
            evidence(f"throughput without {step}", shown(row, "throughput_per_s"), group.table, row)
            for step, row in measured.items()
        ],
        key=group.key,
        advice=advice,
    )


def _whole_ladder(group: Group) -> tuple[Row, dict[str, Row]] | None:
    """The configuration with all steps of a ladder, and each of them in words -> the one without
    it.
    """
    by_name = {row["optimization"]: row for row in group.rows}
    for name in sorted(by_name, key=lambda name: -len(option_names(name))):
        shorter = left_out(name)
        if len(shorter) > 2 and shorter.keys() <= by_name.keys():
            return by_name[name], {
                part_words(part): by_name[lacking] for lacking, part in shorter.items()
            }
    return None


@question("Which options save memory?", "optimization")
def saves(scope: Scope) -> Iterator[Answer]:
    """Saving means at least 10 % less at the peak, intervals included: allocators hand out memory
    in blocks, so that less than that is not due to the training. An option for speed is asked about
    where it was switched on alone and changed the peak by as much. It is recommended if the peak
    without it is at least half of the device's memory, or if either is not known.
    """
    for group in scope.groups:
        for row in group.rows:
            before = group.baseline or row
            changed_mib = abs(row["memory_peak_mib"] - before["memory_peak_mib"])
            is_asked = saves_memory(row) or (
                len(steps_from_eager(row) - steps_from_eager(before)) == 1
                and changed_mib >= MEMORY_TOLERANCE * before["memory_peak_mib"]
            )
            if is_asked and not row["is_baseline"]:
                rows = tuple(each for each in group.rows if each is row or each["is_baseline"])
                key = f"{group.key}_{key_of(row['optimization'])}"
                yield _saves(replace(group, key=key, rows=rows))


@against_baseline
def _saves(group: Group, before: Row) -> Answer:
    (after,) = group.others
    ratio = ratio_of("memory_peak_mib")(after, before)
    subject, name = group.title, optimization_in_words(added_options(after, before))
    is_short = not before["memory_peak_mib"] < MEMORY_IS_SHORT * before["device_memory_mib"]
    tolerance = f"{100 * MEMORY_TOLERANCE:g} %"
    saved = as_share(ratio.mapped(lambda rest: 1 - rest), short=True)
    longer = speedup(after, before).inverse  # per sample
    cost = f"training took {times(longer, short=True)} as long"
    if longer.against(1.0) == "below":
        cost = f"it trained {times(longer.inverse, short=True)} as fast"
    elif longer.against(1.0) == "unclear":
        cost += ", which is not a significant change"
    return decided(
        group,
        ratio,
        limit=1 - MEMORY_TOLERANCE,
        limit_in_words=f"{tolerance} less",
        holds="below",
        yes=f"{subject} took {saved} less memory at its peak with {name}",
        no=f"{subject} took more memory at its peak with {name}"
        if ratio.low > 1
        else f"{subject} did not take {tolerance} less memory at its peak with {name}",
        whether=f"{subject} takes less memory with {name}",
        measured=f": {shown(after, 'memory_peak_mib')} instead of "
        f"{shown(before, 'memory_peak_mib', short=True)} without; {cost}.",
        evidence=evidence_of(group, {"memory_peak_mib": "peak memory"}, [after, before]),
        advice={
            "yes": f"Train {subject} with {name} where memory is short: {saved} less at the peak; "
            f"{cost}."
            if is_short and (saves_memory(after) or longer.against(1.0) == "below")
            else ""
        },
        unknown=NOTHING_TO_COMPARE,
    )


@question("Which loop trains fastest?", _LOOPS)
def best(scope: Scope) -> Iterator[Answer]:
    """Another loop is faster if the whole interval of its speedup over the baseline is above 1, and
    the difference is significant among the experiment's comparisons (Holm). On a tie the loop with
    the fewest optimizations is named.
    """
    for answer in axes.best(scope):
        yield replace(answer, advice="")  # a reader's workload does not have these loops


@question("Is a fused iteration faster?", _LOOPS)
def fusion(scope: Scope) -> Iterator[Answer]:
    """It is if the ratio of the throughputs is above 1, intervals included. Only the first pair of
    a fused and a separate loop that was measured is compared.
    """
    for group in groups_beside(scope, _LOOPS_TABLE):
        rows = {row["options"]: row for row in group.measured if "pass_us" in row}
        pairs = [(rows[fused], rows[apart]) for fused, apart in _FUSED if {fused, apart} <= {*rows}]
        if not pairs:
            yield missing(group)
            continue
        fused, apart = pairs[0]
        ratio = ratio_of("throughput_per_s", group.tables)(fused, apart)
        # What a compiler makes of an iteration, and moves in it, is not known.
        columns = {"work_per_pass": "launches"}
        if fused["options"] != "compile":
            columns["bytes_per_point"] = "bytes per point"
        less = [
            f"{quantity(fused[column]).plain()} {what} instead of {quantity(apart[column]).plain()}"
            for column, what in columns.items()
            if not math.isnan(fused[column] + apart[column])
        ]
        less_work = f"; it takes {listed(less)}" if less else ""
        yield decided(
            group,
            ratio,
            yes=f"Fusion made {group.title} faster",
            no=f"Fusion made {group.title} slower",
            whether=f"fusion makes {group.title} faster",
            measured=f": an iteration took {shown(fused, 'pass_us', short=True)} with "
            f"{group.words(fused)} and {shown(apart, 'pass_us', short=True)} with "
            f"{group.words(apart)}, {times(ratio)} the throughput{less_work}.",
            evidence=evidence_of_columns(
                [fused, apart], {"pass_us": "time of an iteration"}, _LOOPS_TABLE
            ),
        )


@question(
    "Is the GPU faster than the CPU with the fastest loop of each?",
    _LOOPS,
    OWN_LOOPS + "batch_size",
)
def devices(scope: Scope) -> Iterator[Answer]:
    """It is if the ratio of the throughputs is above 1, intervals included, at each number of
    points that both trained. If the CPU was also measured with options at some of these, only
    those count.
    """
    by_workload = grouped(scope.rows, lambda row: row["workload"])
    for name, rows in by_workload.items():
        title, key = rows[0]["workload_title"], key_of(name) if len(by_workload) > 1 else ""
        pairs = _fastest_pairs([row for row in rows if row["status"] == "ok"])
        if pairs:
            yield _devices(scope, pairs, title, key)
        elif _fastest_pairs(rows):
            yield not_measured(title, why_missing(rows, "no size was trained on two"), key=key)


def _fastest_pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """At each number of points that both have, the fastest of the CPU and that of the
    accelerators.
    """
    on_cpu = [row for row in rows if row["device"] == CPU]
    tuned = {row["batch_size"] for row in on_cpu if row["options"] != NO_OPTIONS}
    sides = (
        [row for row in on_cpu if row["batch_size"] in tuned or not tuned],
        [row for row in rows if row["device"] != CPU],
    )
    cpu, others = (
        {row["batch_size"]: row for row in best_of_each(side, "throughput_per_s", "batch_size")}
        for side in sides
    )
    return [(cpu[points], others[points]) for points in sorted(cpu.keys() & others.keys())]


def _devices(scope: Scope, pairs: Sequence[tuple[Row, Row]], title: str, key: str) -> Answer:
    ratios = [ratio_of("throughput_per_s", scope.tables)(other, cpu) for cpu, other in pairs]
    points = [f"over {count(cpu['batch_size']).plain()} points" for cpu, _ in pairs]
    sides = [ratio.against(1.0) for ratio in ratios]
    names = list({device_in_words(other["device"]) for _, other in pairs})
    device = names[0] if len(names) == 1 else "an accelerator"
    fastest = "with the fastest loop of each"
    verdict: Verdict = "yes"
    statement = f"{fastest}, {device} was faster than the CPU for {title}"
    if "below" in sides:
        verdict = "no"
        statement = f"{fastest}, {device} was not always faster than the CPU for {title}"
    elif "unclear" in sides:
        verdict, first = "too close to call", sides.index("unclear")
        statement = (
            f"Whether {device} is faster than the CPU for {title} {fastest} is too close to call, "
            f"because {points[first]}, {ratios[first].why_unclear(1.0, '1')}"
        )
    factors = "; ".join(
        f"{times(ratio, short=True)} {where} ({optimization_in_words(other['options'])} against "
        f"{optimization_in_words(cpu['options'])})"
        for (cpu, other), ratio, where in zip(pairs, ratios, points, strict=True)
    )
    return Answer(
        verdict=verdict,
        statement=f"{statement}: {factors}.",
        subject=title,
        evidence=evidence_of_columns(
            [row for pair in pairs for row in pair], {"throughput_per_s": "throughput"}, scope.table
        ),
        key=key,
    )
