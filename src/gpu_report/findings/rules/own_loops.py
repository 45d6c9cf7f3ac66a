"""Questions about a workload's own loops: does fusing pay, what is left without launches, do all learn the same?"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, estimate, listed
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import BEST, NOTHING_TO_COMPARE, best
from gpu_report.findings.scope import OWN_LOOPS, Group, Scope, device_in_words, optimization_in_words
from gpu_report.options import OPTIONS
from gpu_report.tables.bundle import rows_of

MOST_ERROR: Final = 1e-5

_FUSED: Final = (("fusedstep", "separate"), ("openmp", "none"), ("compile", "none"))
"""Loops that read each point once in a pass, with what they fuse; the first pair that was measured is told."""
_ALL_PASSES_AT_ONCE: Final = "persistent"
TABLE: Final = "own_loops"


def _of_loops(scope: Scope, group: Group) -> dict[str, Row]:
    """The measured variants of a group with what the table of loops says of them, by option."""
    loops = {row["variant"]: row for row in rows_of(scope.tables.own_loops)}
    return {row["options"]: {**row, **loops[row["variant"]]} for row in group.measured if row["variant"] in loops}


def _fusion(scope: Scope) -> Iterable[Outcome]:
    return [_fusion_in(scope, group) for group in scope.groups]


def _fusion_in(scope: Scope, group: Group) -> Outcome:
    rows = _of_loops(scope, group)
    pair = next(((rows[after], rows[before]) for after, before in _FUSED if {after, before} <= rows.keys()), None)
    if pair is None:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    fused, apart = pair
    gain = estimate(fused, "throughput_per_s").over(estimate(apart, "throughput_per_s"))
    side = gain.against(1.0)
    return Outcome(
        verdict="supported" if side == "above" else "contradicted" if side == "below" else "inconclusive",
        words={
            "subject": group.title,
            "fused": named(fused),
            "apart": named(apart),
            "gain": phrases.times(gain),
            "pass": phrases.of_column(fused, "pass_us", short=True),
            "pass_apart": phrases.of_column(apart, "pass_us", short=True),
            "work": _work_in_words(fused, apart),
            "doubt": gain.why_unclear("1"),
        },
        evidence=passes_of([fused, apart]),
        key=group.key,
    )


def named(row: Row) -> str:
    """A loop as a sentence names it: 'the plain loop', 'the persistent CUDA kernel', 'torch.compile'."""
    options = str(row["options"])
    is_thing = options in OPTIONS and OPTIONS[options].is_loop
    return f"the {optimization_in_words(options)}" if is_thing else optimization_in_words(options)


def _work_in_words(fused: Row, apart: Row) -> str:
    """What the trace and the operators tell of the difference, as the end of a sentence."""
    told = []
    if not math.isnan(fused["work_per_pass"] + apart["work_per_pass"]):
        few, many = (phrases.number(row["work_per_pass"]) for row in (fused, apart))
        told.append(f"{few} launches instead of {many}")
    if not math.isnan(fused["bytes_per_point"] + apart["bytes_per_point"]):
        few, many = (phrases.number(row["bytes_per_point"]) for row in (fused, apart))
        told.append(f"{few} bytes a point instead of {many}")
    return f"; such a pass takes {listed(told)}" if told else ""


def passes_of(rows: Iterable[Row]) -> tuple[Evidence, ...]:
    """The time of a pass of each, as evidence."""
    return tuple(phrases.evidence("time of a pass", phrases.of_column(row, "pass_us"), TABLE, row) for row in rows)


def _launchless(scope: Scope) -> Iterable[Outcome]:
    return [_launchless_in(scope, group) for group in scope.groups if _asks_for_one_launch(group)]


def _asks_for_one_launch(group: Group) -> bool:
    return any(row["options"] == _ALL_PASSES_AT_ONCE for row in group.rows)


def _launchless_in(scope: Scope, group: Group) -> Outcome:
    rows = _of_loops(scope, group)
    alone = rows.pop(_ALL_PASSES_AT_ONCE, None)
    if alone is None or not rows:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    rival = max(rows.values(), key=lambda row: float(row["throughput_per_s"]))
    gain = estimate(alone, "throughput_per_s").over(estimate(rival, "throughput_per_s"))
    side = gain.against(1.0)
    return Outcome(
        verdict="supported" if side == "above" else "contradicted" if side == "below" else "inconclusive",
        words={
            "subject": group.title,
            "alone": named(alone),
            "rival": named(rival),
            "gain": phrases.times(gain),
            "pass": phrases.of_column(alone, "pass_us"),
            "floor": _floor_in_words(alone),
            "doubt": gain.why_unclear("1"),
        },
        evidence=passes_of([alone, rival]),
        key=group.key,
    )


def _floor_in_words(row: Row) -> str:
    if math.isnan(row["floor_us"]):
        return ""
    by = "its arithmetic at the device's peak" if row["floor"] == "compute" else "its bytes at the device's copy rate"
    return (
        f"; that is {phrases.factor_alone(row['times_floor'])} the {phrases.seconds(row['floor_us'] / 1e6)} that {by}"
        " would take"
    )


def _exact(scope: Scope) -> Iterable[Outcome]:
    """Of every loop of these workloads, whichever experiment it is in."""
    workloads = {row["workload"] for row in scope.rows}
    rows = [row for row in rows_of(scope.tables.own_loops) if row["workload"] in workloads and not row["is_bound"]]
    subject = scope.measured[0]["workload_title"] if scope.measured else scope.name.replace("_", " ")
    if all(math.isnan(row["reference_error"]) for row in rows):
        return [not_measured(subject, why_missing(scope.rows, "no loop was compared with a reference"))]
    beyond = [row for row in rows if not row["reference_error"] < MOST_ERROR]
    worst = max((row for row in rows if row not in beyond), key=_error, default=None)
    return [
        Outcome(
            verdict="contradicted" if beyond else "supported",
            words={
                "subject": subject,
                "count": phrases.how_many(len(rows) - len(beyond), len(rows), "training"),
                "worst": _error_in_words(worst) if worst else "",
                "beyond": "; ".join(_error_in_words(row) for row in sorted(beyond, key=_error)),
            },
            evidence=tuple(
                phrases.evidence("relative error against float64", _error_told(row), TABLE, row)
                for row in sorted(rows, key=_error, reverse=True)
            ),
        )
    ]


def _error(row: Row) -> float:
    """Of what was not compared, or diverged, as if it were endless."""
    return math.inf if math.isnan(row["reference_error"]) else float(row["reference_error"])


def _error_told(row: Row) -> str:
    return "no number" if math.isnan(row["reference_error"]) else phrases.number(row["reference_error"])


def _error_in_words(row: Row) -> str:
    where = f"{device_in_words(row['device'])} over {phrases.count(row['points'])} points"
    return f"{_error_told(row)} for {named({'options': row['optimization']})} on {where}"


_OPTIMIZATION: Final = OWN_LOOPS + "optimization"
ABOVE_ONE: Final = (
    "It pays if the ratio of the throughputs is above 1 with the most and the least that both intervals allow: then no"
    " choice of processes reverses the order."
)

RULES: Final = (
    replace(
        BEST,
        about=_OPTIMIZATION,
        question="Which loop trains fastest?",
        test=per_group(best),
        advice={},
    ),
    Rule(
        name="fusion",
        about=_OPTIMIZATION,
        question="Does it pay to fuse what a pass does?",
        test=_fusion,
        threshold=ABOVE_ONE,
        wording=Wording(
            supported="Fusing paid for {subject}: with {fused} a pass took {pass}, against {pass_apart} with"
            " {apart}, {gain} its throughput{work}.",
            contradicted="Fusing did not pay for {subject}: with {fused} a pass took {pass}, against {pass_apart}"
            " with {apart}, {gain} its throughput{work}.",
            inconclusive="Whether fusing pays for {subject} stays open, because {doubt}: with {fused} a pass took"
            " {pass}, against {pass_apart} with {apart}.",
        ),
    ),
    Rule(
        name="launchless",
        about=_OPTIMIZATION,
        question="What is left of a pass when all of them are launched at once?",
        test=_launchless,
        threshold=ABOVE_ONE,
        wording=Wording(
            supported="One launch for all passes paid for {subject}: {alone} reached {gain} the throughput of the"
            " fastest other loop, {rival}. What is left of a pass is {pass}{floor}.",
            contradicted="One launch for all passes did not pay for {subject}: {alone} reached {gain} the"
            " throughput of the fastest other loop, {rival}. What is left of a pass is {pass}{floor}.",
            inconclusive="Whether one launch for all passes pays for {subject} stays open, because {doubt}: {alone}"
            " reached {gain} the throughput of {rival}.",
        ),
    ),
    Rule(
        name="exact",
        about=_OPTIMIZATION,
        question="Do all loops learn the same?",
        test=_exact,
        threshold="They do if the parameters and every loss of each process are within 1e-5, relative, of the same"
        " training in float64: float32 holds seven digits, and sums over millions of points cost one or two of them.",
        wording=Wording(
            supported="{subject}: {count} learnt the same as float64; the largest relative error is {worst}.",
            contradicted="{subject}: {count} learnt the same as float64. Beyond 1e-5 is the relative error of the"
            " others: {beyond}.",
        ),
    ),
)
