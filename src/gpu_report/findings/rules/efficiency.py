"""Questions about ceilings: how near a training comes to what its device reached, and what bounds it (C5)."""

from collections.abc import Iterable, Sequence
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, estimate, listed
from gpu_report.findings.rule import VERDICT_OF, Outcome, Rule, Wording, not_measured
from gpu_report.findings.scope import EFFICIENCY, Scope, described, device_in_words, key_of, model_in_words

NEAR: Final = 0.5
FAR: Final = 0.1

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
        verdict=VERDICT_OF[side],
        words={
            "subject": device_in_words(device),
            "nearest": described(nearest),
            "share": phrases.of_column(nearest, "share_of_peak"),
            "precision": nearest["precision"],
            "farthest": described(farthest),
            "least": phrases.of_column(farthest, "share_of_peak", short=True),
            "doubt": share.why_unclear("50 %"),
        },
        evidence=phrases.evidence_of_columns(
            rows, {"share_of_peak": "share of the measured peak"}, scope.table, first=[nearest, farthest]
        ),
        key=key_of(device),
    )


def _bound(scope: Scope) -> Iterable[Outcome]:
    best: dict[tuple[str, str, str], Row] = {}
    for row in scope.rows:
        place = (row["device"], row["workload"], row["size"])
        if row["roof_flops_per_s"] > 0 and row["achieved_flops_per_s"] > 0:
            best[place] = max(best.get(place, row), row, key=_within_roof)
    devices = dict.fromkeys(device for device, _, _ in best)
    found = [_bound_on(scope, device, [row for row in best.values() if row["device"] == device]) for device in devices]
    return found or [not_measured("what bounds the trainings", "no variant has a roof")]


def _within_roof(row: Row) -> float:
    """Its share of the roof; none where that is no roof of what it did."""
    return 0.0 if passes_roof(row) else share_of_roof(row).value


def _bound_on(scope: Scope, device: str, rows: Sequence[Row]) -> Outcome:
    shares = [(row, share_of_roof(row)) for row in rows if not passes_roof(row)]
    bound = [row for row, share in shares if share.against(NEAR) == "above"]
    unclear = [share for _, share in shares if share.against(NEAR) == "unclear"]
    return Outcome(
        verdict="yes" if bound else "not resolved" if unclear or not shares else "no",
        words={
            "device": device_in_words(device),
            "bound": _models(bound),
            "shares": "; ".join(_shares_of(roof, shares) for roof in dict.fromkeys(row["roof"] for row, _ in shares)),
            "rest": _rest(shares, beyond=[row for row in rows if passes_roof(row)]),
            "doubt": unclear[0].why_unclear("50 %") if unclear else "each took less time than its roof allows",
        },
        evidence=tuple(
            phrases.evidence(
                f"share of the roof, which is that of {_ROOFS[row['roof']]}",
                phrases.percent(share.mapped(_in_percent)),
                scope.table,
                row,
            )
            for row, share in sorted(shares, key=lambda pair: -pair[1].value)
        ),
        key=key_of(device),
    )


def share_of_roof(row: Row) -> Estimate:
    """Achieved over roof, with the interval of the throughput alone; that of the ceilings is narrower by far."""
    roof = float(row["roof_flops_per_s"])
    return estimate(row, "achieved_flops_per_s").mapped(lambda achieved: min(1.0, achieved / roof))


def passes_roof(row: Row) -> bool:
    """Whether it took less time than its counted work needs, so that this is no roof of what it did."""
    return bool(row["achieved_flops_per_s"] > row["roof_flops_per_s"])


def _in_percent(part: float) -> float:
    return 100 * part


def _models(rows: Iterable[Row]) -> str:
    return listed([model_in_words(row) for row in rows] or ["none"])


def _shares_of(roof: str, shares: Iterable[tuple[Row, Estimate]]) -> str:
    told = [
        f"{model_in_words(row)} {phrases.percent(share.mapped(_in_percent), short=True)}"
        for row, share in shares
        if row["roof"] == roof
    ]
    return f"at that of {_ROOFS[roof]} {', '.join(told)}"


def _rest(shares: Iterable[tuple[Row, Estimate]], *, beyond: Sequence[Row]) -> str:
    """What the shares that are near nothing mean, and what is `beyond` its roof."""
    far = [row for row, share in shares if share.against(FAR) == "below"]
    told = []
    if far:
        told.append(
            f" Nearly all the time of {_models(far)} goes by with neither at its ceiling, as when starting operations,"
            " the host or waiting for data bounds a step."
        )
    if beyond:
        told.append(
            f" Less than the ceiling's time was taken by {_models(beyond)}: the ceiling is that of operations and"
            " bytes counted one operator at a time, and caches and fused operations spare the memory some of them."
        )
    return "".join(told)


RULES: Final = (
    Rule(
        name="nearest",
        about=EFFICIENCY,
        question="Does any training reach half of the device's measured peak?",
        test=_nearest,
        threshold="Half of the rate of a large matrix product in the same precision, intervals included: beyond it, no"
        " change of the program that keeps its arithmetic can make it twice as fast.",
        wording=Wording(
            yes="{subject} is used well by {nearest}, which reached {share} of the measured peak in {precision};"
            " {farthest} reached least, {least}.",
            no="No training came near the measured peak of {subject}: {nearest} reached most, {share} of that"
            " in {precision}, and {farthest} least, {least}.",
            unresolved="Whether a training reaches half of the measured peak of {subject} is not resolved, because"
            " {doubt}: {nearest} reached {share} of that in {precision}.",
        ),
    ),
    Rule(
        name="bound",
        about=EFFICIENCY,
        question="Does arithmetic or memory bound any workload?",
        test=_bound,
        threshold="One does if the roof, the lower of the two ceilings, accounts for at least half of a step's time,"
        " the interval of the throughput included. Below a tenth, nine tenths of the time go by with neither at its"
        " ceiling.",
        wording=Wording(
            yes="A ceiling bounds {bound} on {device}. At its lower ceiling a step would take this part of the"
            " time that it took, in the variant of each workload that comes nearest: {shares}.{rest}",
            no="No ceiling bounds a workload on {device}. At its lower ceiling a step would take this part"
            " of the time that it took, in the variant of each workload that comes nearest: {shares}.{rest}",
            unresolved="Whether a ceiling bounds a workload on {device} is not resolved, because {doubt}. At its lower"
            " ceiling a step would take this part of the time that it took, in the variant of each workload that comes"
            " nearest: {shares}.{rest}",
        ),
    ),
)
