"""Questions about power: does speed save energy, and was the accelerator held back while it was measured (C4, C8)."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, estimate
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.optimization import asked_for_speed
from gpu_report.findings.scope import ENERGY, Group, Scope
from gpu_report.tables.marks import MEANINGS, marks_in

HELD_BACK: Final = ("throttled", "power capped", "clock drift", "shared device")
"""Marks that tell of anything that lowered or moved the accelerator's speed."""

_NO_ENERGY: Final = "no two variants ran long enough for the driver's counter of energy"


def _saves(group: Group) -> Outcome | None:
    """None where no driver tells energy, as on a CPU."""
    baseline = group.baseline
    known = [row for row in group.measured if estimate(row, "energy_per_sample_j").known]
    others = [row for row in known if not row["is_baseline"] and row["throughput_per_s"] > 0]
    if not any(row["power_w"] > 0 for row in group.rows):
        return None
    if baseline is None or baseline not in known or not others:
        return not_measured(group.title, why_missing(group.rows, _NO_ENERGY), key=group.key)
    fastest = max(others, key=lambda row: float(row["throughput_per_s"]))
    ratio = estimate(fastest, "energy_per_sample_j").over(estimate(baseline, "energy_per_sample_j"))
    if not ratio.known:
        return not_measured(group.title, _NO_ENERGY, key=group.key)
    least = min(known, key=lambda row: float(row["energy_per_sample_j"]))
    side = ratio.against(1.0)
    return Outcome(
        verdict="yes" if side == "below" else "no" if side == "above" else "not resolved",
        words={
            "subject": group.title,
            "fastest": f"{group.value_in_words(fastest)}, {_rank(fastest, group)}",
            "energy": phrases.of_column(fastest, "energy_per_sample_j"),
            "baseline": group.value_in_words(baseline),
            "before": phrases.of_column(baseline, "energy_per_sample_j", short=True),
            "ratio": phrases.times(ratio, short=True),
            "least": "" if least is fastest else f"; {group.value_in_words(least)} took least",
            "doubt": ratio.why_unclear("1"),
        },
        evidence=phrases.evidence_of_columns(
            known, {"energy_per_sample_j": "energy per sample"}, group.table, first=[fastest, baseline, least]
        ),
        key=group.key,
    )


def _rank(fastest: Row, group: Group) -> str:
    """In which sense it is the fastest: some that are faster end before the counter of energy moves."""
    faster = any(row["throughput_per_s"] > fastest["throughput_per_s"] for row in group.others)
    return "the fastest that ran long enough for the counter of energy" if faster else "the fastest by its mean"


def _held_back(scope: Scope) -> Iterable[Outcome]:
    watched = [row for row in scope.rows if row["power_w"] > 0]
    if not watched:
        return [not_measured("what held the accelerator back", "its driver told nothing")]
    found = {mark: [row for row in watched if mark in marks_in(row["marks"])] for mark in HELD_BACK}
    affected = {mark: rows for mark, rows in found.items() if rows}
    return [
        Outcome(
            verdict="yes" if affected else "no",
            words={
                "marks": "; ".join(
                    f"{phrases.how_many(len(rows), len(watched), 'variant')} {mark} ({MEANINGS[mark]})"
                    for mark, rows in affected.items()
                ),
                "watched": phrases.how_many(len(watched), len(watched), "variant"),
            },
            evidence=tuple(_marks(row) for row in watched if any(row in rows for rows in affected.values())),
        )
    ]


def _marks(row: Row) -> Evidence:
    return phrases.evidence("marks", ", ".join(marks_in(row["marks"])), "variants", row)


_SAVES: Final = Rule(
    name="energy",
    about="precision",
    question="Does the fastest {axis} save energy?",
    test=per_group(_saves),
    threshold="It does if the ratio of the accelerator's energy per sample is below 1 with the most and the least that"
    " both intervals allow. The energy of the host is not in it.",
    wording=Wording(
        yes="{subject} took less energy with {fastest}: {energy} per sample, {ratio} the {before}"
        " with {baseline}{least}.",
        no="{subject} took more energy with {fastest}: {energy} per sample, {ratio} the {before}"
        " with {baseline}{least}.",
        unresolved="Whether {subject} takes less energy with {fastest}, is not resolved, because {doubt}:"
        " {energy} per sample, against {before} with {baseline}.",
    ),
)

RULES: Final = (
    _SAVES,
    replace(_SAVES, about="optimization", test=per_group(asked_for_speed(_saves))),
    Rule(
        name="held_back",
        about=ENERGY,
        question="Was the accelerator held back or shared while it was measured?",
        test=_held_back,
        threshold="It was if one variant carries a mark that says so. Under a cap on power a device works as it always"
        " does under full load; heat and other programs make its times unfit for a decision.",
        wording=Wording(
            yes="Marked were {marks}.",
            no="Nothing held the accelerator back: no mark of {watched} that its driver was watched with"
            " tells of heat, a cap on power, moving clocks or other programs.",
        ),
    ),
)
