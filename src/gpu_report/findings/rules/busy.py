"""Whether kernels are active for more of the step in the fastest variant than in the baseline, by their traces.

GPU utilization as NVML gives it is no help here: its windows are longer than the timed epochs of a small training.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, why_missing
from gpu_report.findings.rules.any_axis import NOTHING_TO_COMPARE
from gpu_report.findings.rules.optimization import for_speed
from gpu_report.findings.rules.parts import of_one_run
from gpu_report.findings.scope import CPU, Group, Scope
from gpu_report.tables.bundle import rows_of

BUSIER_BY: Final = 0.05
_TABLE: Final = "step_shares"


def _busier(scope: Scope, *, asked_of: Callable[[Group], Group | None]) -> Iterable[Outcome]:
    profiled = {row["variant"]: row for row in rows_of(scope.tables.step_shares)}
    groups = [group for one in scope.groups if (group := asked_of(one)) is not None]
    return [_busier_in(group, profiled) for group in groups if any(row["device"] != CPU for row in group.rows)]


def _busier_in(group: Group, profiled: dict[str, Row]) -> Outcome:
    baseline = group.baseline
    if baseline is None or not group.others:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    best = max(group.others, key=lambda row: float(row["throughput_per_s"]))
    busy = [
        (row, of_one_run(profiled[row["variant"]]["device_busy_share"]))
        for row in (baseline, best)
        if row["variant"] in profiled
    ]
    if len(busy) < 2 or not all(share.known for _, share in busy):
        return not_measured(group.title, "no trace tells how long kernels were active", key=group.key)
    before, after = (share for _, share in busy)
    return Outcome(
        verdict="yes" if after.value - before.value > BUSIER_BY else "no",
        words={
            "subject": group.title,
            "best": group.value_in_words(best),
            "baseline": group.value_in_words(baseline),
            "before": phrases.percent(_in_percent(before), short=True),
            "after": phrases.percent(_in_percent(after)),
        },
        evidence=tuple(
            phrases.evidence(
                "kernel-active time of the profiled step", phrases.percent(_in_percent(share)), _TABLE, row
            )
            for row, share in busy
        ),
        key=group.key,
    )


def _in_percent(share: Estimate) -> Estimate:
    return share.mapped(lambda part: 100 * part)


def _all_of(group: Group) -> Group:
    return group


_WITH_WORKERS: Final = Rule(
    name="busier",
    about="workers",
    question="Are kernels active for more of the step in what trains fastest?",
    test=partial(_busier, asked_of=_all_of),
    threshold="More means a share of the profiled step that is more than 5 percentage points higher, the line that is"
    " drawn for waiting for data too. Kernel-active time is from one profiled run of each and has no interval.",
    wording=Wording(
        yes="Kernels were active for more of the step when {subject} trained with {best}: for {after} of it,"
        " instead of {before} with {baseline}.",
        no="Kernels were not clearly active for more of the step when {subject} trained with {best}: for"
        " {after} of it, against {before} with {baseline}.",
    ),
)

RULES: Final = (_WITH_WORKERS, replace(_WITH_WORKERS, about="optimization", test=partial(_busier, asked_of=for_speed)))
