"""Rules about axes that make the work larger: the batch size (E2, B7) and the model's size (E3);
and about searches for a batch size.

The batch size: is a smaller one as fast, what does quality do, does memory limit it? The model's
size: how does time grow with parameters, and do fixed costs dominate the smallest? A search: which
batch fits, which trains fastest, and which smaller one is nearly as fast?
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, estimate, ratio_of, speedup
from gpu_report.findings.finding import Evidence
from gpu_report.findings.phrases import CPU, Named, factor_alone, filled, of_column
from gpu_report.findings.rule import (
    MEMORY,
    THROUGHPUT,
    Comparison,
    Outcome,
    Rule,
    evidence_of,
    not_measured,
    per_group,
    why_missing,
)
from gpu_report.findings.rules.axes import QUALITY, QUALITY_THRESHOLD
from gpu_report.findings.scope import BATCH_SEARCH, Group, key_of
from gpu_report.glossary import Row
from gpu_report.printing.number_format import count, memory
from gpu_report.study.options import NO_OPTIONS
from gpu_report.study.search import NEAR, RESOLUTION
from gpu_report.tables.bundle import grouped
from gpu_report.words import device_in_words, listed, memory_asked, model_words, why_no_numbers

NEARLY_AS_FAST: Final = 0.95
"""Of the highest throughput: a twentieth is less than most would notice, and a smaller batch leaves
memory free.
"""

FEWEST_STEPS: Final = 30
"""Optimizer steps: after fewer, a training has hardly begun, whatever its batch size."""

_TWO_BATCH_SIZES: Final = "it takes two batch sizes"
_TWO_SIZES: Final = "it takes two sizes with different numbers of parameters"
_ANSWERS: Final = ("is_largest", "is_fastest", "is_smallest_near_fastest")
_RESOLUTION: Final = count(100 * (RESOLUTION - 1), "%").plain()
_NEAR: Final = count(100 * (1 - NEAR), "%").plain()
_FASTEST: Final = (
    "{fastest.samples} samples train fastest, {fastest.throughput_per_s:short} in "
    "{fastest.memory_peak_mib}{alike}"
)
_NEARLY: Final = (
    f"{_FASTEST}; {{near.samples}} are the smallest tried within {_NEAR} of that,"
    " {near.throughput_per_s:short} in {near.memory_peak_mib}"
)
_LOADED: Final = "Other programs used the CPU meanwhile, so no speeds are compared"
_ALONE: Final = f"{_FASTEST}, and no smaller batch tried is within {_NEAR} of that"


def _outcome(rows: list[Row]) -> Outcome:
    row = rows[0]
    options = "" if row["optimization"] == NO_OPTIONS else f" with {row['optimization']}"
    device = f" on {device_in_words(row['device'])}" if row["device"] == CPU else ""
    subject = f"{model_words(row)} in {row['precision']}{options}{device}"
    key = key_of(row["search"])
    found = {answer: row for answer in _ANSWERS for row in rows if row[answer]}
    if not found:
        return not_measured(subject, why_no_numbers(rows[-1]), key=key)
    largest = found[_ANSWERS[0]]
    fastest, near = (found.get(answer, largest) for answer in _ANSWERS[1:])
    speed, _ = filled(
        _LOADED if len(found) == 1 else _ALONE if near is fastest else _NEARLY,
        {"fastest": Named(fastest), "near": Named(near), "alike": _alike(fastest, rows)},
    )
    return Outcome(
        verdict="yes" if largest["is_resolved"] else "not resolved",
        fields={
            "subject": subject,
            "largest": Named(largest),
            "limit": memory(largest["memory_limit_mib"]).plain(),
            "speed": speed,
        },
        evidence=tuple(
            Evidence(
                label=f"throughput with {count(row['samples']).plain()} samples",
                value=of_column(row, "throughput_per_s", short=True),
                table="batch_sizes",
                variant="",
            )
            for row in {row["samples"]: row for row in (fastest, near)}.values()
        ),
        key=key,
    )


def _alike(fastest: Row, rows: list[Row]) -> str:
    """Which other numbers of samples may be as fast, as an insertion in the sentence about the
    fastest.
    """
    others = [
        row
        for row in rows
        if row is not fastest and row["throughput_per_s_high"] >= fastest["throughput_per_s_low"]
    ]
    if not others:
        return ""
    named = listed([count(row["samples"]).plain() for row in others])
    return f" (its interval overlaps {'that' if len(others) == 1 else 'those'} of {named})"


def _smaller(group: Group) -> Outcome:
    """Whether a smaller batch is nearly as fast as the fastest; the smallest such is named, else
    the nearest.
    """
    rows = group.measured
    if len(rows) < 2:
        return not_measured(group.title, why_missing(group.rows, _TWO_BATCH_SIZES), key=group.key)
    fastest = max(rows, key=lambda row: float(row["throughput_per_s"]))
    reached = [
        (row, ratio_of("throughput_per_s")(row, fastest)) for row in rows[: rows.index(fastest)]
    ]
    shares = [(row, share) for row, share in reached if share.known]
    close = [pair for pair in shares if pair[1].against(NEARLY_AS_FAST) == "above"]
    unclear = [share for _, share in shares if share.against(NEARLY_AS_FAST) == "unclear"]
    near = (close or [pair for pair in shares if pair[1].value >= NEARLY_AS_FAST])[:1]
    near = near or sorted(shares, key=lambda pair: pair[1].value)[-1:]
    gain = (
        None
        if group.baseline is None or math.isnan(fastest["speedup"])
        else speedup(fastest, group.baseline)
    )
    return Outcome(
        verdict="yes" if close else "not resolved" if unclear else "no",
        fields={
            "subject": group.title,
            "fastest": Named(fastest, group.value_in_words(fastest)),
            "near": "".join(group.value_in_words(row) for row, _ in near),
            "reached": "".join(
                f"; {group.value_in_words(row)} reached {phrases.as_share(share, short=True)} of "
                "that"
                for row, share in near
            ),
            "doubt": unclear[0].why_unclear("95 %") if unclear else "",
        },
        evidence=evidence_of(group, {**THROUGHPUT, **MEMORY}, [fastest, *(row for row, _ in near)]),
        key=group.key,
        gain=gain if close or not unclear else None,
        advises=(gain is None or gain.against(1.0) == "above") and not _reached_target(group),
    )


def _quality(group: Group) -> Outcome:
    """From the smallest batch to the largest that made enough steps; with a target, also which
    reaches it first.
    """
    rows = [row for row in group.measured if row["optimizer_steps"] >= FEWEST_STEPS]
    few = [
        f"{group.value_in_words(row)} ({count(row['optimizer_steps']).plain()})"
        for row in group.measured
        if row not in rows
    ]
    left_out = (
        f"fewer than {FEWEST_STEPS} optimizer steps were made with {listed(few)}" if few else ""
    )
    if len(rows) < 2:
        return not_measured(
            group.title, left_out or why_missing(group.rows, _TWO_BATCH_SIZES), key=group.key
        )
    outcome = replace(QUALITY, choose=lambda _: (rows[0], rows[-1])).of(group)
    reached = _reached_target(group)
    soonest = min(reached, key=lambda row: float(row["time_to_target_s"]), default=None)
    others = [
        _time(row).over(_time(soonest))
        for row in reached
        if soonest is not None and row is not soonest
    ]
    return replace(
        outcome,
        fields={
            **outcome.fields,
            "soonest": group.value_in_words(soonest) if soonest else "",
            "target": f"{rows[0]['target']:g}",
            "to_target": _to_target(group, soonest),
            "left_out": f" Others are left out: {left_out}." if left_out else "",
        },
        evidence=(
            *outcome.evidence,
            *phrases.evidence_of_columns(
                reached, {"time_to_target_s": "time to target"}, group.table
            ),
        ),
        advises=soonest is not None
        and not soonest["is_baseline"]
        and all(longer.against(1.0) == "above" for longer in others),
    )


def _reached_target(group: Group) -> list[Row]:
    """The variants that reached the experiment's target in every process; none where it has no
    target.
    """
    return [row for row in group.measured if _time(row).known]


def _time(row: Row) -> Estimate:
    return estimate(row, "time_to_target_s")


def _to_target(group: Group, soonest: Row | None) -> str:
    """A sentence, with the space before it, about the time to the target; empty without one."""
    target = group.measured[0]["target"]
    if math.isnan(target):
        return ""
    if soonest is None:
        return f" No batch size reached {target:g} in every process."
    missed = [group.value_in_words(row) for row in group.measured if not _time(row).known]
    others = f"; {listed(missed)} did not reach it in every process" if missed else ""
    return (
        f" It reached {target:g} soonest with {group.value_in_words(soonest)}, after"
        f" {phrases.of_column(soonest, 'time_to_target_s', short=True)} of training{others}."
    )


def _bounded_in(group: Group) -> Outcome:
    """The largest batch that fits an accelerator, and the first that does not."""
    rows = [row for row in group.rows if row["device"] != CPU]
    fitting = [
        row for row in rows if row["status"] == "ok" and not math.isnan(row["memory_peak_mib"])
    ]
    refused = [row for row in rows if row["status"] == "oom"]
    if not fitting:
        return not_measured(
            group.title, why_missing(rows, "no configuration has a peak memory"), key=group.key
        )
    largest, first = fitting[-1], refused[0] if refused else None
    crossed = first is not None and first["batch_size"] < largest["batch_size"]
    first_in_words = group.value_in_words(first) if first else ""
    device_mib, asked_mib = (
        float(largest["device_memory_mib"]),
        float((first or {}).get("memory_asked_mib", math.nan)),
    )
    share = estimate(largest, "memory_peak_mib").mapped(lambda mib: mib / device_mib)
    return Outcome(
        verdict="no" if first is None else "not resolved" if crossed else "yes",
        fields={
            "subject": group.title,
            "device": device_in_words(largest["device"]),
            "largest": Named(largest, group.value_in_words(largest)),
            "share": ""
            if math.isnan(device_mib)
            else f", {phrases.as_share(share, short=True)} of the device's "
            f"{memory(device_mib).plain()}",
            "first": first_in_words,
            "asked": ""
            if math.isnan(asked_mib)
            else f": an allocation of {memory(asked_mib).plain()} failed",
            "doubt": f"{first_in_words} did not fit although a larger one did",
        },
        evidence=(
            *phrases.evidence_of_columns(fitting[-1:], MEMORY, group.table),
            *(
                phrases.evidence(
                    "out of memory", memory_asked(row) or "it did not fit", group.table, row
                )
                for row in refused
            ),
            *phrases.evidence_of_columns(fitting[-2::-1], MEMORY, group.table),
        ),
        key=group.key,
    )


def _ends(rows: Sequence[Row]) -> tuple[Row, Row] | None:
    return (rows[0], rows[-1]) if len(rows) > 1 else None


def _by_parameters(rows: Iterable[Row]) -> list[Row]:
    """The variants by growing number of parameters, the first for each number."""
    unique = {row["parameters"]: row for row in reversed([*rows])}
    return [unique[parameters] for parameters in sorted(unique)]


def _parameter_ratio(large: Row, small: Row) -> float:
    return float(large["parameters"] / small["parameters"])


_STEP_TIME_GROWTH: Final = Comparison(
    choose=lambda group: _ends(_by_parameters(group.measured)),
    figure=ratio_of("step_time_ms"),
    limit=_parameter_ratio,
    limit_in_words="",
    holds="below",
    lacking=_TWO_SIZES,
    evidence={"step_time_ms": "time per step"},
    of_both=True,
    more=lambda compared: {"more": factor_alone(_parameter_ratio(compared.after, compared.before))},
)


RULES: Final = (
    Rule(
        name="smaller",
        about="batch_size",
        question="Is a smaller batch nearly as fast as the fastest?",
        threshold="Nearly as fast means at least 95 % of the highest throughput, intervals "
        "included; the smallest such batch is named. What ran out of memory is left out.",
        test=per_group(_smaller),
        yes="{subject} trained fastest with {fastest}: {fastest.throughput_per_s}{reached}, the "
        "smallest within 5 %.",
        no="{subject} trained fastest with {fastest}: {fastest.throughput_per_s}. No smaller "
        "batch came within 5 %{reached}.",
        unresolved="{subject} trained fastest with {fastest}: "
        "{fastest.throughput_per_s}{reached}. Whether a smaller batch is within 5 %",
        advice={
            "yes": "Train {subject} with {fastest}, the fastest that fits; the smallest within 5 "
            "% of it is {near}.",
            **dict.fromkeys(
                ("no", "not resolved"), "Train {subject} with {fastest}, the fastest that fits."
            ),
        },
    ),
    Rule(
        name="quality",
        about="batch_size",
        question="Does held-out quality fall with the batch size?",
        threshold=QUALITY_THRESHOLD
        + f" A batch size that made fewer than {FEWEST_STEPS} optimizer steps says nothing about "
        "quality and is left out. Time to target is training time, without evaluation.",
        test=per_group(_quality),
        yes="The quality of {subject} fell with the batch size{measured}",
        no="The quality of {subject} did not fall with the batch size{measured}",
        unresolved="Whether the quality of {subject} falls with the batch size",
        measured=": held-out {after.quality_name} {after.quality} with {after}, against "
        "{before.quality:short} with {before}{by_seed}.{to_target}{left_out}",
        advice=dict.fromkeys(
            ("yes", "no", "not resolved"),
            "Train {subject} with {soonest}: it reaches {after.quality_name} {target} first.",
        ),
    ),
    Rule(
        name="bounded",
        about="batch_size",
        question="Does GPU memory limit the batch size?",
        threshold="It does if a batch size of the study ran out of memory and every one that fit "
        "is smaller. The peak is that of the tensors; what the allocator reserves comes on top.",
        test=lambda scope: [
            _bounded_in(group)
            for group in scope.groups
            if any(row["device"] != CPU for row in group.rows)
        ],
        yes="The largest batch of {subject} that fit on {device} was {largest}: it took "
        "{largest.memory_peak_mib} at its peak{share}, and trained "
        "{largest.throughput_per_s:short}. With {first}, memory ran out{asked}.",
        no="Every measured batch of {subject} fit on {device}: {largest}, the largest, took"
        " {largest.memory_peak_mib} at its peak{share}.",
        unresolved="Which batch of {subject} fills the memory of {device}",
        measured=": {largest} took {largest.memory_peak_mib} at its peak{share}.",
    ),
    Rule(
        name="time_growth",
        about="size",
        question="Does the time of a step grow more slowly than the number of parameters?",
        threshold="More slowly means that the time of a step, intervals included, grows by a "
        "smaller factor than the parameters do, from the smallest to the largest model.",
        test=_STEP_TIME_GROWTH,
        yes="Time grew more slowly than parameters for {subject}{measured}",
        no="Time grew faster than parameters for {subject}{measured}",
        unresolved="Whether time grows more slowly than parameters for {subject}",
        measured=": with {more} the parameters, {after.parameters} instead of "
        "{before.parameters}, a step took {figure} as long.",
    ),
    Rule(
        name="overhead",
        about="size",
        question="Do fixed costs per step dominate the smallest model?",
        threshold="They do if the next larger model takes less than the square root of the factor "
        "in parameters longer: then more than half of the growth, on a logarithmic scale, is "
        "hidden behind costs that do not grow.",
        test=replace(
            _STEP_TIME_GROWTH,
            choose=lambda group: _ends(_by_parameters(group.measured)[:2]),
            limit=lambda large, small: math.sqrt(_parameter_ratio(large, small)),
        ),
        yes="Fixed costs dominate the smallest model of {subject}: {after} has {more} the "
        "parameters of {before}, yet a step took only {figure} as long.",
        no="Fixed costs do not dominate the smallest model of {subject}: {after} has {more} the "
        "parameters of {before}, and a step took {figure} as long.",
        unresolved="Whether fixed costs dominate the smallest model of {subject}",
        measured=": {after} has {more} the parameters of {before}, and a step took {figure} as "
        "long.",
        advice={
            "yes": "Give each step of {subject} with {before} more work, for instance larger "
            "batches."
        },
    ),
    Rule(
        name="which",
        about=BATCH_SEARCH,
        question="Which batch size fits, and which trains fastest?",
        threshold=f"The largest is resolved if a batch that is larger by {_RESOLUTION} or less "
        "failed. Throughputs are of one process each, so two that are close may change places in "
        "another.",
        test=lambda scope: map(_outcome, grouped(scope.rows, lambda row: row["search"]).values()),
        yes="{subject}: the largest batch that fits has {largest.samples} samples and leaves"
        " {largest.headroom_share} of {limit}. {speed}.",
        no="",
        unresolved="{subject}: the largest batch that fits has {largest.samples} samples or more, "
        "which leave {largest.headroom_share} of {limit}. {speed}.",
    ),
)
