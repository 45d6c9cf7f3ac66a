"""Questions about axes that make the work larger, the batch size (E2, B7) and the model's size
(E3), and about searches for a batch size.

The batch size: is a smaller one as fast, and what does quality do? The model's size: do fixed costs
dominate the smallest? A search: which batch fits, which trains fastest, and which smaller one is
nearly as fast?
"""

import math
from collections.abc import Iterator
from typing import Final

from gpu_report.answers.estimate import (
    estimate,
    is_share,
    quality_gain,
    ratio_of,
    speedup,
)
from gpu_report.answers.finding import Evidence
from gpu_report.answers.phrases import (
    CPU,
    as_share,
    evidence_of_columns,
    factor_alone,
    shown,
    times,
)
from gpu_report.answers.question import (
    Answer,
    Compared,
    decided,
    each_group,
    evidence_of,
    missing,
    not_measured,
    question,
    why_missing,
)
from gpu_report.answers.questions.axes import FEWEST_STEPS, NO_QUALITY, by_seed, quality_evidence
from gpu_report.answers.scope import BATCH_SEARCH, Group, Scope, key_of
from gpu_report.glossary import QUALITY_TOLERANCE, Row, capitalized
from gpu_report.printing.number_format import count, memory
from gpu_report.study.options import NO_OPTIONS
from gpu_report.study.search import NEAR
from gpu_report.tables.bundle import grouped
from gpu_report.words import device_in_words, in_words, listed, model_words, why_no_numbers

NEARLY_AS_FAST: Final = 0.95
"""Of the highest throughput: a twentieth is less than most would notice, and a smaller batch leaves
memory free.
"""

LARGER: Final = 1.1
"""By what the parameters of a larger model differ: sizes nearer to each other differ in something
else, such as the context.
"""

_TWO_BATCH_SIZES: Final = "it takes two batch sizes"


@question("Is a smaller batch nearly as fast as the fastest?", "batch_size")
@each_group
def smaller(group: Group) -> Answer:
    """Nearly as fast means at least 95 % of the highest throughput, intervals included; the
    smallest such batch is named. What ran out of memory is left out. The fastest is recommended
    only after at least 30 optimizer steps; fewer say nothing about quality.
    """
    rows, subject = group.measured, group.title
    if len(rows) < 2:
        return missing(group, _TWO_BATCH_SIZES)
    fastest = max(rows, key=lambda row: float(row["throughput_per_s"]))
    shares = [
        (row, ratio_of("throughput_per_s", group.tables)(row, fastest))
        for row in rows[: rows.index(fastest)]
    ]
    known = [(row, share) for row, share in shares if share.known]
    compared = Compared(group=group, pairs=known, limit=NEARLY_AS_FAST, limit_in_words="95 %")
    candidates = compared.on("above") or [
        *(pair for pair in known if pair[1].value >= NEARLY_AS_FAST),
        *sorted(known, key=lambda pair: -pair[1].value),
    ]
    near, reached = fastest, ""
    if candidates:
        near, share = candidates[0]
        reached = f"; {group.words(near)} reached {as_share(share, short=True)} of that"
    verdict = compared.any_on("above")
    ending = f". No smaller batch came within 5 %{reached}."
    if verdict == "yes":
        ending = f"{reached}, the smallest within 5 %."
    elif verdict == "too close to call":
        ending = (
            f"{reached}. Whether a smaller batch is within 5 % is too close to call, because "
            f"{compared.doubt}."
        )
    gain = None
    if group.baseline is not None and not math.isnan(fastest["speedup"]):
        gain = speedup(fastest, group.baseline)
    advice = ""
    may_advise = fastest["optimizer_steps"] >= FEWEST_STEPS and not _reached_target(group)
    if may_advise and (gain is None or gain.against(1.0) == "above"):
        smallest = f"; the smallest within 5 % of it is {group.words(near)}"
        advice = f"Train {subject} with {group.words(fastest)}, the fastest batch size measured"
        advice += f"{smallest}." if verdict == "yes" else "."
    return Answer(
        verdict=verdict,
        statement=f"{subject} trained fastest with {group.words(fastest)}: "
        f"{shown(fastest, 'throughput_per_s')}{ending}",
        subject=subject,
        evidence=evidence_of(
            group,
            {"throughput_per_s": "throughput", "memory_peak_mib": "peak memory"},
            [fastest, near],
        ),
        key=group.key,
        advice=advice,
        gain=None if verdict == "too close to call" else gain,
    )


@question("Does held-out quality fall with the batch size?", "batch_size")
@each_group
def quality(group: Group) -> Answer:
    """A fall means that the difference, intervals included, is more than 0.02: about what a few
    held-out samples make. Of a metric that falls as models get better, or is not from 0 to 1, it is
    a rise, or a fall, by more than 2 %. It is taken between processes of the same seed, which began
    alike, where both batch sizes have the same seeds. A batch size that made fewer than 30
    optimizer steps says nothing about quality and is left out. Time to target is training time,
    without evaluation.
    """
    subject = group.title
    rows = [row for row in group.measured if row["optimizer_steps"] >= FEWEST_STEPS]
    few = [
        f"{group.words(row)} ({count(row['optimizer_steps']).plain()})"
        for row in group.measured
        if row not in rows
    ]
    left_out = ""
    if few:
        left_out = f"fewer than {FEWEST_STEPS} optimizer steps were made with {listed(few)}"
    if len(rows) < 2:
        reason = left_out or why_missing(group.rows, _TWO_BATCH_SIZES)
        return not_measured(subject, reason, key=group.key)
    small, large = rows[0], rows[-1]
    gain = quality_gain(large, small)
    metric = f"held-out {large['quality_name']}"
    to_target, advice = _to_target(group)
    others = f" Others are left out: {left_out}." if left_out else ""
    soonest = _reached_target(group)
    return decided(
        group,
        gain,
        limit=-QUALITY_TOLERANCE,
        limit_in_words="a loss of 0.02" if is_share(small) and is_share(large) else "a loss of 2 %",
        holds="below",
        yes=f"The quality of {subject} fell with the batch size",
        no=f"The quality of {subject} did not fall with the batch size",
        whether=f"the quality of {subject} falls with the batch size",
        measured=f": {metric} {shown(large, 'quality')} with {group.words(large)}, against "
        f"{shown(small, 'quality', short=True)} with {group.words(small)}"
        f"{by_seed(small, large)}, after {in_words('epochs', large['epochs'])}.{to_target}{others}",
        evidence=(
            *quality_evidence(group, small, large),
            *evidence_of_columns(soonest, {"time_to_target_s": "time to target"}, group.table),
        ),
        advice=dict.fromkeys(("yes", "no", "too close to call"), advice),
        unknown=NO_QUALITY,
    )


def _to_target(group: Group) -> tuple[str, str]:
    """A sentence, with the space before it, about the time to the target, and what to do; each
    empty where there is nothing to say.
    """
    target, reached = group.measured[0]["target"], _reached_target(group)
    if math.isnan(target):
        return "", ""
    if not reached:
        return f" No batch size reached {target:g} in every process.", ""
    soonest, *later = sorted(reached, key=lambda row: float(row["time_to_target_s"]))
    best = group.words(soonest)
    missed = [group.words(row) for row in group.measured if row not in reached]
    longer = [
        ratio_of("time_to_target_s", group.tables)(row, soonest).against(1.0) for row in later
    ]
    alike = [group.words(row) for row, side in zip(later, longer, strict=True) if side != "above"]
    others = f"; not significantly later with {listed(alike)}" if alike else ""
    others += f"; {listed(missed)} did not reach it in every process" if missed else ""
    sentence = (
        f" It reached {target:g} soonest with {best}, after "
        f"{shown(soonest, 'time_to_target_s', short=True)} of training{others}."
    )
    if soonest["is_baseline"] or alike:
        return sentence, ""
    name = soonest["quality_name"]
    return sentence, f"Train {group.title} with {best}: it reaches {name} {target:g} first."


def _reached_target(group: Group) -> list[Row]:
    """The configurations that reached the experiment's target in every process; none where it has
    no target.
    """
    return [row for row in group.measured if estimate(row, "time_to_target_s").known]


@question("Do fixed costs per step dominate the smallest model?", "size")
@each_group
def overhead(group: Group) -> Answer | None:
    """They do if the next larger model takes less than the square root of the factor in parameters
    longer: then more than half of the growth, on a logarithmic scale, is hidden behind costs that
    do not grow.
    """
    by_parameters = {row["parameters"]: row for row in reversed(group.measured)}
    if len(by_parameters) < 2:
        return missing(group, "it takes two sizes with different numbers of parameters")
    fewest, *more = sorted(by_parameters)
    larger = next((number for number in more if number > LARGER * fewest), None)
    if larger is None:
        return None
    small, large = by_parameters[fewest], by_parameters[larger]
    factor = larger / fewest
    longer, smallest = ratio_of("step_time_ms", group.tables)(large, small), group.words(small)
    return decided(
        group,
        longer,
        limit=math.sqrt(factor),
        holds="below",
        yes=f"Fixed costs dominate the smallest model of {group.title}",
        no=f"Fixed costs do not dominate the smallest model of {group.title}",
        whether=f"fixed costs dominate the smallest model of {group.title}",
        measured=f": {group.words(large)} has {factor_alone(factor)} the parameters of "
        f"{smallest}, and a step took {times(longer)} as long; the limit is the square root of the "
        "former.",
        evidence=evidence_of_columns(
            [large, small], {"step_time_ms": "time per step"}, group.table
        ),
        advice={
            "yes": f"Give each step of {group.title} with {smallest} more work, for instance "
            "larger batches."
        },
    )


@question("Does a language model train fewer tokens per second in a longer context?", "size")
@each_group
def longer(group: Group) -> Answer | None:
    """It does if it trains fewer tokens per second in its longest context than in its shortest,
    intervals included. Attention takes more operations for each token of a longer context; linear
    layers do not.
    """
    known = [row for row in group.measured if math.isfinite(row["tokens_per_s"])]
    # A longer context adds to the position table alone.
    most = LARGER * min((row["parameters"] for row in known), default=0)
    by_context = {
        round(row["tokens_per_s"] / row["throughput_per_s"]): row
        for row in known
        if row["parameters"] <= most
    }
    if len(by_context) < 2:
        return None
    short, long = (by_context[tokens] for tokens in (min(by_context), max(by_context)))
    also = [
        f"{name} is {shown(long, column, short=True)} instead of {shown(short, column, short=True)}"
        for column, name in {"mfu": "MFU", "memory_peak_mib": "peak memory"}.items()
        if math.isfinite(long[column]) and math.isfinite(short[column])
    ]
    return decided(
        group,
        ratio_of("tokens_per_s", group.tables)(long, short),
        holds="below",
        yes=f"{group.title} trains fewer tokens per second in a longer context",
        no=f"{group.title} does not train fewer tokens per second in a longer context",
        whether=f"{group.title} trains fewer tokens per second in a longer context",
        measured=f": {shown(long, 'tokens_per_s')} in a context of {max(by_context)} tokens, "
        f"{shown(short, 'tokens_per_s')} in one of {min(by_context)}."
        + (f" {capitalized(listed(also))}." if also else ""),
        evidence=evidence_of(group, {"tokens_per_s": "tokens per second"}, [long, short]),
    )


@question("Which batch size fits, and which trains fastest?", BATCH_SEARCH)
def which(scope: Scope) -> Iterator[Answer]:
    """The largest is known if a batch that is larger by 2 % or less failed. Throughputs are of one
    process each, so two that are close may change places in another.
    """
    for rows in grouped(scope.rows, lambda row: row["search"]).values():
        yield _which(rows)


def _which(rows: list[Row]) -> Answer:
    row = rows[0]
    options = "" if row["optimization"] == NO_OPTIONS else f" with {row['optimization']}"
    device = f" on {device_in_words(row['device'])}" if row["device"] == CPU else ""
    subject = f"{model_words(row)} in {row['precision']}{options}{device}"
    largest = next((row for row in rows if row["is_largest"]), None)
    if largest is None:
        return not_measured(subject, why_no_numbers(rows[-1]), key=key_of(row["search"]))
    fastest = next((row for row in rows if row["is_fastest"]), largest)
    near = next((row for row in rows if row["is_smallest_near_fastest"]), fastest)
    or_more = "" if largest["is_resolved"] else " or more"
    return Answer(
        verdict="yes" if largest["is_resolved"] else "too close to call",
        statement=f"{subject}: the largest batch that fits has {shown(largest, 'samples')} samples"
        f"{or_more}, and leaves {shown(largest, 'headroom_share')} of "
        f"{memory(largest['memory_limit_mib']).plain()}. {_speeds(rows, fastest, near)}.",
        subject=subject,
        evidence=[
            Evidence(
                label=f"throughput with {shown(row, 'samples')} samples",
                value=shown(row, "throughput_per_s", short=True),
                table="batch_sizes",
                variant="",
            )
            for row in {row["samples"]: row for row in (fastest, near)}.values()
        ],
        key=key_of(row["search"]),
    )


def _speeds(rows: list[Row], fastest: Row, near: Row) -> str:
    """A sentence, without its period, about the fastest and the smallest that is nearly as fast."""
    if not fastest["is_fastest"]:
        return "Other programs used the CPU meanwhile, so no speeds are compared"
    rate, peak = (
        [shown(row, column, short=True) for row in (fastest, near)]
        for column in ("throughput_per_s", "memory_peak_mib")
    )
    alike = [
        shown(row, "samples")
        for row in rows
        if row is not fastest and row["throughput_per_s_high"] >= fastest["throughput_per_s_low"]
    ]
    that = "that" if len(alike) == 1 else "those"
    overlap = f" (its interval overlaps {that} of {listed(alike)})" if alike else ""
    within = f"within {count(100 * (1 - NEAR), '%').plain()} of that"
    sentence = f"{shown(fastest, 'samples')} samples train fastest, {rate[0]} in {peak[0]}{overlap}"
    if near is fastest:
        return f"{sentence}, and no smaller batch tried is {within}"
    nearly = f"{shown(near, 'samples')} are the smallest tried {within}, {rate[1]} in {peak[1]}"
    return f"{sentence}; {nearly}"
