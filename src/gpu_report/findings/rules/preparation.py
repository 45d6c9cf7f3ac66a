"""Whether compiling and capturing before the first step pay, and after how many steps (C6)."""

import math
from collections.abc import Iterable
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, speedup
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, why_missing
from gpu_report.findings.scope import Group, Scope, key_of


def _preparing(scope: Scope) -> Iterable[Outcome]:
    found = [
        _pays(scope, group, group.baseline, row)
        for group in scope.groups
        if group.baseline is not None
        for row in group.others
        if row["preparation_cold_s"] > 0 and row["preparation_cold_s"] > group.baseline["preparation_cold_s"]
    ]
    if found or scope.table not in scope.tables.experiments or not _asks_for_preparing(scope.rows):
        return found
    return [not_measured("what preparing costs", why_missing(scope.rows, "no variant prepares anything"))]


def _asks_for_preparing(rows: Iterable[Row]) -> bool:
    return any("compile" in row["options"] or "graphs" in row["options"] for row in rows)


def _pays(scope: Scope, group: Group, baseline: Row, row: Row) -> Outcome:
    ratio = speedup(row, baseline)
    side = ratio.against(1.0)
    steps = _steps_of_training(scope, row)
    needed = float(row["break_even_steps"])
    pays = side == "above" and needed <= steps
    return Outcome(
        verdict="inconclusive" if side == "unclear" else "supported" if pays else "contradicted",
        words={
            "subject": group.title,
            "value": group.value_in_words(row),
            "baseline": group.value_in_words(baseline),
            "cold": phrases.seconds(row["preparation_cold_s"]),
            "warm": phrases.seconds(row["preparation_time_s"]),
            "steps": phrases.count(steps),
            "epochs": phrases.count(row["epochs"]),
            "when": _when(needed, steps / row["epochs"]),
            "doubt": ratio.why_unclear("1"),
            "speedup": phrases.times(ratio, short=True),
            "advice": _advice(group, row, needed),
        },
        evidence=(
            phrases.evidence("preparing, empty cache", phrases.seconds(row["preparation_cold_s"]), group.table, row),
            phrases.evidence("preparing, filled cache", phrases.seconds(row["preparation_time_s"]), group.table, row),
            *(
                [phrases.evidence("steps until it pays", phrases.count(math.ceil(needed)), group.table, row)]
                if math.isfinite(needed)
                else []
            ),
        ),
        key=f"{group.key}_{key_of(row['optimization'])}",
    )


def _when(needed: float, steps_per_epoch: float) -> str:
    """From when on it pays; an epoch is that of the measured training."""
    if not math.isfinite(needed):
        return "it saves no time that could repay it"
    whole = math.ceil(needed)
    return f"it pays from {phrases.count(whole)} steps on, which are {phrases.number(whole / steps_per_epoch)} epochs"


def _advice(group: Group, row: Row, needed: float) -> str:
    """From how many steps on to prepare; said of the fastest variant alone, because the others are not recommended."""
    fastest = max(group.others, key=lambda other: float(other["throughput_per_s"]))
    if row is not fastest or not math.isfinite(needed):
        return ""
    steps = phrases.count(math.ceil(needed))
    return f"Switch on {group.value_in_words(row)} for {group.title} only in trainings of more than {steps} steps."


def _steps_of_training(scope: Scope, row: Row) -> int:
    losses = scope.tables.losses
    return int((losses["variant"] == row["variant"]).sum()) // int(row["processes"])


RULES: Final = (
    Rule(
        name="preparing",
        about="optimization",
        question="Does compiling or capturing repay its time within the training that was measured?",
        test=_preparing,
        threshold="It does if preparing with an empty cache costs less time than the measured training's steps save"
        " against the plain loop, and the whole interval of the speedup lies above 1. With a cache that an earlier"
        " training filled it pays sooner.",
        wording=Wording(
            supported="Preparing {subject} for {value} repaid its time: it took {cold} with an empty cache, {warm} with"
            " a filled one; against {baseline} {when}, and the training had {steps} steps in {epochs} epochs.",
            contradicted="Preparing {subject} for {value} did not repay its time: it took {cold} with an empty cache,"
            " {warm} with a filled one; against {baseline} {when}, and the training had {steps} steps in {epochs}"
            " epochs only.",
            inconclusive="Whether preparing {subject} for {value} ever repays its time stays open, because {doubt}: it"
            " took {cold} with an empty cache, {warm} with a filled one, for {speedup} the speed.",
        ),
        advice={"contradicted": "{advice}"},
    ),
)
