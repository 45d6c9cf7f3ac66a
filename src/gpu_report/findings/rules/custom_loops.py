"""Rules about custom training loops of a workload.

Which is fastest, does fusion help, are all exact, which device is faster?
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import ratio_of
from gpu_report.findings.phrases import CPU
from gpu_report.findings.rule import (
    Compared,
    Comparison,
    Outcome,
    Rule,
    not_measured,
    why_missing,
)
from gpu_report.findings.rules.axes import BEST, FASTEST
from gpu_report.findings.scope import OWN_LOOPS, Group, Scope, groups_beside, key_of
from gpu_report.glossary import Row
from gpu_report.printing.number_format import count, quantity
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.marks import marks_in
from gpu_report.words import device_in_words, listed, optimization_in_words

MOST_ERROR: Final = 1e-5

_TABLE: Final = "own_loops"
_OPTIMIZATION: Final = OWN_LOOPS + "optimization"
_FUSED: Final = (("fusedstep", "separate"), ("openmp", "none"), ("compile", "none"))
"""Loops that read each point once in a pass, with what they fuse; the first pair that was measured
is compared.
"""


def _groups(scope: Scope) -> list[Group]:
    """The groups, each measured variant with its row of the table of loops; one without is left
    out.
    """
    return [
        replace(
            group,
            rows=tuple(row for row in group.rows if row["status"] != "ok" or "pass_us" in row),
        )
        for group in groups_beside(scope, _TABLE)
    ]


def _apart_and_fused(group: Group) -> tuple[Row, Row] | None:
    rows = {row["options"]: row for row in group.measured}
    return next(
        ((rows[apart], rows[fused]) for fused, apart in _FUSED if {fused, apart} <= rows.keys()),
        None,
    )


def _less_work(compared: Compared) -> dict[str, str]:
    """What the trace and the operators show of the difference, as the end of a sentence.

    What a compiler makes of a pass, and moves in it, is not known.
    """
    fused, apart = compared.after, compared.before
    parts = []
    for column, what in (("work_per_pass", "launches"), ("bytes_per_point", "bytes per point")):
        is_known = column == "work_per_pass" or fused["options"] != "compile"
        if is_known and not math.isnan(fused[column] + apart[column]):
            few, many = (quantity(row[column]).plain() for row in (fused, apart))
            parts.append(f"{few} {what} instead of {many}")
    return {"work": f"; an iteration takes {listed(parts)}" if parts else ""}


def _by_workload(
    scope: Scope, test: Callable[[Scope, str, str, str], Outcome | None]
) -> Iterable[Outcome]:
    """A test of each workload by its name, title and key, which is empty where there is one."""
    titles = {row["workload"]: row["workload_title"] for row in scope.rows}
    found = (
        test(scope, name, title, key_of(name) if len(titles) > 1 else "")
        for name, title in titles.items()
    )
    return [outcome for outcome in found if outcome]


def _exact_of(scope: Scope, workload: str, title: str, key: str) -> Outcome:
    """Of every loop of a workload, whichever experiment it is in; those that have no reference do
    not count.
    """
    variants = {row["variant"]: row for row in rows_of(scope.tables.variants)}
    loops = [
        {**variants[row["variant"]], **row}
        for row in rows_of(scope.tables.own_loops)
        if not row["is_bound"]
    ]
    rows = [
        row
        for row in loops
        if row["workload"] == workload
        and (_error(row) < math.inf or "diverged" in marks_in(row["marks"]))
    ]
    if not rows:
        return not_measured(
            title, why_missing(scope.rows, "no loop was compared with a reference"), key=key
        )
    beyond = [row for row in rows if not _error(row) < MOST_ERROR]
    worst = max((row for row in rows if row not in beyond), key=_error, default=None)
    return Outcome(
        verdict="no" if beyond else "yes",
        fields={
            "subject": title,
            "count": phrases.how_many(len(rows) - len(beyond), len(rows), "configuration"),
            "worst": _error_in_words(worst) if worst else "",
            "beyond": "; ".join(_error_in_words(row) for row in sorted(beyond, key=_error)),
        },
        evidence=tuple(
            phrases.evidence("relative error against float64", _error_alone(row), _TABLE, row)
            for row in sorted(rows, key=_error, reverse=True)
        ),
        key=key,
    )


def _error(row: Row) -> float:
    """Infinite for a training without one, because it diverged or was not compared."""
    return math.inf if math.isnan(row["reference_error"]) else float(row["reference_error"])


def _error_alone(row: Row) -> str:
    return (
        "no finite one"
        if math.isnan(row["reference_error"])
        else quantity(row["reference_error"]).plain()
    )


def _error_in_words(row: Row) -> str:
    where = f"{device_in_words(row['device'])} over {count(row['points']).plain()} points"
    return f"{_error_alone(row)} for {optimization_in_words(row['optimization'])} on {where}"


def _devices_of(scope: Scope, workload: str, title: str, key: str) -> Outcome | None:
    """The fastest loop of each device at each number of points that two trained; None where none
    was asked of two.
    """
    rows = [row for row in scope.rows if row["workload"] == workload]
    pairs = _fastest_pairs([row for row in rows if row["status"] == "ok"])
    if not pairs:
        asked = _fastest_pairs(rows)
        return (
            not_measured(title, why_missing(rows, "no size was trained on two"), key=key)
            if asked
            else None
        )
    ratios = [ratio_of("throughput_per_s")(other, cpu) for cpu, other in pairs]
    unclear = next((ratio for ratio in ratios if ratio.against(1.0) == "unclear"), None)
    accelerators = {other["device"] for _, other in pairs}
    is_below = any(ratio.against(1.0) == "below" for ratio in ratios)
    return Outcome(
        verdict="no" if is_below else "not resolved" if unclear else "yes",
        fields={
            "subject": title,
            "device": device_in_words(accelerators.pop())
            if len(accelerators) == 1
            else "an accelerator",
            "pairs": "; ".join(
                f"{phrases.times(ratio, short=True)} over {count(cpu['batch_size']).plain()} "
                f"points ({optimization_in_words(other['options'])} against "
                f"{optimization_in_words(cpu['options'])})"
                for (cpu, other), ratio in zip(pairs, ratios, strict=True)
            ),
            "doubt": unclear.why_unclear("1") if unclear else "",
        },
        evidence=phrases.evidence_of_columns(
            [row for pair in pairs for row in pair], {"throughput_per_s": "throughput"}, scope.table
        ),
        key=key,
    )


def _fastest_pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """At each number of points that both have, the fastest of the CPU and that of the
    accelerators.
    """
    pairs = []
    for points in sorted({row["batch_size"] for row in rows}):
        alike = [row for row in rows if row["batch_size"] == points]
        sides = [
            [row for row in alike if (row["device"] == CPU) is on_cpu] for on_cpu in (True, False)
        ]
        if all(sides):
            cpu, other = (
                max(side, key=lambda row: float(row["throughput_per_s"])) for side in sides
            )
            pairs.append((cpu, other))
    return pairs


_MOST_ERROR_IN_WORDS: Final = f"{MOST_ERROR:.0e}".replace("e-0", "e-")
_ABOVE_ONE: Final = "It is if the ratio of the throughputs is above 1, intervals included."
_DEVICES: Final = Rule(
    name="devices",
    about=_OPTIMIZATION,
    question="Is the GPU faster than the CPU with the fastest loop of each?",
    threshold=_ABOVE_ONE,
    test=partial(_by_workload, test=_devices_of),
    yes="With the fastest loop of each, {device} was faster than the CPU for {subject}{measured}",
    no="With the fastest loop of each, {device} was not always faster than the CPU for "
    "{subject}{measured}",
    unresolved="Whether {device} is faster than the CPU for {subject} with the fastest loop of "
    "each",
    measured=": {pairs}.",
)

RULES: Final = (
    replace(
        BEST, about=_OPTIMIZATION, question="Which loop trains fastest?", test=FASTEST, advice={}
    ),
    Rule(
        name="fusion",
        about=_OPTIMIZATION,
        question="Is a fused iteration faster?",
        threshold=_ABOVE_ONE,
        test=Comparison(
            groups=_groups,
            choose=_apart_and_fused,
            figure=ratio_of("throughput_per_s"),
            evidence={"pass_us": "time of a pass"},
            of_both=True,
            more=_less_work,
        ),
        yes="Fusion made {subject} faster{measured}",
        no="Fusion made {subject} slower{measured}",
        unresolved="Whether fusion makes {subject} faster",
        measured=": with {after} an iteration took {after.pass_us:short}, with {before} "
        "{before.pass_us:short}, {figure} its throughput{work}.",
    ),
    Rule(
        name="exact",
        about=_OPTIMIZATION,
        question="Do all loops agree with float64?",
        threshold="They do if the parameters and all losses of the last training of every process "
        f"are within {_MOST_ERROR_IN_WORDS}, relative, of the same training in float64. float32 "
        "has seven digits; how many of them a sum over millions of points costs depends on the "
        "order of addition.",
        test=partial(_by_workload, test=_exact_of),
        yes="{subject}: {count} agree with float64; the largest relative error is {worst}.",
        no="{subject}: {count} agree with float64. The relative error of the others is not below"
        f" {_MOST_ERROR_IN_WORDS}: {{beyond}}.",
    ),
    _DEVICES,
    replace(_DEVICES, about=OWN_LOOPS + "batch_size"),
)
