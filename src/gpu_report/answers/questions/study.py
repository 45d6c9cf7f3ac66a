"""The question about the study as a whole: does each workload learn?"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from gpu_report.answers.estimate import Side, estimate, falls, is_share
from gpu_report.answers.finding import STUDY, Verdict
from gpu_report.answers.phrases import evidence_of_columns, how_many, shown
from gpu_report.answers.question import Answer, not_measured, question
from gpu_report.answers.scope import Scope, key_of
from gpu_report.glossary import Row
from gpu_report.printing.number_format import quantity
from gpu_report.tables.bundle import grouped
from gpu_report.words import described

ABOVE_CHANCE: Final = 0.05
PERFECT: Final = 0.995


@question(
    "Does the workload beat chance, and could its quality differ between configurations?", STUDY
)
def learns(scope: Scope) -> Iterator[Answer]:
    """It does if the held-out quality of a configuration, interval included, is above chance by 5 %
    of the way from chance to perfect (better than chance by 5 %, where the metric falls as models
    get better or is not from 0 to 1), and not every configuration reaches 0.995: a task that all
    solve shows no difference.
    """
    for rows in grouped(scope.rows, lambda row: row["workload"]).values():
        title, key = rows[0]["workload_title"], key_of(rows[0]["workload"])
        known = [row for row in rows if row["status"] == "ok" and not math.isnan(row["quality"])]
        if not known:
            yield not_measured(title, "none of its configurations has a quality", key=key)
        elif math.isnan(known[0]["quality_chance"]):
            yield not_measured(title, "its class does not say what chance reaches", key=key)
        else:
            yield _learns(title, key, known, scope.table)


def _learns(title: str, key: str, rows: Sequence[Row], table: str) -> Answer:
    chance, falling = float(rows[0]["quality_chance"]), falls(rows[0])
    is_from_0_to_1 = 0 <= chance <= 1 and all(map(is_share, rows))
    way = 1 - chance if is_from_0_to_1 else -abs(chance) if falling else abs(chance)
    limit = chance + ABOVE_CHANCE * way
    beats: Side = "below" if way < 0 else "above"
    sides = [estimate(row, "quality").against(limit) for row in rows]
    best = (min if way < 0 else max)(rows, key=lambda row: float(row["quality"]))
    metric = f"held-out {best['quality_name']}"
    beats_chance = f"beats chance ({quantity(chance).plain()})"
    is_solved = is_from_0_to_1 and all(row["quality"] >= PERFECT for row in rows)
    verdict: Verdict = "no"
    if not is_solved and beats in sides:
        verdict = "yes"
    elif not is_solved and "unclear" in sides:
        verdict = "too close to call"
    above = how_many(sides.count(beats), len(rows), "configuration")
    fault = "every configuration solves the task and" if is_solved else "no configuration"
    statement = {
        "yes": f"{title} {beats_chance} in {above}",
        "no": f"{title} shows no difference in quality: {fault} {beats_chance}",
    }.get(
        verdict,
        f"Whether {title} {beats_chance} is too close to call, because "
        + estimate(best, "quality").why_unclear(limit, "chance"),
    )
    return Answer(
        verdict=verdict,
        statement=f"{statement}; the best {metric}, that of {described(best)}, is "
        f"{shown(best, 'quality')}.",
        subject=title,
        evidence=evidence_of_columns(rows, {"quality": metric}, table),
        key=key,
    )
