"""Rules about optimizations: what speeds training up, what saves memory, and at what cost (B4, B5,
C6).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import estimate, ratio_of, speedup
from gpu_report.findings.finding import Verdict
from gpu_report.findings.phrases import Named, times
from gpu_report.findings.rule import (
    MEMORY,
    NOTHING_TO_COMPARE,
    Compared,
    Comparison,
    Outcome,
    Rule,
    baseline_and_other,
    not_measured,
    why_missing,
)
from gpu_report.findings.rules import axes
from gpu_report.findings.scope import Group, Scope, key_of
from gpu_report.glossary import Row
from gpu_report.printing.number_format import count, duration, memory, quantity
from gpu_report.study.options import SEPARATOR, left_out, option_names
from gpu_report.tables.bundle import fastest_of
from gpu_report.words import listed, part_words

SAVES_MEMORY: Final = "checkpoint"
"""The option that makes a training slower on purpose."""

NEEDED: Final = 1.02
"""How many times as fast the whole ladder is as the one without a step that it needs, or more."""

WORKSPACE_SHARE: Final = 0.25
"""Of the peak: from there on a convolution's workspace is named, since it can hide what saving
activations saves.
"""


def saves_memory(row: Row) -> bool:
    """Whether a variant trains in less memory rather than in less time."""
    return bool(row["accumulation"] > 1 or SAVES_MEMORY in option_names(row["options"]))


def only_for_speed(groups: Iterable[Group]) -> Iterable[Group]:
    """The groups without the variants that save memory; those about these alone are left out."""
    for group in groups:
        rows = tuple(row for row in group.rows if row["is_baseline"] or not saves_memory(row))
        if any(not row["is_baseline"] for row in rows):
            yield replace(group, rows=rows)


def _for_speed(scope: Scope) -> Iterable[Group]:
    return only_for_speed(scope.groups)


def _compiling(scope: Scope) -> Iterable[Outcome]:
    found = [
        _prepared_in(
            scope,
            group,
            group.baseline,
            max(prepared, key=lambda row: float(row["throughput_per_s"])),
        )
        for group in scope.groups
        if group.baseline is not None and (prepared := _prepared(group, group.baseline))
    ]
    asked = any("compile" in row["options"] or "graphs" in row["options"] for row in scope.rows)
    if found or not asked:
        return found
    return [
        not_measured(
            "compile and capture time", why_missing(scope.rows, "nothing is compiled or captured")
        )
    ]


def _prepared(group: Group, baseline: Row) -> list[Row]:
    """The variants that compile or capture something which the baseline does not."""
    cost = "preparation_cold_s"
    return [row for row in group.others if row[cost] > 0 and row[cost] > baseline[cost]]


def _prepared_in(scope: Scope, group: Group, baseline: Row, row: Row) -> Outcome:
    """Whether a variant saved the time within its training that it compiled or captured for."""
    losses = scope.tables.losses
    gain = speedup(row, baseline)
    steps = int((losses["variant"] == row["variant"]).sum()) // int(row["processes"])
    cold, warm = (
        duration(row[column]).plain() for column in ("preparation_cold_s", "preparation_time_s")
    )
    needed = float(row["break_even_steps"])
    saves_time, needed_in_words, advice = math.isfinite(needed), "", ""
    if saves_time:
        needed_in_words = count(needed).plain()
        if row is fastest_of(group.others):
            advice = (
                f"Switch on {group.value_in_words(row)} for {group.title} only in trainings of "
                f"more than {needed_in_words} steps."
            )
    in_epochs = quantity(needed / (steps / row["epochs"])).plain()
    pays: Verdict = "yes" if gain.against(1.0) == "above" and needed <= steps else "no"
    costs = {
        "cold-cache compile time": cold,
        "compile and capture time": warm,
        "break-even steps": needed_in_words,
    }
    return Outcome(
        verdict="not resolved" if gain.against(1.0) == "unclear" else pays,
        fields={
            "subject": group.title,
            "after": Named(row, group.value_in_words(row)),
            "cold": cold,
            "warm": warm,
            "steps": steps,
            "epochs": int(row["epochs"]),
            "when": f"breaks even after {needed_in_words} steps ({in_epochs} epochs)"
            if saves_time
            else "saves no time that could repay it",
            "doubt": gain.why_unclear("1"),
            "speedup": gain,
            "advice": advice,
        },
        evidence=tuple(
            phrases.evidence(label, cost, group.table, row) for label, cost in costs.items() if cost
        ),
        key=group.key,
    )


def _each_that_saves(scope: Scope) -> Iterable[Group]:
    """A group for each variant that saves memory and the baseline."""
    for group in scope.groups:
        for row in group.rows:
            if saves_memory(row) and not row["is_baseline"]:
                key = f"{group.key}_{key_of(row['optimization'])}"
                yield replace(
                    group,
                    key=key,
                    rows=tuple(one for one in group.rows if one is row or one["is_baseline"]),
                )


def _saving_and_cost(compared: Compared) -> dict[str, Any]:
    """With the workspace of convolutions where it is much of the peak: nothing that saves
    activations can save it.
    """
    row = compared.after
    time = speedup(row, compared.before).inverse  # per sample, over that of the baseline
    workspace_mib = float(row["convolution_workspace_mib"])
    as_long = f"{times(time, short=True)} as long"
    return {
        "workspace": f"; a convolution's workspace took up to {memory(workspace_mib).plain()}"
        if workspace_mib >= WORKSPACE_SHARE * float(row["memory_peak_mib"])
        else "",
        "saved": compared.figure.mapped(lambda ratio: 1 - ratio),
        "time": time,
        "cost": f"it took {as_long}"
        if time.against(1.0) != "unclear"
        else f"the change in time is not significant, {as_long}",
    }


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


def _needed(scope: Scope) -> Iterable[Outcome]:
    for group in _for_speed(scope):
        if (ladder := _whole_ladder(group)) is not None:
            yield _needed_in(group, *ladder)


def _needed_in(group: Group, whole: Row, without: Mapping[str, Row]) -> Outcome:
    """Which parts of the whole it needs; one without which nothing was measured is named."""
    gains = {
        part: estimate(whole, "throughput_per_s").over(estimate(row, "throughput_per_s"))
        for part, row in without.items()
        if whole["status"] == row["status"] == "ok"
    }
    if not gains:
        reason = why_missing([whole, *without.values()], NOTHING_TO_COMPARE)
        return not_measured(f"what {group.title} needs", reason, key=group.key)
    by_side: dict[str, list[str]] = {"above": [], "below": [], "unclear": []}
    for part, gain in gains.items():
        by_side[gain.against(NEEDED)].append(part)
    unclear, needless = by_side["unclear"], by_side["below"]
    lost = [part for part in without if part not in gains]
    more = [
        *([f"; of {listed(unclear)} it is not resolved"] if unclear and needless else []),
        *([f"; without {listed(lost)} there are no numbers"] if lost else []),
    ]
    verdict: Verdict = "not resolved" if unclear else "yes"
    return Outcome(
        verdict="no" if needless else verdict,
        fields={
            "subject": group.title,
            "whole": Named(whole, group.value_in_words(whole)),
            "needless": listed(needless or ["nothing"]),
            "least": min(gains, key=lambda part: gains[part].value),
            "unclear": listed(unclear or ["nothing"]),
            "doubt": gains[unclear[0]].why_unclear("2 %") if unclear else "",
            "factors": "; ".join(
                f"{part} {times(each, short=True)}" for part, each in gains.items()
            )
            + "".join(more),
        },
        evidence=tuple(
            phrases.evidence(
                f"throughput without {part}",
                phrases.of_column(row, "throughput_per_s"),
                group.table,
                row,
            )
            for part, row in without.items()
            if row["status"] == "ok"
        ),
        key=group.key,
    )


RULES: Final = (
    replace(axes.BEST, about="optimization", test=replace(axes.FASTEST, groups=_for_speed)),
    replace(
        axes.BEST,
        name="alone",
        about="optimization",
        question="Which optimization helps most by itself?",
        test=replace(
            axes.FASTEST,
            groups=lambda scope: [
                replace(
                    group,
                    rows=tuple(row for row in group.rows if SEPARATOR not in row["optimization"]),
                )
                for group in _for_speed(scope)
            ],
        ),
        yes="Individually, {after} gained most for {subject}: {figure} the throughput of "
        "{before}{rivals}.",
        no="Individually, no optimization made {subject} faster than {before}; the next, {after}, "
        "reached {figure} its throughput.",
        unresolved="Whether any optimization individually makes {subject} faster than {before}",
        measured="; with {after} the throughput was {figure:short} that of {before}.",
        advice={},
    ),
    replace(
        axes.MEMORY_COST, about="optimization", test=replace(axes.MORE_MEMORY, groups=_for_speed)
    ),
    Rule(
        name="compiling",
        about="optimization",
        question="Does the fastest optimization break even within the measured training?",
        threshold="It does if the cold-cache compile time is less than what the measured "
        "training's steps save against the eager baseline, and the whole interval of the speedup "
        "is above 1. With a cache that an earlier training filled it breaks even sooner.",
        test=_compiling,
        yes="{subject} with {after} broke even: it compiled and captured for {cold} with an empty "
        "cache, {warm} with a filled one, and {when}; the measured training had {steps} steps in "
        "{epochs} epochs.",
        no="{subject} with {after} did not break even: it compiled and captured for {cold} with "
        "an empty cache, {warm} with a filled one, and {when}; the measured training had only "
        "{steps} steps in {epochs} epochs.",
        unresolved="Whether {subject} with {after} ever breaks even",
        measured=": it compiled and captured for {cold} with an empty cache, {warm} with a filled "
        "one, for {speedup:short} the speed.",
        advice={"no": "{advice}"},
    ),
    Rule(
        name="needed",
        about="optimization",
        question="Does the whole ladder need each of its steps?",
        threshold="Each step is left out once. A step is needed if the training is at least 2 % "
        "faster with it than without, intervals included.",
        test=_needed,
        yes="{subject} needs each step of {whole}. What a step multiplies the throughput by: "
        "{factors}.",
        no="{subject} does not need {needless} in {whole}. What a step multiplies the throughput "
        "by: {factors}.",
        unresolved="Whether {subject} needs {unclear} in {whole}",
        measured=". What a step multiplies the throughput by: {factors}.",
        advice={"no": "Leave {least} out for {subject}."},
    ),
    Rule(
        name="saves",
        about="optimization",
        question="Which options save memory?",
        threshold="Less" + axes.SAVING_THRESHOLD,
        test=Comparison(
            groups=_each_that_saves,
            choose=baseline_and_other,
            figure=ratio_of("memory_peak_mib"),
            limit=1 - axes.MEMORY_TOLERANCE,
            limit_in_words="10 % less",
            holds="below",
            unknown=NOTHING_TO_COMPARE,
            evidence=MEMORY,
            more=_saving_and_cost,
        ),
        yes="{after} saved {subject} {saved:%short} of its memory: {after.memory_peak_mib} at the "
        "peak, instead of {before.memory_peak_mib:short} with {before}{workspace}; {cost}.",
        no="{after} saved {subject} hardly any memory: {after.memory_peak_mib} at the peak, "
        "against {before.memory_peak_mib:short} with {before}{workspace}. Training took "
        "{time:short} as long.",
        unresolved="Whether {after} saves {subject} memory",
        measured=": {after.memory_peak_mib} at the peak, against {before.memory_peak_mib:short} "
        "with {before}{workspace}. Training took {time:short} as long.",
        advice={"yes": "Train {subject} with {after} where memory is short."},
    ),
    replace(axes.QUALITY_OF_EACH, about="optimization"),
    replace(
        axes.SAVES_ENERGY,
        about="optimization",
        test=replace(
            axes.ENERGY_OF_FASTEST, groups=lambda scope: axes.with_energy(_for_speed(scope))
        ),
    ),
)
