"""Rules about the study as a whole: what do all optimizations gain together, and does each workload
learn?
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Side, estimate, falls, gain_over, is_share
from gpu_report.findings.finding import STUDY
from gpu_report.findings.phrases import Named
from gpu_report.findings.rule import Outcome, Rule, not_measured
from gpu_report.findings.scope import Scope, key_of
from gpu_report.glossary import Row
from gpu_report.printing.number_format import quantity
from gpu_report.tables.bundle import eager_and_fastest, grouped
from gpu_report.words import described, in_words, listed, settings_in_words

ABOVE_CHANCE: Final = 0.05
PERFECT: Final = 0.995


def _fastest(scope: Scope) -> Iterable[Outcome]:
    """Of each model, the fastest configuration over the eager baseline."""
    rows = {row["variant"]: row for row in scope.measured if not row["begins_anew"]}
    pairs = [
        (rows[names[0]], rows[names[-1]])
        for names in eager_and_fastest(scope.tables)
        if rows.keys() >= {*names}
    ]
    pairs = [(eager, row) for eager, row in pairs if row is not eager]
    ratios = [(eager, row, gain_over(scope.tables, row, eager)) for eager, row in pairs]
    gains = sorted(ratios, key=lambda each: -each[2].value)
    if not gains:
        return []
    named = []
    for eager, row, ratio in gains:
        sizes = [in_words("batch_size", each["batch_size"]) for each in (row, eager)]
        settings = [*([] if sizes[0] == sizes[1] else sizes[:1]), *settings_in_words(row)]
        before = "" if sizes[0] == sizes[1] else f" instead of {sizes[1]}"
        flags = ", with a quality flag" if ratio.doubts else ""
        named.append(
            f"{row['workload_title']} {phrases.times(ratio, short=True)} with "
            f"{', '.join(settings)}{before}{flags}"
        )
    evidence = phrases.evidence_of_columns(
        [row for _, row, _ in gains], {"throughput_per_s": "throughput"}, scope.table
    )
    precisions = listed(list(dict.fromkeys(str(eager["precision"]) for eager, row in pairs)))
    fields = {"gains": "; ".join(named), "precisions": precisions}
    return [Outcome(verdict="yes", fields=fields, evidence=evidence)]


def _learns(scope: Scope) -> Iterable[Outcome]:
    by_workload = grouped(scope.rows, lambda row: row["workload"])
    return [_learns_in(scope, rows) for rows in by_workload.values()]


def _learns_in(scope: Scope, rows: Sequence[Row]) -> Outcome:
    title, key = rows[0]["workload_title"], key_of(rows[0]["workload"])
    known = [(row, estimate(row, "quality")) for row in rows if row["status"] == "ok"]
    known = [pair for pair in known if pair[1].known]
    if not known:
        return not_measured(title, "none of its configurations has a quality", key=key)
    chance = float(known[0][0]["quality_chance"])
    if math.isnan(chance):
        return not_measured(title, "its class does not say what chance reaches", key=key)
    is_from_0_to_1 = 0 <= chance <= 1 and all(is_share(row) for row, _ in known)
    way = 1 - chance if is_from_0_to_1 else -abs(chance) if falls(known[0][0]) else abs(chance)
    beats: Side = "below" if way < 0 else "above"
    sides = [quality.against(chance + ABOVE_CHANCE * way) for _, quality in known]
    is_solved = is_from_0_to_1 and all(quality.value >= PERFECT for _, quality in known)
    best, quality = (min if way < 0 else max)(known, key=lambda pair: pair[1].value)
    is_open = "unclear" in sides and not is_solved
    return Outcome(
        verdict="yes" if beats in sides and not is_solved else "not resolved" if is_open else "no",
        fields={
            "subject": title,
            "best": Named(best, described(best)),
            "chance": quantity(chance).plain(),
            "above": phrases.how_many(sides.count(beats), len(known), "configuration"),
            "fault": "every configuration solves the task"
            if is_solved
            else "no configuration beats chance",
            "doubt": quality.why_unclear("chance"),
        },
        evidence=phrases.evidence_of_columns(
            [row for row, _ in known], {"quality": f"held-out {best['quality_name']}"}, scope.table
        ),
        key=key,
    )


RULES: Final = (
    Rule(
        name="fastest",
        about=STUDY,
        question="How much does the fastest configuration gain?",
        threshold="Compared are the eager baseline of each workload and the fastest configuration "
        "of the same size and parallelism, precision and batch size included; of those that are "
        "neither significantly slower nor slower by 2 %, the one with the fewest optimizations.",
        test=_fastest,
        yes="Over the throughput of the eager {precisions} baseline: {gains}.",
        no="",
        not_measured="",
    ),
    Rule(
        name="learns",
        about=STUDY,
        question="Does the workload beat chance, and could its quality differ between "
        "configurations?",
        threshold="It does if the held-out quality of a configuration, interval included, is "
        "above chance by 5 % of the way from chance to perfect (better than chance by 5 %, where "
        "the metric falls as models get better or is not from 0 to 1), and not every "
        "configuration reaches 0.995: a task that all solve shows no difference.",
        test=_learns,
        yes="{subject} beats chance ({chance}) in {above}; the best held-out {best.quality_name}, "
        "that of {best}, is {best.quality}.",
        no="{subject} shows no difference in quality: {fault}; the best held-out "
        "{best.quality_name} is {best.quality}, chance is {chance}.",
        unresolved="Whether {subject} beats chance",
        measured=": the best held-out {best.quality_name} is {best.quality}, chance is {chance}.",
    ),
)
