"""Questions about training in any variant: does it learn, is the first epoch slower, what does profiling cost."""

from collections.abc import Iterable
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Row, estimate
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured
from gpu_report.findings.scope import Scope, described, device_in_words, key_of

FIRST_EPOCH_SLOWER: Final = 1.05
PROFILER_SLOWS: Final = 1.10
ABOVE_CHANCE: Final = 0.05
PERFECT: Final = 0.995


def _learns(scope: Scope) -> Iterable[Outcome]:
    workloads = dict.fromkeys(row["workload"] for row in scope.rows)
    return [_learns_in(scope, [row for row in scope.rows if row["workload"] == workload]) for workload in workloads]


def _learns_in(scope: Scope, rows: list[Row]) -> Outcome:
    key = key_of(rows[0]["workload"])
    known = [row for row in rows if row["status"] == "ok" and estimate(row, "quality").known]
    if not known:
        return not_measured(rows[0]["workload_title"], "none of its variants has a quality", key=key)
    chance = float(known[0]["quality_chance"])
    level = chance + ABOVE_CHANCE * (1 - chance)
    learnt = [row for row in known if estimate(row, "quality").against(level) == "above"]
    open_ones = [row for row in known if estimate(row, "quality").against(level) == "unclear"]
    perfect = [row for row in known if estimate(row, "quality").value >= PERFECT]
    flat = len(perfect) == len(known)
    best = max(known, key=lambda row: float(row["quality"]))
    return Outcome(
        verdict="yes" if learnt and not flat else "not resolved" if open_ones and not flat else "no",
        words={
            "subject": rows[0]["workload_title"],
            "quality_name": best["quality_name"],
            "quality": phrases.of_column(best, "quality"),
            "best": described(best),
            "chance": phrases.number(chance),
            "learnt": phrases.how_many(len(learnt), len(known), "variant"),
            "fault": "every variant solves the task, so that it tells nothing"
            if flat
            else "no variant got above chance",
            "doubt": estimate(best, "quality").why_unclear("chance"),
        },
        evidence=phrases.evidence_of_columns(known, {"quality": f"held-out {best['quality_name']}"}, scope.table),
        key=key,
    )


def _first_epoch(scope: Scope) -> Iterable[Outcome]:
    devices = dict.fromkeys(row["device"] for row in scope.measured)
    outcomes = [_majority(scope, device, [r for r in scope.measured if r["device"] == device]) for device in devices]
    return outcomes or [not_measured("the first epoch", "no variant was measured")]


def _majority(scope: Scope, device: str, rows: list[Row]) -> Outcome:
    sides = [estimate(row, "first_epoch_ratio").against(FIRST_EPOCH_SLOWER) for row in rows]
    slower, not_slower = sides.count("above"), sides.count("below")
    clear = [row for row, side in zip(rows, sides, strict=True) if side == "above"] or rows
    most = max(clear, key=lambda row: float(row["first_epoch_ratio"]))
    return Outcome(
        verdict="yes" if 2 * slower > len(rows) else "no" if 2 * not_slower > len(rows) else "not resolved",
        words={
            "device": device_in_words(device),
            "slower": phrases.how_many(slower, len(rows), "variant"),
            "not_slower": phrases.how_many(not_slower, len(rows), "variant"),
            "most": described(most),
            "ratio": _first_epoch_ratio(most),
        },
        evidence=tuple(
            phrases.evidence("first epoch over later ones", _first_epoch_ratio(row), scope.table, row) for row in rows
        ),
        key=key_of(device),
    )


def _first_epoch_ratio(row: Row) -> str:
    return phrases.times(estimate(row, "first_epoch_ratio"))


def _profiler(scope: Scope) -> Iterable[Outcome]:
    profiled = [row for row in scope.measured if row["profile_overhead"] > 0]
    if not profiled:
        return [not_measured("the cost of profiling", "no variant was profiled")]
    slowed = [row for row in profiled if row["profile_overhead"] > PROFILER_SLOWS]
    most = max(profiled, key=lambda row: float(row["profile_overhead"]))
    half = 2 * len(slowed) - len(profiled)
    return [
        Outcome(
            verdict="yes" if half > 0 else "no" if half < 0 else "not resolved",
            words={
                "slowed": phrases.how_many(len(slowed), len(profiled), "profiled variant"),
                "overhead": phrases.factor_alone(most["profile_overhead"]),
                "most": described(most),
            },
            evidence=tuple(
                phrases.evidence(
                    "profiled, synchronised step over timed step",
                    phrases.factor_alone(row["profile_overhead"]),
                    scope.table,
                    row,
                )
                for row in profiled
            ),
        )
    ]


RULES: Final = (
    Rule(
        name="learns",
        about="study",
        question="Does the workload learn something that can tell variants apart?",
        test=_learns,
        threshold="It does if the held-out quality of a variant, interval included, is above chance by 5 % of what lies"
        " between chance and perfect, and not every variant reaches 0.995: a task that all solve shows no difference.",
        wording=Wording(
            yes="{subject} learns: {learnt} got above chance ({chance}); the best held-out {quality_name}, that"
            " of {best}, is {quality}.",
            no="{subject} does not tell variants apart: {fault}; the best held-out {quality_name} is"
            " {quality}, chance is {chance}.",
            unresolved="Whether {subject} learns stays open, because {doubt}: the best held-out {quality_name} is"
            " {quality}, chance is {chance}.",
        ),
    ),
    Rule(
        name="first_epoch",
        about="study",
        question="Is the first epoch slower than those that follow?",
        test=_first_epoch,
        threshold="Slower means by more than 5 %, interval included, in more than half of the variants of a device; it"
        " is why the first epoch is kept apart from the timed ones.",
        wording=Wording(
            yes="On {device} the first epoch was slower in {slower}, most for {most}: {ratio} as long.",
            no="On {device} the first epoch was not clearly slower in {not_slower}; the most was {ratio} as"
            " long, for {most}.",
            unresolved="On {device} the first epoch was clearly slower in {slower}, which is no majority; the most"
            " was {ratio} as long, for {most}.",
        ),
    ),
    Rule(
        name="profiler",
        about="study",
        question="Does profiling slow training down?",
        test=_profiler,
        threshold="It does if a profiled step, after which the device is synchronised, takes more than 10 % longer"
        " than a timed one in more than half of the variants; it is why no time in this report was taken with the"
        " profiler on.",
        wording=Wording(
            yes="The profiler slowed {slowed} down by more than 10 %, most {most}: a step took {overhead} as long.",
            no="The profiler slowed {slowed} down by more than 10 %; the most was {overhead} the time of a"
            " step, for {most}.",
            unresolved="The profiler slowed {slowed} down by more than 10 %; the most was {overhead} the time of a"
            " step, for {most}.",
        ),
    ),
)
