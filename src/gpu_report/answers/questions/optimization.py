"""Questions about optimizations, beside those that `axes` asks about any axis.

Which steps of the ladder are needed, and does compiling break even (B4, B5)? Which options save
memory, and what do they cost (C6)?
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from gpu_report.answers.estimate import estimate, ratio_of, speedup
from gpu_report.answers.finding import Verdict
from gpu_report.answers.phrases import as_share, evidence, shown, times
from gpu_report.answers.question import (
    NOTHING_TO_COMPARE,
    Answer,
    decided,
    each_group,
    evidence_of,
    fastest_beside_baseline,
    missing,
    not_measured,
    question,
    why_missing,
)
from gpu_report.answers.questions.axes import MEMORY_TOLERANCE, for_speed
from gpu_report.answers.scope import Group, Scope, key_of, saves_memory
from gpu_report.glossary import Row
from gpu_report.printing.number_format import count, duration, memory, quantity
from gpu_report.study.options import left_out, option_names
from gpu_report.tables.bundle import fastest_of
from gpu_report.words import listed, part_words

NEEDED: Final = 1.02
"""How many times as fast the whole ladder is as the one without a step that it needs, or more."""

WORKSPACE_SHARE: Final = 0.25
"""Of the peak: from there on a convolution's workspace is named, since it can hide what saving
activations saves.
"""


@question("Does the fastest optimization break even within the measured training?", "optimization")
def compiling(scope: Scope) -> Iterator[Answer]:
    """It does if the cold-cache compile time is less than what the measured training's steps save
    against the eager baseline, and the whole interval of the speedup is above 1. With a cache that
    an earlier training filled it breaks even sooner.
    """
    cost, is_measured = "preparation_cold_s", False
    for group in scope.groups:
        before = group.baseline
        if before is None:
            continue
        compiled = [row for row in group.others if row[cost] > 0 and row[cost] > before[cost]]
        if compiled:
            is_measured = True
            after = max(compiled, key=lambda row: float(row["throughput_per_s"]))
            yield _compiling(scope, group, before, after)
    asked = any("compile" in row["options"] or "graphs" in row["options"] for row in scope.rows)
    if asked and not is_measured:
        reason = why_missing(scope.rows, "nothing is compiled or captured")
        yield not_measured("compile and capture time", reason)


def _compiling(scope: Scope, group: Group, before: Row, after: Row) -> Answer:
    gain, needed = speedup(after, before), float(after["break_even_steps"])
    subject, name, epochs = group.title, group.words(after), int(after["epochs"])
    losses = scope.tables.losses
    steps = int((losses["variant"] == after["variant"]).sum()) // int(after["processes"])
    cold = duration(after["preparation_cold_s"]).plain()
    warm = duration(after["preparation_time_s"]).plain()
    costs = {"cold-cache compile time": cold, "compile and capture time": warm}
    when, advice = "saves no time that could repay it", ""
    if math.isfinite(needed):
        needed_steps = costs["break-even steps"] = count(needed).plain()
        needed_epochs = quantity(needed / (steps / epochs)).plain()
        when = f"breaks even after {needed_steps} steps ({needed_epochs} epochs)"
        if after is fastest_of(group.others):
            advice = (
                f"Switch on {name} for {subject} only in trainings of more than {needed_steps} "
                "steps."
            )
    side = gain.against(1.0)
    verdict: Verdict = "yes" if side == "above" and needed <= steps else "no"
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
        advice=advice if verdict == "no" else "",
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
    rate = estimate(whole, "throughput_per_s")
    gains = {step: rate.over(estimate(row, "throughput_per_s")) for step, row in measured.items()}
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
    in blocks, so that less than that is not due to the training.
    """
    for group in scope.groups:
        for row in group.rows:
            if saves_memory(row) and not row["is_baseline"]:
                rows = tuple(each for each in group.rows if each is row or each["is_baseline"])
                key = f"{group.key}_{key_of(row['optimization'])}"
                yield _saves(replace(group, key=key, rows=rows))


def _saves(group: Group) -> Answer:
    pair = fastest_beside_baseline(group)
    if pair is None:
        return missing(group)
    before, after = pair
    ratio = ratio_of("memory_peak_mib")(after, before)
    if not ratio.known:
        return not_measured(group.title, NOTHING_TO_COMPARE, key=group.key)
    subject, name = group.title, group.words(after)
    saved = as_share(ratio.mapped(lambda rest: 1 - rest), short=True)
    workspace_mib = float(after["convolution_workspace_mib"])
    workspace = ""
    if workspace_mib >= WORKSPACE_SHARE * float(after["memory_peak_mib"]):
        workspace = f"; a convolution's workspace took up to {memory(workspace_mib).plain()}"
    longer = speedup(after, before).inverse  # per sample
    cost = f"training took {times(longer, short=True)} as long"
    if longer.against(1.0) == "unclear":
        cost += ", which is not a significant change"
    return decided(
        group,
        ratio,
        limit=1 - MEMORY_TOLERANCE,
        limit_in_words="10 % less",
        holds="below",
        yes=f"{name} reduced the peak memory of {subject} by {saved}",
        no=f"{name} barely reduced the peak memory of {subject}",
        whether=f"{name} saves {subject} memory",
        measured=f": {shown(after, 'memory_peak_mib')} instead of "
        f"{shown(before, 'memory_peak_mib', short=True)} with {group.words(before)}{workspace}; "
        f"{cost}.",
        evidence=evidence_of(group, {"memory_peak_mib": "peak memory"}, [after, before]),
        advice={"yes": f"Train {subject} with {name} where memory is short."},
    )
