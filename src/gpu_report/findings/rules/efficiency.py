"""Questions about ceilings: how near a training comes to what its device reached, and what bounds it (C5)."""

from collections.abc import Iterable
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured
from gpu_report.findings.scope import EFFICIENCY, Scope, device_in_words, key_of

NEAR: Final = 0.5
FAR: Final = 0.1

_BEYOND: Final = (
    " It took less, because the ceiling is that of operations and bytes counted one operator at a time: caches and"
    " fused operations spare the memory some of them."
)
_ROOFS: Final = {"compute": "arithmetic", "memory": "the device's memory"}


def _nearest(scope: Scope) -> Iterable[Outcome]:
    devices = dict.fromkeys(row["device"] for row in scope.rows)
    return [_nearest_on(scope, device) for device in devices]


def _nearest_on(scope: Scope, device: str) -> Outcome:
    rows = [row for row in scope.rows if row["device"] == device and estimate(row, "share_of_peak").known]
    if not rows:
        return not_measured(device_in_words(device), "no share of its peak is known", key=key_of(device))
    nearest, farthest = (choose(rows, key=lambda row: float(row["share_of_peak"])) for choose in (max, min))
    share = estimate(nearest, "share_of_peak")
    side = share.against(NEAR)
    return Outcome(
        verdict="supported" if side == "above" else "contradicted" if side == "below" else "inconclusive",
        words={
            "subject": device_in_words(device),
            "nearest": nearest["variant"],
            "share": phrases.of_column(nearest, "share_of_peak"),
            "precision": nearest["precision"],
            "farthest": farthest["variant"],
            "least": phrases.of_column(farthest, "share_of_peak", short=True),
            "doubt": share.why_unclear("50 %"),
        },
        evidence=phrases.evidence_of_columns(rows, {"share_of_peak": "share of the measured peak"}, scope.table),
        key=key_of(device),
    )


def _bound(scope: Scope) -> Iterable[Outcome]:
    best: dict[tuple[str, str, str], Row] = {}
    for row in scope.rows:
        place = (row["workload"], row["size"], row["device"])
        if row["roof_flops_per_s"] > 0 and row["achieved_flops_per_s"] > 0:
            best[place] = max(best.get(place, row), row, key=lambda one: float(one["achieved_flops_per_s"]))
    found = [_bound_of(scope, row, "_".join(place)) for place, row in best.items()]
    return found or [not_measured("what bounds the trainings", "no variant has a roof")]


def _bound_of(scope: Scope, row: Row, place: str) -> Outcome:
    share = _share_of_roof(row)
    side = share.against(NEAR)
    return Outcome(
        verdict="supported" if side == "above" else "contradicted" if side == "below" else "inconclusive",
        words={
            "subject": row["variant"],
            "roof": _ROOFS[row["roof"]],
            "share": phrases.percent(share.mapped(lambda part: 100 * part)),
            "rest": _rest(share),
            "beyond": _BEYOND if share.value > 1 else "",
            "doubt": share.why_unclear("50 %"),
        },
        evidence=(
            phrases.evidence(
                f"share of the roof, which is that of {_ROOFS[row['roof']]}",
                phrases.percent(share.mapped(lambda part: 100 * part)),
                scope.table,
                row,
            ),
        ),
        key=key_of(place),
    )


def _share_of_roof(row: Row) -> Estimate:
    """With the interval of the throughput alone; that of the ceilings is narrower by far."""
    roof = float(row["roof_flops_per_s"])
    return estimate(row, "achieved_flops_per_s").mapped(lambda achieved: achieved / roof)


def _rest(share: Estimate) -> str:
    if share.against(FAR) == "below":
        return (
            "Nearly all of its time goes by with neither at its ceiling, as when starting operations, the host or"
            " waiting for data bounds a step"
        )
    return (
        "The rest goes to operations that reach neither ceiling, to gaps between them, or to waiting for data; these"
        " numbers do not tell which"
    )


RULES: Final = (
    Rule(
        name="nearest",
        about=EFFICIENCY,
        question="Does any training reach half of the device's measured peak?",
        test=_nearest,
        threshold="Half of the rate of a large matrix product in the same precision, intervals included: beyond it, no"
        " change of the program that keeps its arithmetic can make it twice as fast.",
        wording=Wording(
            supported="{subject} is used well by {nearest}, which reached {share} of the measured peak in {precision};"
            " {farthest} reached least, {least}.",
            contradicted="No training came near the measured peak of {subject}: {nearest} reached most, {share} of that"
            " in {precision}, and {farthest} least, {least}.",
            inconclusive="Whether a training reaches half of the measured peak of {subject} stays open, because"
            " {doubt}: {nearest} reached {share} of that in {precision}.",
        ),
    ),
    Rule(
        name="bound",
        about=EFFICIENCY,
        question="Do arithmetic or memory bound the best variant of each workload?",
        test=_bound,
        threshold="They do if its roof, the lower of the two ceilings, accounts for at least half of its time, the"
        " interval of the throughput included. Below a tenth, nine tenths of the time go by with neither at its"
        " ceiling.",
        wording=Wording(
            supported="The ceiling of {roof} bounds {subject}: there a step would take {share} of the time that it"
            " took.{beyond}",
            contradicted="No ceiling bounds {subject}: at the lower one, that of {roof}, a step would take {share} of"
            " the time that it took. {rest}.",
            inconclusive="Whether the ceiling of {roof} bounds {subject} stays open, because {doubt}: there a step"
            " would take {share} of the time that it took.",
        ),
    ),
)
