"""Questions about a workload's own loops: does fusing pay, what is left without launches, do all learn the same?"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, estimate, listed
from gpu_report.findings.finding import Evidence
from gpu_report.findings.rule import VERDICT_OF, Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import BEST, NOTHING_TO_COMPARE, best
from gpu_report.findings.scope import OWN_LOOPS, Group, Scope, device_in_words, key_of, optimization_in_words
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.marks import marks_in

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
        verdict=VERDICT_OF[side],
        words={
            "subject": group.title,
            "fused": optimization_in_words(fused["options"]),
            "apart": optimization_in_words(apart["options"]),
            "gain": phrases.times(gain),
            "pass": phrases.of_column(fused, "pass_us", short=True),
            "pass_apart": phrases.of_column(apart, "pass_us", short=True),
            "work": _work_in_words(fused, apart),
            "doubt": gain.why_unclear("1"),
        },
        evidence=passes_of([fused, apart]),
        key=group.key,
    )


def _work_in_words(fused: Row, apart: Row) -> str:
    """What the trace and the operators tell of the difference, as the end of a sentence."""
    told = []
    if not math.isnan(fused["work_per_pass"] + apart["work_per_pass"]):
        few, many = (phrases.number(row["work_per_pass"]) for row in (fused, apart))
        told.append(f"{few} launches instead of {many}")
    is_written = fused["options"] != "compile"  # what a compiler makes of a pass, and moves in it, is not known
    if is_written and not math.isnan(fused["bytes_per_point"] + apart["bytes_per_point"]):
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
        verdict=VERDICT_OF[side],
        words={
            "subject": group.title,
            "alone": optimization_in_words(alone["options"]),
            "rival": optimization_in_words(rival["options"]),
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
    variants = {row["variant"]: row for row in rows_of(scope.tables.variants)}
    loops = [{**variants[row["variant"]], **row} for row in rows_of(scope.tables.own_loops) if not row["is_bound"]]
    return [
        _exact_in(
            [row for row in loops if row["workload"] == workload],
            subject=title,
            key=key,
            unmeasured=why_missing(scope.rows, "no loop was compared with a reference"),
        )
        for workload, title, key in workloads_of(scope)
    ]


def workloads_of(scope: Scope) -> list[tuple[str, str, str]]:
    """Name, title, and key of the outcome of each workload, which is empty where there is one."""
    titles = {row["workload"]: row["workload_title"] for row in scope.rows}
    return [(name, title, key_of(name) if len(titles) > 1 else "") for name, title in titles.items()]


def _exact_in(loops: Iterable[Row], *, subject: str, key: str, unmeasured: str) -> Outcome:
    """A workload may give no reference to compare some of its loops with; these do not count."""
    rows = [row for row in loops if _error(row) < math.inf or _has_diverged(row)]
    if not rows:
        return not_measured(subject, unmeasured, key=key)
    beyond = [row for row in rows if not _error(row) < MOST_ERROR]
    worst = max((row for row in rows if row not in beyond), key=_error, default=None)
    return Outcome(
        verdict="no" if beyond else "yes",
        words={
            "subject": subject,
            "count": phrases.how_many(len(rows) - len(beyond), len(rows), "variant"),
            "worst": _error_in_words(worst) if worst else "",
            "beyond": "; ".join(_error_in_words(row) for row in sorted(beyond, key=_error)),
        },
        evidence=tuple(
            phrases.evidence("relative error against float64", _error_told(row), TABLE, row)
            for row in sorted(rows, key=_error, reverse=True)
        ),
        key=key,
    )


def _has_diverged(row: Row) -> bool:
    return "diverged" in marks_in(row["marks"])


def _error(row: Row) -> float:
    """Of what has none, because it diverged or was not compared, as if it were endless."""
    return math.inf if math.isnan(row["reference_error"]) else float(row["reference_error"])


def _error_told(row: Row) -> str:
    return "no finite one" if math.isnan(row["reference_error"]) else phrases.number(row["reference_error"])


def _error_in_words(row: Row) -> str:
    where = f"{device_in_words(row['device'])} over {phrases.count(row['points'])} points"
    return f"{_error_told(row)} for {optimization_in_words(row['optimization'])} on {where}"


_OPTIMIZATION: Final = OWN_LOOPS + "optimization"
_MOST_ERROR_IN_WORDS: Final = f"{MOST_ERROR:.0e}".replace("e-0", "e-")
ABOVE_ONE: Final = (
    "The ratio of the throughputs is taken for above 1 if it is with the most and the least that both intervals allow:"
    " then no choice of processes reverses the order."
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
            yes="Fusing paid for {subject}: with {fused} a pass took {pass}, against {pass_apart} with"
            " {apart}, {gain} its throughput{work}.",
            no="Fusing did not pay for {subject}: with {fused} a pass took {pass}, against {pass_apart}"
            " with {apart}, {gain} its throughput{work}.",
            unresolved="Whether fusing pays for {subject} is not resolved, because {doubt}: with {fused} a pass took"
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
            yes="One launch for all passes paid for {subject}: {alone} reached {gain} the throughput of the"
            " fastest other loop, {rival}. What is left of a pass is {pass}{floor}.",
            no="One launch for all passes did not pay for {subject}: {alone} reached {gain} the"
            " throughput of the fastest other loop, {rival}. What is left of a pass is {pass}{floor}.",
            unresolved="Whether one launch for all passes pays for {subject} is not resolved, because {doubt}: {alone}"
            " reached {gain} the throughput of {rival}.",
        ),
    ),
    Rule(
        name="exact",
        about=_OPTIMIZATION,
        question="Do all loops learn the same?",
        test=_exact,
        threshold="They do if the parameters and all losses of the last training of every process are within"
        f" {_MOST_ERROR_IN_WORDS}, relative, of the same training in float64. float32 holds seven digits; how many of"
        " them a sum over millions of points costs is up to how it is added up.",
        wording=Wording(
            yes="{subject}: {count} learnt the same as float64; the largest relative error is {worst}.",
            no="{subject}: {count} learnt the same as float64. The relative error of the others is"
            f" not below {_MOST_ERROR_IN_WORDS}: {{beyond}}.",
        ),
    ),
)
