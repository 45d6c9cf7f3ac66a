"""Questions about custom training loops of a workload.

Which is fastest, does fusion help, are all exact, which device is faster?
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from gpu_report.answers.estimate import ratio_of
from gpu_report.answers.finding import Verdict
from gpu_report.answers.phrases import (
    CPU,
    evidence,
    evidence_of_columns,
    how_many,
    shown,
    times,
)
from gpu_report.answers.question import (
    Answer,
    decided,
    missing,
    not_measured,
    question,
    why_missing,
)
from gpu_report.answers.questions import axes
from gpu_report.answers.scope import OWN_LOOPS, Scope, groups_beside, key_of
from gpu_report.glossary import Row
from gpu_report.printing.number_format import count, quantity
from gpu_report.tables.bundle import best_of_each, grouped, rows_of
from gpu_report.tables.marks import marks_in
from gpu_report.words import device_in_words, listed, optimization_in_words

MOST_ERROR: Final = 1e-5

_TABLE: Final = "own_loops"
_OPTIMIZATION: Final = OWN_LOOPS + "optimization"
_FUSED: Final = (("fusedstep", "separate"), ("openmp", "none"), ("compile", "none"))
"""Loops that read each point once in an iteration, with what they fuse; the first pair that was
measured is compared.
"""


@question("Which loop trains fastest?", _OPTIMIZATION)
def best(scope: Scope) -> Iterator[Answer]:
    """Another loop is faster if the whole interval of its speedup over the baseline is above 1, and
    the difference is significant among the experiment's comparisons (Holm). On a tie the loop with
    the fewest optimizations is named.
    """
    for answer in axes.best(scope):
        yield replace(answer, advice="")  # a reader's workload does not have these loops


@question("Is a fused iteration faster?", _OPTIMIZATION)
def fusion(scope: Scope) -> Iterator[Answer]:
    """It is if the ratio of the throughputs is above 1, intervals included. Only the first pair of
    a fused and a separate loop that was measured is compared.
    """
    for group in groups_beside(scope, _TABLE):
        rows = {row["options"]: row for row in group.measured if "pass_us" in row}
        pairs = [(rows[fused], rows[apart]) for fused, apart in _FUSED if {fused, apart} <= {*rows}]
        if not pairs:
            yield missing(group)
            continue
        fused, apart = pairs[0]
        ratio = ratio_of("throughput_per_s")(fused, apart)
        # What a compiler makes of an iteration, and moves in it, is not known.
        columns = {"work_per_pass": "launches"}
        if fused["options"] != "compile":
            columns["bytes_per_point"] = "bytes per point"
        less = [
            f"{quantity(fused[column]).plain()} {what} instead of {quantity(apart[column]).plain()}"
            for column, what in columns.items()
            if not math.isnan(fused[column] + apart[column])
        ]
        less_work = f"; it takes {listed(less)}" if less else ""
        yield decided(
            group,
            ratio,
            yes=f"Fusion made {group.title} faster",
            no=f"Fusion made {group.title} slower",
            whether=f"fusion makes {group.title} faster",
            measured=f": an iteration took {shown(fused, 'pass_us', short=True)} with "
            f"{group.words(fused)} and {shown(apart, 'pass_us', short=True)} with "
            f"{group.words(apart)}, {times(ratio)} the throughput{less_work}.",
            evidence=evidence_of_columns(
                [fused, apart], {"pass_us": "time of an iteration"}, _TABLE
            ),
        )


def _by_workload(scope: Scope) -> Iterator[tuple[list[Row], str, str]]:
    """The rows of each workload, its title, and its key, which is empty where there is one."""
    by_name = grouped(scope.rows, lambda row: row["workload"])
    for name, rows in by_name.items():
        yield rows, rows[0]["workload_title"], key_of(name) if len(by_name) > 1 else ""


@question("Do all loops agree with float64?", _OPTIMIZATION)
def exact(scope: Scope) -> Iterator[Answer]:
    """They do if the parameters and all losses of the last training of every process are within
    1e-5, relative, of the same training in float64. float32 has seven digits; how many of them a
    sum over millions of points costs depends on the order of addition. Every loop of the workload
    counts, whichever experiment it is in, if it has a reference.
    """
    variants = {row["variant"]: row for row in rows_of(scope.tables.variants)}
    loops = [
        {**variants[row["variant"]], **row}
        for row in rows_of(scope.tables.own_loops)
        if not row["is_bound"]
    ]
    for of_workload, title, key in _by_workload(scope):
        rows = [
            row
            for row in loops
            if row["workload"] == of_workload[0]["workload"]
            and (_error(row) < math.inf or "diverged" in marks_in(row["marks"]))
        ]
        if not rows:
            reason = why_missing(of_workload, "no loop was compared with a reference")
            yield not_measured(title, reason, key=key)
            continue
        rows.sort(key=_error, reverse=True)
        beyond = [row for row in rows if not _error(row) < MOST_ERROR]
        agreeing = how_many(len(rows) - len(beyond), len(rows), "configuration")
        ending = f"; the largest relative error is {_error_in_words(rows[0])}."
        if beyond:
            errors = "; ".join(map(_error_in_words, beyond))
            ending = f". The relative error of the others is not below 1e-5: {errors}."
        yield Answer(
            verdict="no" if beyond else "yes",
            statement=f"{title} agrees with float64 in {agreeing}{ending}",
            subject=title,
            evidence=[
                evidence("relative error against float64", _error_alone(row), _TABLE, row)
                for row in rows
            ],
            key=key,
        )


def _error(row: Row) -> float:
    """Infinite for a training without one, because it diverged or was not compared."""
    return math.inf if math.isnan(row["reference_error"]) else float(row["reference_error"])


def _error_alone(row: Row) -> str:
    return "not finite" if _error(row) == math.inf else quantity(_error(row)).plain()


def _error_in_words(row: Row) -> str:
    where = f"{device_in_words(row['device'])} over {count(row['points']).plain()} points"
    return f"{_error_alone(row)} for {optimization_in_words(row['optimization'])} on {where}"


@question(
    "Is the GPU faster than the CPU with the fastest loop of each?",
    _OPTIMIZATION,
    OWN_LOOPS + "batch_size",
)
def devices(scope: Scope) -> Iterator[Answer]:
    """It is if the ratio of the throughputs is above 1, intervals included, at each number of
    points that both trained.
    """
    for rows, title, key in _by_workload(scope):
        pairs = _fastest_pairs([row for row in rows if row["status"] == "ok"])
        if pairs:
            yield _devices(pairs, title, key, scope.table)
        elif _fastest_pairs(rows):
            yield not_measured(title, why_missing(rows, "no size was trained on two"), key=key)


def _fastest_pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """At each number of points that both have, the fastest of the CPU and that of the
    accelerators.
    """
    sides = (
        [row for row in rows if row["device"] == CPU],
        [row for row in rows if row["device"] != CPU],
    )
    cpu, others = (
        {row["batch_size"]: row for row in best_of_each(side, "throughput_per_s", "batch_size")}
        for side in sides
    )
    return [(cpu[points], others[points]) for points in sorted(cpu.keys() & others.keys())]


def _devices(pairs: Sequence[tuple[Row, Row]], title: str, key: str, table: str) -> Answer:
    ratios = [ratio_of("throughput_per_s")(other, cpu) for cpu, other in pairs]
    points = [f"over {count(cpu['batch_size']).plain()} points" for cpu, _ in pairs]
    sides = [ratio.against(1.0) for ratio in ratios]
    names = list({device_in_words(other["device"]) for _, other in pairs})
    device = names[0] if len(names) == 1 else "an accelerator"
    fastest = "with the fastest loop of each"
    verdict: Verdict = "yes"
    statement = f"{fastest}, {device} was faster than the CPU for {title}"
    if "below" in sides:
        verdict = "no"
        statement = f"{fastest}, {device} was not always faster than the CPU for {title}"
    elif "unclear" in sides:
        verdict, first = "too close to call", sides.index("unclear")
        statement = (
            f"Whether {device} is faster than the CPU for {title} {fastest} is too close to call, "
            f"because {points[first]}, {ratios[first].why_unclear(1.0, '1')}"
        )
    factors = "; ".join(
        f"{times(ratio, short=True)} {where} ({optimization_in_words(other['options'])} against "
        f"{optimization_in_words(cpu['options'])})"
        for (cpu, other), ratio, where in zip(pairs, ratios, points, strict=True)
    )
    return Answer(
        verdict=verdict,
        statement=f"{statement}: {factors}.",
        subject=title,
        evidence=evidence_of_columns(
            [row for pair in pairs for row in pair], {"throughput_per_s": "throughput"}, table
        ),
        key=key,
    )
