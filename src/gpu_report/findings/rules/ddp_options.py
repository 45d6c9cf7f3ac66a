"""Rules about DistributedDataParallel's own settings: is communication hidden, which setting pays, is accumulation
worth it?
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gpu_report.findings.estimate import Row, estimate, ratio_of
from gpu_report.findings.rule import AllOrAny, Rule, over_baseline
from gpu_report.findings.rules import axes
from gpu_report.findings.scope import DDP_OPTIONS, Group, Scope, groups_beside

HIDDEN_BELOW: Final = 0.05

_TABLE: Final = "communication"


def _with_defaults(scope: Scope) -> Iterable[Group]:
    """The groups with the columns of communication, of which the defaults are asked."""
    return [
        replace(group, rows=tuple(row for row in group.rows if row["is_baseline"]))
        for group in groups_beside(scope, _TABLE)
    ]


def _is_accumulated(row: Row) -> bool:
    return bool(row["accumulation"] > 1)


def _only(scope: Scope, *, accumulated: bool) -> Iterable[Group]:
    """The groups with the defaults and the settings that accumulate, or those that do not; none about these alone."""
    for group in scope.groups:
        rows = tuple(row for row in group.rows if row["is_baseline"] or _is_accumulated(row) == accumulated)
        if any(not row["is_baseline"] for row in rows):
            yield replace(group, rows=rows)


RULES: Final = (
    Rule(
        name="hidden",
        about=DDP_OPTIONS,
        question="How much communication is exposed?",
        threshold="Hardly any is less than 5 % of a step, intervals included: no setting of DDP could gain more than"
        " what is exposed. That is the step's time without the time that it takes when every rank keeps its own"
        " gradients, process by process.",
        test=AllOrAny(
            groups=_with_defaults,
            figures=lambda group: [
                (row, estimate(row, "exposed_share")) for row in group.measured if "exposed_share" in row
            ],
            side="below",
            limit=HIDDEN_BELOW,
            limit_in_words="5 %",
            item="{row.exposed_ms} of a step of {row.step_wall_ms:short}",
            lacking=lambda _: "no training without communication was measured",
            unknown="no training without communication began with the same seeds",
            evidence={"exposed_share": "exposed share of the step"},
            verdict=lambda figures: "yes" if figures.on("below") else "no" if figures.on("above") else "not resolved",
        ),
        yes="Hardly any for {subject}: with DDP's defaults {all}.",
        no="Much for {subject}: with DDP's defaults {all}.",
        unresolved="Whether much of it is exposed for {subject}",
        measured=": with DDP's defaults {all}.",
    ),
    replace(
        axes.BEST,
        name="setting",
        about=DDP_OPTIONS,
        question="Which setting of DDP pays?",
        threshold="It does if the whole interval of the fastest's speedup over DDP's defaults is above 1, and the"
        " difference is significant among the experiment's comparisons (Holm).",
        test=replace(axes.FASTEST, groups=lambda scope: _only(scope, accumulated=False)),
        yes="{subject} trained fastest with {after}: {figure} the throughput with DDP's defaults{rivals}.",
        no="No setting made {subject} faster than DDP's defaults: the next, {after}, reached {figure} their throughput.",
        unresolved="Whether {subject} trains faster with {after} than with DDP's defaults",
        measured="; it trained {figure} as fast.",
        advice={"yes": "With DistributedDataParallel train {subject} with {after}."},
    ),
    Rule(
        name="accumulation",
        about=DDP_OPTIONS,
        question="Is accumulation worth it?",
        threshold="It is if any number of parts takes at least 10 % less memory at the peak, intervals included. It"
        " cannot save communication here: the batch stays the same, and gradients are averaged once in a step either"
        " way.",
        test=AllOrAny(
            groups=lambda scope: _only(scope, accumulated=True),
            asks="any",
            side="below",
            limit=1 - axes.MEMORY_TOLERANCE,
            limit_in_words="10 % less",
            figures=over_baseline(ratio_of("memory_peak_mib")),
            item="{row} {row.memory_peak_mib:short} at {row.speedup:short} the throughput",
            evidence={"memory_peak_mib": "peak memory", "speedup": "speedup"},
        ),
        yes="{subject} needs less memory in parts: {below}. The whole batch needs {baseline.memory_peak_mib}.",
        no="{subject} needs no less memory in parts: {all}. The whole batch needs {baseline.memory_peak_mib}.",
        unresolved="Whether {subject} needs less memory in parts",
        measured=": {all}, against {baseline.memory_peak_mib} of the whole batch.",
    ),
)
