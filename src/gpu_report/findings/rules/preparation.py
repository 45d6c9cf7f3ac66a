"""Whether compiling and capturing before the first step pay, and after how many steps (C6)."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, speedup
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, why_missing
from gpu_report.findings.scope import Group, Scope


def _preparing(scope: Scope) -> Iterable[Outcome]:
    found = [
        _pays(scope, group, group.baseline, prepared)
        for group in scope.groups
        if group.baseline is not None and (prepared := _prepared(group, group.baseline))
    ]
    if found or scope.table not in scope.tables.experiments or not _asks_for_preparing(scope.rows):
        return found
    return [not_measured("what preparing costs", why_missing(scope.rows, "no variant prepares anything"))]


def _asks_for_preparing(rows: Iterable[Row]) -> bool:
    return any("compile" in row["options"] or "graphs" in row["options"] for row in rows)


def _prepared(group: Group, baseline: Row) -> list[Row]:
    """The variants that prepare something which the baseline does not, the fastest first."""
    cost = "preparation_cold_s"
    rows = [row for row in group.others if row[cost] > 0 and row[cost] > baseline[cost]]
    return sorted(rows, key=lambda row: -float(row["throughput_per_s"]))


def _pays(scope: Scope, group: Group, baseline: Row, prepared: Sequence[Row]) -> Outcome:
    """Whether preparing the fastest repaid its time; how many of the others did stands beside it."""
    row = prepared[0]
    ratio = speedup(row, baseline)
    side = ratio.against(1.0)
    steps = _steps_of_training(scope, row)
    needed = float(row["break_even_steps"])
    pays = _repaid(scope, baseline, row)
    repaid = sum(_repaid(scope, baseline, other) for other in prepared)
    return Outcome(
        verdict="not resolved" if side == "unclear" else "yes" if pays else "no",
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
            "others": f" Within the training {phrases.how_many(repaid, len(prepared), 'prepared variant')} did."
            if len(prepared) > 1
            else "",
            "advice": _advice(group, row, needed),
        },
        evidence=(
            phrases.evidence("cold-cache compile time", phrases.seconds(row["preparation_cold_s"]), group.table, row),
            phrases.evidence("compile and capture time", phrases.seconds(row["preparation_time_s"]), group.table, row),
            *(
                [phrases.evidence("break-even steps", phrases.count(needed), group.table, row)]
                if math.isfinite(needed)
                else []
            ),
        ),
        key=group.key,
    )


def _repaid(scope: Scope, baseline: Row, row: Row) -> bool:
    above = speedup(row, baseline).against(1.0) == "above"
    return above and float(row["break_even_steps"]) <= _steps_of_training(scope, row)


def _when(needed: float, steps_per_epoch: float) -> str:
    """When it breaks even; an epoch is that of the measured training."""
    if not math.isfinite(needed):
        return "it saves no time that could repay it"
    epochs = phrases.number(needed / steps_per_epoch)
    return f"it breaks even after {phrases.count(needed)} steps, which are {epochs} epochs"


def _advice(group: Group, row: Row, needed: float) -> str:
    """From how many steps on to prepare; said of the fastest variant alone, because the others are not recommended."""
    fastest = max(group.others, key=lambda other: float(other["throughput_per_s"]))
    if row is not fastest or not math.isfinite(needed):
        return ""
    steps = phrases.count(needed)
    return f"Switch on {group.value_in_words(row)} for {group.title} only in trainings of more than {steps} steps."


def _steps_of_training(scope: Scope, row: Row) -> int:
    losses = scope.tables.losses
    return int((losses["variant"] == row["variant"]).sum()) // int(row["processes"])


RULES: Final = (
    Rule(
        name="preparing",
        about="optimization",
        question="Does preparing the fastest optimization repay its time within the training measured?",
        test=_preparing,
        threshold="It does if preparing with an empty cache costs less time than the measured training's steps save"
        " against the eager baseline, and the whole interval of the speedup lies above 1. With a cache that an earlier"
        " training filled it pays sooner.",
        wording=Wording(
            yes="Preparing {subject} for {value} repaid its time: it took {cold} with an empty cache, {warm} with"
            " a filled one; against {baseline} {when}, and the training had {steps} steps in {epochs} epochs."
            "{others}",
            no="Preparing {subject} for {value} did not repay its time: it took {cold} with an empty cache,"
            " {warm} with a filled one; against {baseline} {when}, and the training had {steps} steps in {epochs}"
            " epochs only.{others}",
            unresolved="Whether preparing {subject} for {value} ever repays its time is not resolved, because"
            " {doubt}: it"
            " took {cold} with an empty cache, {warm} with a filled one, for {speedup} the speed.{others}",
        ),
        advice={"no": "{advice}"},
    ),
)
