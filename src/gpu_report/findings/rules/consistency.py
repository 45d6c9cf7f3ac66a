"""Whether CPU and accelerator learn the same numbers (A4)."""

import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, why_missing
from gpu_report.findings.rules.device import NO_ACCELERATOR
from gpu_report.findings.scope import CPU, Scope, device_in_words, first_with, key_of, titled
from gpu_report.tables.bundle import rows_of
from gpu_report.variant import Variant

AGREE_WITHIN_PERCENT: Final = 1.0

_SHORT_KEY: Final = ("workload", "size", "batch_size", "device")


def _consistency(scope: Scope) -> Iterable[Outcome]:
    """Loops that a workload brings are held against float64 instead."""
    if len({row["device"] for row in scope.rows}) < 2:
        return [not_measured("the agreement of CPU and accelerator", NO_ACCELERATOR)]
    compared = [row for row in rows_of(scope.tables.consistency) if not math.isnan(row["difference_percent"])]
    return [
        _agreement(scope, row, [other for other in compared if other["variant"] == row["variant"]])
        for row in scope.rows
        if row["device"] != CPU and not row["begins_anew"]
    ]


def _key(scope: Scope, row: Row) -> str:
    """Short where that tells the pair from the others, else the whole name of the accelerator's variant."""
    alike = [other for other in scope.rows if all(other[name] == row[name] for name in _SHORT_KEY)]
    return key_of("_".join(str(row[name]) for name in _SHORT_KEY) if len(alike) == 1 else row["variant"])


def _twin(row: Row) -> tuple[str, ...]:
    return tuple(str(row[field.name]) for field in fields(Variant) if field.name != "device")


def _agreement(scope: Scope, row: Row, compared: list[Row]) -> Outcome:
    on_accelerators = [other for other in scope.rows if other["device"] != CPU]
    title, key = titled(row, on_accelerators, leave_out="device"), _key(scope, row)
    if row["status"] != "ok" or not compared:
        twins = [other for other in scope.rows if _twin(other) == _twin(row)]
        alone = "the CPU was not trained for as many steps" if len(twins) < 2 else "no two of its processes compare"
        return not_measured(title, why_missing(twins, alone), key=key)
    worst = max(compared, key=lambda other: float(other["difference_percent"]))
    difference = float(worst["difference_percent"])
    spread = _spread_over_seeds_percent(scope, row, worst)
    agrees = difference <= AGREE_WITHIN_PERCENT
    within_spread = difference <= spread
    return Outcome(
        verdict="yes" if agrees else "not resolved" if within_spread else "no",
        words={
            "subject": title,
            "device": device_in_words(row["device"]),
            "reference": device_in_words(worst["reference_device"]),
            "difference": phrases.percent_alone(difference),
            "where": f"{worst['metric'].replace('_', ' ')} after epoch {worst['epoch'] + 1}",
            "spread": phrases.percent_alone(spread),
        },
        evidence=tuple(
            phrases.evidence(
                f"largest difference in {metric.replace('_', ' ')}",
                phrases.percent_alone(max(r["difference_percent"] for r in compared if r["metric"] == metric)),
                "consistency",
                row,
            )
            for metric in dict.fromkeys(other["metric"] for other in compared)
        ),
        key=key,
    )


def _spread_over_seeds_percent(scope: Scope, row: Row, worst: Row) -> float:
    """How far the seeds alone move the same figure on the reference device: its range over processes, of the median.

    NaN with one process, where no spread is known.
    """
    twins = [other for other in scope.rows if _twin(other) == _twin(row)]
    reference = first_with(twins, device=worst["reference_device"])
    frame = scope.tables.convergence
    values = frame[(frame["variant"] == (reference or {}).get("variant")) & (frame["epoch"] == worst["epoch"])][
        worst["metric"]
    ].dropna()
    middle = float(values.median()) if len(values) > 1 else math.nan
    return 100 * float(values.max() - values.min()) / abs(middle) if middle else math.nan


RULES: Final = (
    Rule(
        name="consistency",
        about="device",
        question="Do CPU and accelerator learn the same?",
        test=_consistency,
        threshold="The same means that losses and quality differ by 1 % at most in every epoch, for the same seeds."
        " Sums in another order change the last digits and training makes the change grow, so a larger difference"
        " that another seed would make as well decides nothing.",
        wording=Wording(
            yes="{subject} learnt the same on {device} as on {reference}: the largest difference is {difference}"
            " ({where}).",
            no="{subject} learnt differently on {device} than on {reference}: the largest difference is"
            " {difference} ({where}), more than other seeds make ({spread}).",
            unresolved="{subject} differs by up to {difference} ({where}) between {device} and {reference}, which is"
            " more than 1 % but no more than what other seeds make ({spread}).",
        ),
    ),
)
