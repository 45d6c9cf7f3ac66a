"""Rules about the axis of devices, and about the hardware.

What does an accelerator gain over the CPU, what does the gain go with, and from which batch size on
is there one (A3, A5)? Do both learn the same (A4)? How near do trainings come to the ceilings of
the hardware (C5), how fast are copies (B1), what are its limits (C8)?
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, against_other, estimate, ratio_of, speedup
from gpu_report.findings.finding import Evidence, Verdict
from gpu_report.findings.phrases import CPU
from gpu_report.findings.rule import (
    BY_HOLM,
    HALF,
    Compared,
    Comparison,
    Outcome,
    Rule,
    baseline_and_other,
    not_measured,
    verdict_of,
    why_missing,
)
from gpu_report.findings.scope import (
    EFFICIENCY,
    ENERGY,
    TRANSFER,
    Group,
    Scope,
    has_whole_twin,
    key_of,
)
from gpu_report.glossary import Row
from gpu_report.printing.number_format import count, share, size
from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import grouped, rows_of
from gpu_report.tables.marks import MEANINGS, marks_in
from gpu_report.words import (
    device_in_words,
    model_words,
    optimization_in_words,
    settings_in_words,
    titled,
)

CLEARLY_MORE: Final = 1.10
CONVOLUTION: Final = "convolution"
SHARE_APART: Final = 0.05
AGREE_WITHIN_PERCENT: Final = 1.0
NO_ACCELERATOR: Final = "no configuration of this study ran on a GPU"

_CROSSINGS: Final[Mapping[str, Verdict]] = {
    "crosses": "yes",
    "accelerator always": "yes",
    "cpu always": "no",
}


def twin(row: Row) -> tuple[str, ...]:
    """What a variant shares with its twin on another device."""
    return tuple(str(row[field.name]) for field in fields(Variant) if field.name != "device")


def gains(scope: Scope) -> list[Compared]:
    """Every measured speedup over a measured baseline on another device, in the order of the
    table.
    """
    return [
        Compared(group=group, before=group.baseline, after=row, figure=speedup(row, group.baseline))
        for group in scope.groups
        if group.baseline is not None
        for row in _on_others(group)
    ]


def _on_others(group: Group) -> list[Row]:
    """The measured variants on another device than the measured baseline."""
    baseline = group.baseline
    return [row for row in group.others if baseline and row["device"] != baseline["device"]]


def along_batch_sizes(scope: Scope) -> bool:
    """Whether a workload is asked about at several batch sizes, so that the crossover is what
    follows.
    """
    batches = {(row["workload"], row["size"], row["batch_size"]) for row in scope.rows}
    return len(batches) > len({(workload, size) for workload, size, _ in batches})


def _on_one_device(scope: Scope) -> bool:
    return len({row["device"] for row in scope.rows}) < 2


def _each_accelerator(scope: Scope) -> Iterable[Group]:
    """A group for each accelerator and the baseline; where either is missing, one of what was not
    measured.
    """
    for group in scope.groups:
        others = _on_others(group)
        if group.baseline is None or not others:
            yield replace(group, rows=tuple(row for row in group.rows if row not in group.others))
            continue
        for row in others:
            key = group.key + (f"_{row['device'].replace(':', '')}" if len(others) > 1 else "")
            shown = {**row, "has_whole_twin": has_whole_twin(row, scope.rows)}
            yield replace(group, key=key, rows=(group.baseline, shown))


def _time_saved(ratio: Estimate) -> Estimate:
    return ratio.mapped(lambda times: 1 - 1 / times)


def _gain_evidence(gain: Compared) -> tuple[Evidence, ...]:
    named = partial(phrases.evidence, table=gain.group.table)
    return (
        named("speedup", phrases.times(gain.figure), row=gain.after),
        named("time saved", phrases.as_share(_time_saved(gain.figure)), row=gain.after),
        *(
            named("throughput", phrases.of_column(row, "throughput_per_s"), row=row)
            for row in (gain.before, gain.after)
        ),
    )


_FASTER_IN_GROUPS: Final = Comparison(
    groups=_each_accelerator,
    choose=baseline_and_other,
    evidence=_gain_evidence,
    more=lambda gain: {"slowdown": gain.figure.inverse, "saved": _time_saved(gain.figure)},
    gain=lambda gain: gain.figure if gain.figure.against(1.0) == "above" else gain.figure.inverse,
    advises=lambda gain: not gain.after["has_whole_twin"],
)


def _faster(scope: Scope, *, along_sizes: bool) -> Iterable[Outcome]:
    if along_batch_sizes(scope) != along_sizes:
        return []
    if _on_one_device(scope):
        return [not_measured("the gain of a GPU", NO_ACCELERATOR)]
    return _FASTER_IN_GROUPS(scope)


def _ranked(scope: Scope) -> list[Compared]:
    """The gains on the first accelerator of the table, greatest first: one for each workload."""
    found = gains(scope)
    return sorted(
        (gain for gain in found if gain.after["device"] == found[0].after["device"]),
        key=lambda gain: -gain.figure.value,
    )


def _too_few(scope: Scope, ranked: Sequence[Compared]) -> str:
    if _on_one_device(scope):
        return NO_ACCELERATOR
    if ranked:
        return f"{ranked[0].group.title} alone has what this compares; it takes two workloads"
    return why_missing(scope.rows, "no workload has what this compares")


def _compares_workloads(scope: Scope) -> bool:
    return len({row["workload"] for row in scope.rows}) > 1


def _gains_most(scope: Scope) -> Iterable[Outcome]:
    if not _compares_workloads(scope):
        return []
    ranked = _ranked(scope)
    if len(ranked) < 2:
        return [not_measured("the workload that gains most", _too_few(scope, ranked))]
    first, second = ranked[:2]
    ahead = first.figure.over(second.figure)
    return [
        Outcome(
            verdict=verdict_of(ahead, CLEARLY_MORE),
            fields={
                "subject": first.group.title,
                "speedup": first.figure,
                "second": second.group.title,
                "second_speedup": second.figure,
                "device": device_in_words(first.after["device"]),
                "doubt": ahead.why_unclear("10 %"),
            },
            evidence=tuple(
                phrases.evidence(
                    f"speedup of {gain.group.title}",
                    phrases.times(gain.figure),
                    scope.table,
                    gain.after,
                )
                for gain in ranked
            ),
        )
    ]


def _configuration(row: Row) -> str:
    return ", ".join(settings_in_words(row)) or "eager fp32"


def _fastest_cpu(scope: Scope) -> Iterable[Outcome]:
    """Against the CPU's fastest configuration, where more than one was measured."""
    for gain in gains(scope):
        if not estimate(gain.after, "fastest_cpu_speedup").known:
            continue
        fastest = max(
            (row for row in gain.group.measured if row["device"] == CPU),
            key=lambda row: float(row["throughput_per_s"]),
        )
        figure = against_other(gain.after, "fastest_cpu_speedup", fastest)
        device = device_in_words(gain.after["device"])
        yield Outcome(
            verdict=verdict_of(figure, 1.0),
            fields={
                "subject": gain.group.title,
                "device": device,
                "figure": figure,
                "fastest": _configuration(fastest),
                "over_fastest": ", which is its fastest configuration"
                if fastest is gain.before
                else f", {phrases.times(figure, short=True)} that of its fastest configuration, "
                f"{_configuration(fastest)}",
                "speedup": gain.figure,
                "baseline": _configuration(gain.before),
                "doubt": figure.why_unclear("1"),
            },
            evidence=(
                phrases.evidence(
                    "speedup over the fastest CPU configuration",
                    phrases.times(figure),
                    scope.table,
                    gain.after,
                ),
                *(
                    phrases.evidence(
                        "throughput", phrases.of_column(row, "throughput_per_s"), scope.table, row
                    )
                    for row in (gain.after, fastest)
                ),
            ),
            key=key_of(f"{gain.group.key} {device}"),
        )


def _convolutions(scope: Scope) -> Iterable[Outcome]:
    """Whether the workload that gains most is that with the most convolutions; none at all is a
    share of 0.
    """
    if not _compares_workloads(scope):
        return []
    frame = scope.tables.category_shares
    chosen = frame[frame["category"] == CONVOLUTION]
    shares: dict[str, float] = dict.fromkeys(frame["variant"].tolist(), 0.0)
    shares |= dict(zip(chosen["variant"].tolist(), chosen["share"].tolist(), strict=True))
    ranked = [gain for gain in _ranked(scope) if gain.before["variant"] in shares]
    if len(ranked) < 2:
        return [not_measured("what the gain goes with", _too_few(scope, ranked))]
    densities = {gain.group.key: shares[gain.before["variant"]] for gain in ranked}
    by_share = sorted(ranked, key=lambda gain: -densities[gain.group.key])
    most, densest, next_densest = ranked[0], *by_share[:2]
    doubt = ""
    if most.figure.over(ranked[1].figure).against(CLEARLY_MORE) != "above":
        doubt = "no workload gains clearly more than the others"
    elif densities[densest.group.key] - densities[next_densest.group.key] < SHARE_APART:
        doubt = "the shares of convolutions hardly differ"
    return [
        Outcome(
            verdict="not resolved" if doubt else "yes" if most is densest else "no",
            fields={
                "most": most.group.title,
                "speedup": most.figure,
                "most_share": share(densities[most.group.key]).plain(),
                "densest": densest.group.title,
                "densest_share": share(densities[densest.group.key]).plain(),
                "baseline": device_in_words(most.before["device"]),
                "doubt": doubt,
            },
            evidence=tuple(
                phrases.evidence(
                    f"time in convolutions of {gain.group.title}",
                    share(densities[gain.group.key]).plain(),
                    "category_shares",
                    gain.before,
                )
                for gain in ranked
            ),
        )
    ]


def _crossover(scope: Scope) -> Iterable[Outcome]:
    found = [row for row in rows_of(scope.tables.crossovers) if row["experiment"] == scope.name]
    if found:
        return [_crossover_of(scope, row) for row in found]
    asked = not _on_one_device(scope) and along_batch_sizes(scope)
    return (
        [not_measured("the crossover", why_missing(scope.rows, "it takes two batch sizes"))]
        if asked
        else []
    )


def _crossover_of(scope: Scope, row: Row) -> Outcome:
    compared = [
        one
        for one in scope.rows
        if one["workload"] == row["workload"] and one["device"] in (CPU, row["device"])
    ]
    doubtful = [rate for one in compared if (rate := estimate(one, "throughput_per_s")).doubts]
    crossing = phrases.of_column(row, "batch_size")
    smallest, largest = count(row["smallest"]).plain(), count(row["largest"]).plain()
    subject = row["group"]
    if compared:
        loop = (
            f" with {optimization_in_words(compared[0]['options'])}"
            if compared[0]["begins_anew"]
            else ""
        )
        subject = model_words(compared[0]) + loop
    return Outcome(
        verdict="not resolved" if doubtful else _CROSSINGS.get(row["verdict"], "not resolved"),
        fields={
            "subject": subject,
            "device": device_in_words(row["device"]),
            "from": f"from batch size {crossing} on"
            if row["verdict"] == "crosses"
            else f"at every batch size measured, {smallest} to {largest}",
            "smallest": smallest,
            "largest": largest,
            "doubt": doubtful[0].why_unclear("")
            if doubtful
            else "the speedup crosses 1 not just once",
        },
        evidence=(
            Evidence(
                label=f"batch size at which both are equally fast, {row['group']}",
                value=crossing if estimate(row, "batch_size").known else str(row["verdict"]),
                table="crossovers",
                variant="",
            ),
        ),
        key=key_of(f"{row['group']} {row['device']}"),
    )


def _consistency(scope: Scope) -> Iterable[Outcome]:
    """Loops that a workload brings are compared with float64 instead."""
    if _on_one_device(scope):
        return [not_measured("the agreement of CPU and GPU", NO_ACCELERATOR)]
    compared = [
        row
        for row in rows_of(scope.tables.consistency)
        if not math.isnan(row["difference_percent"])
    ]
    return [
        _agreement(scope, row, [other for other in compared if other["variant"] == row["variant"]])
        for row in scope.rows
        if row["device"] != CPU and not row["begins_anew"]
    ]


def _agreement(scope: Scope, row: Row, compared: Sequence[Row]) -> Outcome:
    on_accelerators = [other for other in scope.rows if other["device"] != CPU]
    # Short where that names the pair alone, else the whole name of the accelerator's variant.
    short = ("workload", "size", "batch_size", "device")
    alike = [other for other in scope.rows if all(other[name] == row[name] for name in short)]
    title, key = (
        titled(row, on_accelerators, leave_out=("device",)),
        key_of("_".join(str(row[name]) for name in short) if len(alike) == 1 else row["variant"]),
    )
    twins = [other for other in scope.rows if twin(other) == twin(row)]
    if row["status"] != "ok" or not compared:
        alone = (
            "the CPU was not trained for as many steps"
            if len(twins) < 2
            else "no two of its processes compare"
        )
        return not_measured(title, why_missing(twins, alone), key=key)
    worst = max(compared, key=lambda other: float(other["difference_percent"]))
    difference = float(worst["difference_percent"])
    # How far the seeds alone move the same figure on the reference device: its range over
    # processes, of the median. NaN with one process, where no spread is known.
    frame = scope.tables.convergence
    values = frame[
        (
            frame["variant"].isin(
                [each["variant"] for each in twins if each["device"] == worst["reference_device"]]
            )
        )
        & (frame["epoch"] == worst["epoch"])
    ][worst["metric"]].dropna()
    middle = float(values.median()) if len(values) > 1 else math.nan
    spread = 100 * float(values.max() - values.min()) / abs(middle) if middle else math.nan
    largest = {
        metric: max(other["difference_percent"] for other in compared if other["metric"] == metric)
        for metric in dict.fromkeys(other["metric"] for other in compared)
    }
    return Outcome(
        verdict="yes"
        if difference <= AGREE_WITHIN_PERCENT
        else "not resolved"
        if difference <= spread
        else "no",
        fields={
            "subject": title,
            "device": device_in_words(row["device"]),
            "reference": device_in_words(worst["reference_device"]),
            "difference": phrases.percent_alone(difference),
            "where": f"{worst['metric'].replace('_', ' ')} after epoch {worst['epoch'] + 1}",
            "spread": phrases.percent_alone(spread),
        },
        evidence=tuple(
            phrases.evidence(
                f"largest difference in {metric.replace('_', ' ')}",
                phrases.percent_alone(most),
                "consistency",
                row,
            )
            for metric, most in largest.items()
        ),
        key=key,
    )


_FASTER: Final = Rule(
    name="faster",
    about="device",
    question="Does training run faster on the GPU than on the CPU?",
    threshold="Faster means that the whole interval of the speedup" + BY_HOLM,
    test=partial(_faster, along_sizes=False),
    yes="{subject} trained {figure} as fast on {after} as on {before}, which saved {saved:%short} "
    "of the time.",
    no="{subject} did not gain from {after}: it took {slowdown} as long as on {before}.",
    unresolved="Whether {subject} trains faster on {after} than on {before}",
    measured="; it trained {figure} as fast.",
    advice={
        "yes": "Train {subject} on {after} instead of {before}.",
        "no": "Train {subject} on {before}; {after} costs time at this size.",
    },
)

RULES: Final = (
    _FASTER,
    replace(_FASTER, test=partial(_faster, along_sizes=True), advice={}),
    Rule(
        name="gains_most",
        about="device",
        question="Which workload gains most from the GPU?",
        threshold="One gains clearly more if its speedup is above that of the next by more than "
        "10 %, intervals included; less does not help to choose what to move.",
        test=_gains_most,
        yes="{subject} gained most from {device}: {speedup} the speed, against "
        "{second_speedup:short} for {second}.",
        no="No workload gained clearly more than the others from {device}: {subject} ran "
        "{speedup} as fast, {second} {second_speedup:short}.",
        unresolved="Which workload gains most from {device}",
        measured=": {subject} ran {speedup} as fast, {second} {second_speedup:short}.",
    ),
    Rule(
        name="fastest_cpu",
        about="device",
        question="Is the GPU faster than the CPU's fastest configuration?",
        threshold="The fastest CPU configuration is that of the highest throughput among those "
        "measured with the same model and batch. Faster means that the whole interval of the "
        "speedup over it is above 1.",
        test=_fastest_cpu,
        yes="{subject} on {device}: {speedup:short} the speed of the CPU in {baseline}"
        "{over_fastest}.",
        no="{subject} trained no faster on {device} than in the CPU's fastest configuration, "
        "{fastest}: {figure:short} the speed.",
        unresolved="Whether {subject} trains faster on {device} than in the CPU's fastest "
        "configuration, {fastest},",
        measured="; it trained {figure:short} as fast.",
        not_measured="",
    ),
    Rule(
        name="convolutions",
        about="device",
        question="Do convolutions explain which workload gains most?",
        threshold="They do if the workload that clearly gains most also spends the largest share "
        "of its CPU time in convolutions, by at least 5 percentage points; this shows that the "
        "two go together, not why.",
        test=_convolutions,
        yes="The workload that gained most, {most} at {speedup} the speed, is also the one with "
        "the most time in convolutions: {most_share} of its time on {baseline}.",
        no="Convolutions do not explain the gain: {most} gained most, {speedup} the speed, with "
        "{most_share} of its time on {baseline} in convolutions, while {densest} spent "
        "{densest_share} there.",
        unresolved="Whether convolutions explain the gain",
        measured="; {densest} spent the most time in them, {densest_share} of its time on "
        "{baseline}.",
    ),
    Rule(
        name="crossover",
        about="device",
        question="From which batch size is the GPU faster than the CPU?",
        threshold="There is one if the faster device changes once between the measured batch "
        "sizes, in favor of the GPU, and the whole interval of the crossing is between them; or "
        "if the GPU is faster at every one. Between two sizes the logarithm of the speedup is "
        "taken as a straight line in that of the batch.",
        test=_crossover,
        yes="{device} trained {subject} faster than the CPU {from}.",
        no="{device} trained {subject} more slowly than the CPU at every batch size measured, "
        "{smallest} to {largest}.",
        unresolved="From which batch size {device} trains {subject} faster than the CPU is not "
        "resolved between {smallest} and {largest}, because {doubt}.",
        advice={"yes": "Train {subject} on {device} {from}."},
    ),
    Rule(
        name="consistency",
        about="device",
        question="Do CPU and GPU give the same losses and quality?",
        threshold="The same means that losses and quality differ by 1 % at most in every epoch, "
        "for the same seeds. Sums in another order change the last digits and training amplifies "
        "that, so a larger difference that another seed would make as well is not resolved.",
        test=_consistency,
        yes="{subject} gave the same on {device} as on {reference}: the largest difference is "
        "{difference} ({where}).",
        no="{subject} gave different results on {device} than on {reference}: the largest "
        "difference is {difference} ({where}), more than other seeds make ({spread}).",
        unresolved="{subject} differs by up to {difference} ({where}) between {device} and "
        "{reference}, which is more than 1 % but no more than what other seeds make ({spread}).",
    ),
)


PINNED: Final = "pinned"
PAGEABLE: Final = "pageable"
HELD_BACK: Final = ("throttled", "power capped", "clock drift", "shared device")
"""Quality flags of anything that lowered or moved the GPU's speed."""

_WAYS: Final = {"to device": "to {}", "to host": "from {} to the host"}


def _farthest_and_nearest(group: Group) -> tuple[Row, Row] | None:
    known = [row for row in group.rows if estimate(row, "share_of_peak").known]
    farthest, nearest = (
        choose(known, key=lambda row: float(row["share_of_peak"]), default=None)
        for choose in (min, max)
    )
    return (farthest, nearest) if farthest and nearest else None


def share_of_roof(row: Row) -> Estimate:
    """Achieved over roof, with the interval of the throughput alone."""
    roof = float(row["roof_flops_per_s"])
    return estimate(row, "achieved_flops_per_s").mapped(lambda achieved: min(1.0, achieved / roof))


def _ways(scope: Scope) -> list[Group]:
    """The copies by device and direction, by growing size."""
    copies = [
        {**row, "status": "ok"} for row in sorted(scope.rows, key=lambda row: int(row["bytes"]))
    ]
    by_way = grouped(copies, lambda row: (row["device"], row["direction"]))
    return [
        Group(
            title=f"copies {_WAYS[direction].format(device_in_words(device))}",
            key=key_of(f"{device} {direction}"),
            axis="bytes",
            table=scope.table,
            rows=tuple(rows),
        )
        for (device, direction), rows in by_way.items()
    ]


def _pageable_and_pinned(group: Group) -> tuple[Row, Row] | None:
    """Of the largest size that was copied from both."""
    pinned, pageable = (
        {row["bytes"]: row for row in group.rows if row["memory"] == memory}
        for memory in (PINNED, PAGEABLE)
    )
    both = sorted(pinned.keys() & pageable.keys())
    return (pageable[both[-1]], pinned[both[-1]]) if both else None


def _held_back(scope: Scope) -> Iterable[Outcome]:
    watched = [row for row in scope.rows if row["power_w"] > 0]
    if not watched:
        return [not_measured("what slowed the GPU", "its driver reported nothing")]
    marked = {
        mark: [row for row in watched if mark in marks_in(row["marks"])] for mark in HELD_BACK
    }
    affected = {mark: rows for mark, rows in marked.items() if rows}
    return [
        Outcome(
            verdict="yes" if affected else "no",
            fields={
                "marks": "; ".join(
                    f"{mark} in {phrases.how_many(len(rows), len(watched), 'configuration')} "
                    f"({MEANINGS[mark]})"
                    for mark, rows in affected.items()
                ),
                "watched": phrases.how_many(len(watched), len(watched), "configuration"),
            },
            evidence=tuple(
                phrases.evidence(
                    "quality flags", ", ".join(marks_in(row["marks"])), "variants", row
                )
                for row in watched
                if any(row in rows for rows in affected.values())
            ),
        )
    ]


HARDWARE_RULES: Final = (
    Rule(
        name="nearest",
        about=EFFICIENCY,
        question="Does any training reach half of the device's measured peak?",
        threshold="Half of the rate of a large matrix product in the same precision, intervals "
        "included: beyond it, no change of the program that keeps its arithmetic can make it "
        "twice as fast.",
        test=Comparison(
            groups=lambda scope: [
                Group(
                    title=device_in_words(device),
                    key=key_of(device),
                    axis="",
                    table=scope.table,
                    rows=tuple(row for row in scope.rows if row["device"] == device),
                )
                for device in dict.fromkeys(row["device"] for row in scope.rows)
            ],
            choose=_farthest_and_nearest,
            figure=lambda nearest, _: estimate(nearest, "share_of_peak"),
            limit=HALF,
            limit_in_words="50 %",
            lacking="no share of its peak is known",
            evidence={"share_of_peak": "share of the measured peak"},
        ),
        yes="{after} reached the most, {after.share_of_peak} of the measured {after.precision} "
        "peak of {subject}; {before} the least, {before.share_of_peak:short} of the "
        "{before.precision} peak.",
        no="No training reached half of the measured peak of {subject}: {after} reached the most, "
        "{after.share_of_peak} in {after.precision}, {before} the least, "
        "{before.share_of_peak:short} in {before.precision}.",
        unresolved="Whether a training reaches half of the measured peak of {subject}",
        measured=": {after} reached {after.share_of_peak} of that in {after.precision}.",
    ),
    Rule(
        name="pinned",
        about=TRANSFER,
        question="Does pinned memory make copies faster?",
        threshold="It does if the ratio of both bandwidths at the largest size is above 1, "
        "intervals included. What a training gains from it is another question.",
        test=Comparison(
            groups=_ways,
            choose=_pageable_and_pinned,
            figure=ratio_of("bandwidth_gb_per_s"),
            lacking="no size was copied from both kinds of memory",
            unknown="their bandwidth is not known",
            evidence=lambda compared: tuple(
                Evidence(
                    label=f"bandwidth {row['direction']}, {row['memory']}, "
                    f"{size(row['bytes']).plain()}",
                    value=phrases.of_column(row, "bandwidth_gb_per_s"),
                    table=TRANSFER + "s",
                    variant="",
                )
                for row in [compared.before, compared.after]
                if estimate(row, "bandwidth_gb_per_s").known
            ),
            more=lambda compared: {"size": size(compared.after["bytes"]).plain()},
        ),
        yes="Pinned memory made {subject} faster{measured}",
        no="Pinned memory made {subject} slower{measured}",
        unresolved="Whether pinned memory makes {subject} faster",
        measured=": {after.bandwidth_gb_per_s:short} with copies of {size}, {figure} the"
        " {before.bandwidth_gb_per_s:short} from pageable memory.",
    ),
    Rule(
        name="held_back",
        about=ENERGY,
        question="Was the GPU slowed down or shared while it was measured?",
        threshold="It was if one configuration has a quality flag that says so. Under a power cap "
        "a device works as it always does under full load; heat and other programs invalidate its "
        "times.",
        test=_held_back,
        yes="Quality flags: {marks}.",
        no="In {watched} whose GPU was watched, there was no sign of heat, a power cap, drifting "
        "clocks or other programs.",
    ),
)
