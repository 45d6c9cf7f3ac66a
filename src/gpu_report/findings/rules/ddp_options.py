"""Rules about DistributedDataParallel's own settings: is communication hidden, which setting pays,
what does accumulation save?
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Final

from gpu_report.findings.estimate import Estimate, against_other, ratio_of
from gpu_report.findings.rule import AllOrAny, Comparison, Outcome, Rule, first_two, over_baseline
from gpu_report.findings.rules import axes
from gpu_report.findings.scope import DDP_OPTIONS, Group, Scope, groups_beside, only_difference
from gpu_report.glossary import Row
from gpu_report.study.options import NO_OPTIONS, SEPARATOR, option_names
from gpu_report.tables.bundle import rows_of

HIDDEN_BELOW: Final = 0.05
_LIMIT: Final = f"{100 * HIDDEN_BELOW:g} %"

_TABLE: Final = "communication"
_SEARCH: Final = "unused"


def _exposed(scope: Scope) -> Iterable[Outcome]:
    """Whether much of a step is, with the doubts about the defaults and about their bound."""
    variants = {row["variant"]: row for row in rows_of(scope.tables.variants)}

    def figures(group: Group) -> list[tuple[Row, Estimate]]:
        known = [row for row in group.measured if "bound" in row]
        return [(row, against_other(row, "exposed_share", variants[row["bound"]])) for row in known]

    return AllOrAny(
        groups=lambda scope: [
            replace(group, rows=tuple(row for row in group.rows if row["is_baseline"]))
            for group in groups_beside(scope, _TABLE)
        ],
        figures=figures,
        asks="any",
        side="below",
        limit=HIDDEN_BELOW,
        item="{row.exposed_ms}, {figure:%short} of a step",
        lacking=lambda _: "no training without communication was measured",
        unknown="no training without communication had the same seeds",
        evidence={"exposed_share": "exposed share of the step"},
        more=lambda found: {"doubt": found.pairs[0][1].why_unclear(_LIMIT)},
    )(scope)


def _settings(group: Group) -> list[Row]:
    """The defaults and what sets more than they do, each named by what it adds; the defaults are in
    all of them.
    """
    defaults = next(
        (option_names(row["optimization"]) for row in group.rows if row["is_baseline"]), ()
    )
    return [
        {
            **row,
            "optimization": SEPARATOR.join(name for name in names if name not in defaults)
            or NO_OPTIONS,
        }
        for row in group.rows
        if {*defaults} <= {*(names := option_names(row["optimization"]))}
    ]


def _only(scope: Scope, *, accumulated: bool) -> Iterable[Group]:
    """The groups with the defaults and the settings that accumulate, or those that do not; none
    about these alone.
    """
    for group in scope.groups:
        rows = [
            row
            for row in _settings(group)
            if row["is_baseline"] or (row["accumulation"] > 1) == accumulated
        ]
        if any(not row["is_baseline"] for row in rows):
            yield replace(group, rows=tuple(rows))


def _searched(scope: Scope) -> Iterable[Group]:
    """The groups with what searches for unused parameters and the same without."""
    for group in scope.groups:
        for row, twin in product(group.rows, repeat=2):
            if only_difference(twin, row) == _SEARCH:
                yield replace(group, rows=(twin, row))


RULES: Final = (
    Rule(
        name="hidden",
        about=DDP_OPTIONS,
        question="How much communication is exposed?",
        threshold=f"The limit is {_LIMIT} of a step, intervals included: no setting of DDP can "
        "hide more than what is exposed. That is the step time less that of the same training in "
        "which every rank keeps its own gradients and buffers, process by process.",
        test=_exposed,
        yes=f"Less than {_LIMIT} of a step for {{subject}}: with DDP's defaults {{all}}.",
        no=f"More than {_LIMIT} of a step for {{subject}}: with DDP's defaults {{all}}.",
        unresolved=f"Whether it is less than {_LIMIT} of a step for {{subject}}",
        measured=": with DDP's defaults {all}.",
    ),
    replace(
        axes.BEST,
        name="setting",
        about=DDP_OPTIONS,
        question="Which setting of DDP pays?",
        threshold="It does if the whole interval of the fastest's speedup over DDP's defaults is "
        "above 1, and the difference is significant among the experiment's comparisons (Holm).",
        test=replace(axes.FASTEST, groups=lambda scope: _only(scope, accumulated=False)),
        yes="{subject} trained fastest with {after}: {figure:short} the throughput of the "
        "defaults{rivals}.",
        no="No setting made {subject} faster than DDP's defaults: the next, {after}, reached "
        "{figure} their throughput.",
        unresolved="Whether {subject} trains faster with {after} than with DDP's defaults",
        measured="; it trained {figure} as fast.",
        advice={"yes": "With DistributedDataParallel train {subject} with {after}."},
    ),
    Rule(
        name="search",
        about=DDP_OPTIONS,
        question="Does the search for unused parameters take time?",
        threshold="It does if the whole interval of the throughput with it over that of the same "
        "training without it is below 1. Every step then goes through the graph of the loss, even "
        "where all parameters are used.",
        test=Comparison(
            groups=_searched,
            choose=first_two,
            figure=ratio_of("throughput_per_s"),
            holds="below",
            evidence={"throughput_per_s": "throughput"},
        ),
        yes="{subject} trained more slowly{measured} Switch it off if all are used.",
        no="{subject} did not train more slowly{measured}",
        unresolved="Whether {subject} trains more slowly",
        measured=" with it: {figure:short} the throughput.",
    ),
    Rule(
        name="accumulation",
        about=DDP_OPTIONS,
        question="Does accumulation save memory?",
        threshold="It does if any number of parts needs at least 10 % less peak memory, intervals "
        "included. It cannot save communication here: the batch stays the same, and gradients are "
        "averaged once per step either way.",
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
        yes="{subject} needs less memory in parts: {below}. The whole batch needs "
        "{baseline.memory_peak_mib}: accumulation is worth its time where that does not fit.",
        no="{subject} does not need less memory in parts: {all}. The whole batch needs "
        "{baseline.memory_peak_mib}.",
        unresolved="Whether {subject} needs less memory in parts",
        measured=": {all}, against {baseline.memory_peak_mib} of the whole batch.",
    ),
)
