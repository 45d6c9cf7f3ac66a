"""Questions about the batch size: where larger ones stop paying, and whether they cost quality (E2)."""

import itertools
import math
from collections.abc import Sequence
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, Side, estimate, speedup
from gpu_report.findings.finding import Verdict
from gpu_report.findings.rule import Outcome, Rule, Wording, not_measured, per_group, why_missing
from gpu_report.findings.rules.any_axis import QUALITY_THRESHOLD, quality_outcome
from gpu_report.findings.scope import Group

PAYS_PER_DOUBLING: Final = 1.10

_Step = tuple[Row, Estimate]
"""A smaller batch size, and what a doubling from there to the next larger one brings."""


def gain_per_doubling(smaller: Row, larger: Row) -> Estimate:
    """Throughput that each doubling of the batch size multiplies by, between two measured sizes."""
    doublings = math.log2(larger["batch_size"] / smaller["batch_size"])
    ratio = estimate(larger, "throughput_per_s").over(estimate(smaller, "throughput_per_s"))
    return ratio.mapped(lambda times: times ** (1 / doublings))


def _saturation(group: Group) -> Outcome:
    rows = group.measured
    if len(rows) < 2:
        return not_measured(group.title, why_missing(group.rows, "it takes two batch sizes"), key=group.key)
    steps = [(smaller, gain_per_doubling(smaller, larger)) for smaller, larger in itertools.pairwise(rows)]
    verdict, decisive = _decision(steps)
    row = rows[-1] if verdict == "contradicted" else decisive[0][0]
    changes = [phrases.percent(step.mapped(lambda times: 100 * (times - 1)), short=True) for _, step in decisive]
    return Outcome(
        verdict=verdict,
        words={
            "subject": group.title,
            "batch": group.value_in_words(row),
            "rate": phrases.of_column(row, "throughput_per_s"),
            "more": ", then ".join(changes),
            "doubt": next(
                (step.why_unclear("10 % per doubling") for _, step in decisive if _side(step) == "unclear"), ""
            ),
        },
        evidence=phrases.evidence_of_columns(
            rows, {"throughput_per_s": "throughput"}, group.table, first=rows[rows.index(row) :]
        ),
        key=group.key,
        gain=_gain(group, row),
    )


def _decision(steps: Sequence[_Step]) -> tuple[Verdict, Sequence[_Step]]:
    """What the steps decide, and those that decide it.

    Read from the largest size down: a size saturates if no step after it pays, so a step that pays ends the search,
    and one that may pay leaves open whether it does.
    """
    sides = [_side(step) for _, step in steps]
    if sides[-1] == "above":
        return "contradicted", steps[-1:]
    first = next((at + 1 for at in reversed(range(len(sides))) if sides[at] == "above"), 0)
    return ("inconclusive" if "unclear" in sides[first:] else "supported"), steps[first:]


def _side(step: Estimate) -> Side:
    return step.against(PAYS_PER_DOUBLING)


def _gain(group: Group, row: Row) -> Estimate | None:
    return None if group.baseline is None or math.isnan(row["speedup"]) else speedup(row, group.baseline)


def _quality(group: Group) -> Outcome:
    rows = group.measured
    if len(rows) < 2:
        return not_measured(group.title, why_missing(group.rows, "it takes two batch sizes"), key=group.key)
    return quality_outcome(group, rows[0], rows[-1])


RULES: Final = (
    Rule(
        name="saturation",
        about="batch_size",
        question="Where do larger batches stop paying?",
        test=per_group(_saturation),
        threshold="They stop at the first size after which no larger one pays."
        " A doubling of the batch pays if it brings at least 10 % more throughput, intervals included; it"
        " costs memory, and in whole epochs halves the updates, which less would not repay.",
        wording=Wording(
            supported="Larger batches stopped paying for {subject} at {batch}, where it trained {rate}: per"
            " doubling, the steps to the larger sizes changed the throughput by {more} only.",
            contradicted="Larger batches paid for {subject} up to {batch}, the largest that was measured: there it"
            " trained {rate}, and the last step brought {more} per doubling.",
            inconclusive="Where larger batches stop paying for {subject} stays open, because {doubt}: from {batch} on,"
            " the steps changed the throughput by {more} per doubling.",
        ),
        advice={
            "supported": "Train {subject} with {batch}: no doubling beyond it brings 10 % more throughput.",
            "contradicted": "Train {subject} with {batch}, the largest that was measured; throughput still grew.",
        },
    ),
    Rule(
        name="quality",
        about="batch_size",
        question="Does held-out quality fall with the batch size?",
        test=per_group(_quality),
        threshold=QUALITY_THRESHOLD
        + " In whole epochs larger batches make fewer updates over the same samples; in epochs of a fixed number of"
        " steps they make as many updates and see more samples.",
        wording=Wording(
            supported="The quality of {subject} fell with the batch size: held-out {quality_name} {quality} with"
            " {value}, against {before} with {before_value}, after the same epochs{by_seed}.",
            contradicted="The quality of {subject} did not fall with the batch size: held-out {quality_name} {quality}"
            " with {value}, against {before} with {before_value}{by_seed}.",
            inconclusive="Whether the quality of {subject} falls with the batch size stays open, because {doubt}:"
            " held-out {quality_name} {quality} with {value}, against {before} with {before_value}{by_seed}.",
        ),
    ),
)
