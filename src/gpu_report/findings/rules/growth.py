"""Whether memory grows along an axis that makes the work larger: the batch size (E2) and the model's size (E3)."""

from dataclasses import replace
from typing import Final

from gpu_report.findings.rule import Outcome, Rule, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import MEMORY_THRESHOLD, MEMORY_WORDING, memory_outcome
from gpu_report.findings.scope import Group


def _memory(group: Group) -> Outcome:
    rows = group.measured
    if len(rows) < 2:
        return not_measured(group.title, why_missing(group.rows, "it takes two variants"), key=group.key)
    ordered = sorted(rows, key=lambda row: float(row["parameters"])) if group.axis == "size" else rows
    return memory_outcome(group, ordered[0], ordered[-1])


_WITH_BATCH_SIZE: Final = Rule(
    name="memory",
    about="batch_size",
    question="Does memory grow with the {axis}?",
    test=per_group(_memory),
    threshold=MEMORY_THRESHOLD,
    wording=MEMORY_WORDING,
)

RULES: Final = (_WITH_BATCH_SIZE, replace(_WITH_BATCH_SIZE, about="size"))
