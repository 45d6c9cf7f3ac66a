"""Rules about any axis, from which other modules take theirs, and those about precisions, workers
and workloads.

The precision: does another train faster, cost quality, save memory or energy (B2, C4)? DataLoader
workers: do they help, and how many suffice (E4)? Workloads: which phase takes most of a step (C3)?
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import (
    estimate,
    falls,
    is_paired,
    is_share,
    of_one_run,
    quality_change,
    quality_gain,
    ratio_of,
    speedup,
)
from gpu_report.findings.finding import Evidence, Verdict
from gpu_report.findings.phrases import Named
from gpu_report.findings.rule import (
    ANY_AXIS,
    BY_HOLM,
    HALF,
    MEMORY,
    THROUGHPUT,
    AllOrAny,
    Compared,
    Comparison,
    Figures,
    Outcome,
    Rule,
    baseline_and_fastest,
    evidence_of,
    not_measured,
    over_baseline,
    per_group,
    why_missing,
)
from gpu_report.findings.scope import Group, Scope
from gpu_report.glossary import QUALITY_TOLERANCE, Row
from gpu_report.printing.number_format import count
from gpu_report.tables.bundle import rows_of
from gpu_report.words import listed

KNOWN_AXES: Final = (
    "device",
    "size",
    "workers",
    "batch_size",
    "workload",
    "precision",
    "optimization",
    "parallelism",
)
"""Axes with rules of their own for what those about any axis ask, or between whose values quality
is not comparable.
"""

NO_QUALITY: Final = (
    "a training diverged, or the workload has no held-out metric, so that there are no two "
    "qualities"
)
MEMORY_TOLERANCE: Final = 0.10
SUFFICES: Final = 0.95
WAIT_FALLS_BY: Final = 0.05
SCALED: Final = "fp16"
"""The precision whose gradients are scaled, because small ones would vanish in it."""

_MOST_RIVALS_NAMED: Final = 2
_PHASES: Final = ("forward_share", "backward_share", "optimizer_share")
_BY_SPEEDUP: Final = baseline_and_fastest("speedup")


def rivals(compared: Compared) -> dict[str, str]:
    """The others that may be as fast as the fastest, as the end of a sentence that names it.

    A time with a quality flag is too long if anything, so that its variant may be faster than
    measured.
    """
    group, rate = compared.group, estimate(compared.after, "throughput_per_s")
    others = [
        (row, rate.over(estimate(row, "throughput_per_s")))
        for row in group.others
        if row is not compared.after
    ]
    alike = [row for row, ratio in others if not ratio.doubts and ratio.against(1.0) == "unclear"]
    doubted = [row for row, ratio in others if ratio.doubts]

    def named(rows: list[Row]) -> str:
        names = [group.value_in_words(row) for row in rows]
        return listed(names) if len(names) <= _MOST_RIVALS_NAMED else f"{len(names)} others"

    words = f"; not significantly slower: {named(alike)}" if alike else ""
    return {"rivals": words + (f"; times with a quality flag: {named(doubted)}" if doubted else "")}


def quality_evidence(group: Group, before: Row, after: Row) -> tuple[Evidence, ...]:
    """The quality of all variants, and what became of it seed by seed in the two that decide."""
    name, change = (
        f"held-out {after['quality_name']}",
        phrases.change_by_seed(after, before, short=False),
    )
    by_seed = (
        [phrases.evidence(f"change of {name} by seed", change, group.table, after)]
        if change
        else []
    )
    return (*by_seed, *evidence_of(group, {"quality": name}, [after, before]))


def by_seed(before: Row, after: Row) -> str:
    """The end of a sentence that gave both qualities, where the table paired processes of the same
    seeds.
    """
    if not is_paired(after, before):
        return ""
    change = quality_change(after, before)
    if change.low == change.high == 0:
        return "; seed by seed it did not change"
    return f"; seed by seed it changed by {phrases.change_by_seed(after, before)}"


def _loss_in_words(rows: Iterable[Row]) -> str:
    return "a loss of 0.02" if all(map(is_share, rows)) else "a loss of 2 %"


FASTEST: Final = Comparison(
    choose=_BY_SPEEDUP,
    evidence=THROUGHPUT,
    more=rivals,
    gain=lambda compared: compared.figure if compared.figure.against(1.0) == "above" else None,
)
BEST: Final = Rule(
    name="best",
    about=ANY_AXIS,
    unless=KNOWN_AXES,
    question="Which {axis} trains fastest?",
    threshold="Another value is faster if the whole interval of its speedup over the baseline"
    + BY_HOLM,
    test=FASTEST,
    yes="{subject} was fastest with {after}: {after.throughput_per_s:short}, {figure} the "
    "throughput with {before}{rivals}.",
    no="{subject} was fastest with {before}: {before.throughput_per_s:short}. The next, {after}, "
    "reached {figure} that.",
    unresolved="Whether {subject} is faster with {after} than with {before}",
    measured="; it trained {figure} as fast.",
    advice={"yes": "Train {subject} with {after} instead of {before}."},
)

QUALITY: Final = Comparison(
    choose=_BY_SPEEDUP,
    figure=quality_gain,
    limit=-QUALITY_TOLERANCE,
    holds="below",
    unknown=NO_QUALITY,
    evidence=lambda compared: quality_evidence(compared.group, compared.before, compared.after),
    more=lambda compared: {
        "by_seed": by_seed(compared.before, compared.after),
        "doubt": compared.figure.why_unclear(_loss_in_words([compared.before, compared.after])),
    },
)
QUALITY_THRESHOLD: Final = (
    "A fall means that the difference, intervals included, is more than 0.02: about what a few "
    "held-out samples make. Of a metric that falls as models get better, or is not from 0 to 1, "
    "it is a rise, or a fall, by more than 2 %. It is taken between processes of the same seed, "
    "which began alike, where both variants have the same seeds."
)

MORE_MEMORY: Final = Comparison(
    choose=_BY_SPEEDUP,
    figure=ratio_of("memory_peak_mib"),
    limit=1 + MEMORY_TOLERANCE,
    limit_in_words="10 % more",
    evidence=MEMORY,
    more=lambda compared: {
        "memory_kind": "device memory"
        if compared.after["memory_kind"] == "allocator"
        else "main memory"
    },
)
MEMORY_COST: Final = Rule(
    name="memory_cost",
    about=ANY_AXIS,
    unless=KNOWN_AXES,
    question="Does the fastest {axis} cost memory?",
    threshold="More memory means more than 10 % more, intervals included: allocators hand out "
    "memory in blocks, so that less than that is not due to the training.",
    test=MORE_MEMORY,
    yes="{subject} needed {after.memory_peak_mib} of {memory_kind} at its peak with {after}, "
    "{figure:short} the {before.memory_peak_mib:short} with {before}.",
    no="{subject} needed hardly more {memory_kind} with {after} than with {before}: "
    "{after.memory_peak_mib} at its peak, against {before.memory_peak_mib:short}.",
    unresolved="Whether {subject} needs more {memory_kind} with {after} than with {before}",
    measured=": {after.memory_peak_mib} at its peak, against {before.memory_peak_mib:short}.",
)
SAVING_THRESHOLD: Final = (
    " means at least 10 % less at the peak, intervals included: allocators hand out memory in "
    "blocks, so that less than that is not due to the training."
)


def _baseline_and_worst(figures: Figures) -> tuple[Row, Row]:
    worst = min(
        (row for row, _ in figures.pairs),
        key=lambda row: -row["quality"] if falls(row) else row["quality"],
    )
    return figures.group.baseline or worst, worst


def _worst_quality(figures: Figures) -> dict[str, Any]:
    baseline, worst = _baseline_and_worst(figures)
    return {
        "worst": Named(worst, figures.group.value_in_words(worst)),
        "extreme": "highest" if falls(worst) else "lowest",
        "by_seed": by_seed(baseline, worst),
        "doubt": figures.doubt(_loss_in_words([baseline, *(row for row, _ in figures.pairs)])),
        "compared": phrases.how_many(len(figures.pairs), len(figures.pairs), "other configuration"),
    }


QUALITY_OF_EACH: Final = Rule(
    name="quality",
    about="precision",
    question="Does any {axis} cost quality?",
    threshold=QUALITY_THRESHOLD,
    test=AllOrAny(
        asks="any",
        side="below",
        limit=-QUALITY_TOLERANCE,
        figures=over_baseline(quality_gain),
        item="with {row} {row.quality:short}",
        unknown=NO_QUALITY,
        evidence=lambda figures: quality_evidence(figures.group, *_baseline_and_worst(figures)),
        more=_worst_quality,
    ),
    yes="{subject} lost quality: held-out {worst.quality_name} {below}, against "
    "{baseline.quality:short} with {baseline}.",
    no="In {compared}, {subject} lost no quality: the {extreme} held-out {worst.quality_name} is "
    "{worst.quality:short}, with {worst}, against {baseline.quality:short} with "
    "{baseline}{by_seed}.",
    unresolved="Whether {subject} loses quality",
    measured="; the {extreme} held-out {worst.quality_name} is {worst.quality:short}, with "
    "{worst}, against {baseline.quality:short} with {baseline}{by_seed}.",
)


def with_energy(groups: Iterable[Group]) -> Iterable[Group]:
    """The groups whose driver reports energy, which a CPU's does not."""
    return [group for group in groups if any(row["power_w"] > 0 for row in group.rows)]


def _energy_known(group: Group) -> list[Row]:
    return [row for row in group.measured if estimate(row, "energy_per_sample_j").known]


def _baseline_and_fastest_with_energy(group: Group) -> tuple[Row, Row] | None:
    known = _energy_known(group)
    others = [row for row in known if not row["is_baseline"] and row["throughput_per_s"] > 0]
    if group.baseline not in known or not others:
        return None
    return group.baseline, max(others, key=lambda row: float(row["throughput_per_s"]))


def _rank_and_least(compared: Compared) -> dict[str, str]:
    """In which sense it is the fastest, as some faster ones end before the counter of energy moves;
    what took least.
    """
    group, fastest = compared.group, compared.after
    faster = any(row["throughput_per_s"] > fastest["throughput_per_s"] for row in group.others)
    least = min(_energy_known(group), key=lambda row: float(row["energy_per_sample_j"]))
    return {
        "rank": "the fastest that ran long enough for the energy counter"
        if faster
        else "the fastest",
        "least": "" if least is fastest else f"; {group.value_in_words(least)} took least",
    }


NO_ENERGY: Final = "no two configurations ran long enough for the driver's energy counter"
ENERGY_OF_FASTEST: Final = Comparison(
    groups=lambda scope: with_energy(scope.groups),
    choose=_baseline_and_fastest_with_energy,
    figure=ratio_of("energy_per_sample_j"),
    holds="below",
    lacking=NO_ENERGY,
    unknown=NO_ENERGY,
    evidence={"energy_per_sample_j": "energy per sample"},
    more=_rank_and_least,
)
SAVES_ENERGY: Final = Rule(
    name="energy",
    about="precision",
    question="Does the fastest {axis} save energy?",
    threshold="It does if the ratio of the GPU's energy per sample is below 1, intervals "
    "included. The energy of the host is not in it.",
    test=ENERGY_OF_FASTEST,
    yes="{subject} took less energy with {after}, {rank}{measured}",
    no="{subject} took more energy with {after}, {rank}{measured}",
    unresolved="Whether {subject} takes less energy with {after}, {rank},",
    measured=": {after.energy_per_sample_j} per sample, {figure:short} the "
    "{before.energy_per_sample_j:short} with {before}{least}.",
)


def _at_one_task(scope: Scope) -> Iterable[Group]:
    """The groups whose workloads solve one task, by metric and chance: of two tasks neither is
    faster.
    """
    return [group for group in scope.groups if len(set(map(_task, group.measured))) < 2]


def _task(row: Row) -> tuple[Any, ...]:
    """What distinguishes its task from others; without a chance level a workload's task is
    its own.
    """
    chance = float(row["quality_chance"])
    return row["quality_name"], row["workload"] if math.isnan(chance) else chance


def _skipped(scope: Scope) -> Iterable[Outcome]:
    scaled = [
        (group, row) for group in scope.groups for row in group.rows if row["precision"] == SCALED
    ]
    if not scaled:
        yield not_measured("gradient scaling", f"no configuration trains in {SCALED}")
    for group, row in scaled:
        if row["status"] != "ok" or math.isnan(row["skipped_steps"]):
            reason = why_missing([row], "its steps were not watched")
            yield not_measured(group.title, reason, key=group.key)
            continue
        skipped = count(row["skipped_steps"]).plain()
        scale = count(row["loss_scale_last"]).plain()
        yield Outcome(
            verdict="yes" if row["skipped_steps"] > 0 else "no",
            fields={
                "subject": group.title,
                "precision": group.value_in_words(row),
                "skipped": skipped,
                "steps": int((scope.tables.losses["variant"] == row["variant"]).sum()),
                "processes": int(row["processes"]),
                "scale": scale,
            },
            evidence=(
                phrases.evidence("skipped steps, all processes", skipped, group.table, row),
                phrases.evidence("last loss scale", scale, group.table, row),
            ),
            key=group.key,
        )


def _enough(group: Group) -> Outcome:
    """The first that is not below the limit, compared with the fastest of the others; the last
    where all are.
    """
    rows = group.measured
    if len(rows) < 2:
        return not_measured(
            group.title, why_missing(group.rows, "it takes two numbers of workers"), key=group.key
        )
    for row in rows:
        best = max(
            (other for other in rows if other is not row),
            key=lambda other: float(other["throughput_per_s"]),
        )
        reached = estimate(row, "throughput_per_s").over(estimate(best, "throughput_per_s"))
        if reached.against(SUFFICES) != "below":
            break
    verdict: Verdict = (
        "no"
        if row is rows[-1]
        else "not resolved"
        if reached.against(SUFFICES) == "unclear"
        else "yes"
    )
    return Outcome(
        verdict=verdict,
        fields={
            "subject": group.title,
            "enough": Named(row, group.value_in_words(row)),
            "share": reached,
            "best": group.value_in_words(best),
            "doubt": reached.why_unclear("95 %"),
        },
        evidence=evidence_of(group, THROUGHPUT, []),
        key=group.key,
        gain=None if group.baseline is None else speedup(row, group.baseline),
    )


def _with_phases(scope: Scope) -> Iterable[Group]:
    """The groups, each profiled variant with the shares of its phases in the step, 0 for one that
    took no time.
    """
    phases: dict[str, dict[str, float]] = {}
    for row in rows_of(scope.tables.phases):
        if not math.isnan(row["share"]):
            shares = phases.setdefault(row["variant"], dict.fromkeys(_PHASES, 0.0))
            shares[f"{row['phase']}_share"] = float(row["share"])
    profiled = {*scope.tables.step_shares["variant"]}
    for group in scope.groups:
        rows = [
            {**row, **phases.get(row["variant"], {}), "is_profiled": row["variant"] in profiled}
            for row in group.rows
        ]
        yield replace(group, table="phases", rows=tuple(rows))


def _why_no_phases(group: Group) -> str:
    refused = [row["variant"] for row in group.measured if row["is_profiled"]]
    return (
        f"the trace of {refused[0]} is not reliable" if refused else "no variant of it was profiled"
    )


RULES: Final = (
    BEST,
    replace(BEST, about="workload", advice={}, test=replace(FASTEST, groups=_at_one_task)),
    replace(BEST, about="precision"),
    Rule(
        name="quality_cost",
        about=ANY_AXIS,
        unless=KNOWN_AXES,
        question="Does the fastest {axis} cost quality?",
        threshold=QUALITY_THRESHOLD,
        test=QUALITY,
        yes="{subject} lost quality with {after}{measured}",
        no="{subject} lost no quality with {after}{measured}",
        unresolved="Whether {subject} loses quality with {after}",
        measured=": held-out {after.quality_name} {after.quality}, against {before.quality:short} "
        "with {before}{by_seed}.",
    ),
    MEMORY_COST,
    Rule(
        name="backward",
        about="workload",
        question="Does the backward pass take most of a step in every workload?",
        threshold="Most means more than half of the time on the device, in one profiled run of "
        "each workload; shares of one run have no interval, so that those near half say little.",
        test=AllOrAny(
            groups=_with_phases,
            figures=lambda group: [
                (row, of_one_run(row["backward_share"]))
                for row in group.measured
                if "backward_share" in row
            ],
            limit=HALF,
            noun="workload",
            item="{row.workload_title} forward {row.forward_share}, backward "
            "{row.backward_share}, optimizer {row.optimizer_share}",
            lacking=_why_no_phases,
            evidence={"backward_share": "share of the step's time in backward"},
        ),
        yes="The backward pass took more than half of the step in {count}: {all}.",
        no="The backward pass took more than half of the step in {count}: {all}.",
    ),
    Rule(
        name="help",
        about="workers",
        question="Do DataLoader workers help?",
        threshold="They help if the whole interval of the fastest's speedup over loading in the "
        "training process lies above 1.",
        test=Comparison(
            choose=baseline_and_fastest(),
            evidence=THROUGHPUT,
            gain=lambda found: (
                found.figure.inverse if found.figure.against(1.0) == "below" else None
            ),
        ),
        yes="DataLoader workers helped {subject}: with {after} it trained {figure} as fast as "
        "with {before}.",
        no="DataLoader workers did not help {subject}: even with {after}, the fastest, it trained "
        "{figure} as fast as with {before}.",
        unresolved="Whether DataLoader workers help {subject}",
        measured=": with {after} it trained {figure} as fast as with {before}.",
        advice={"no": "Load {subject} with {before}."},
    ),
    Rule(
        name="enough",
        about="workers",
        question="How many DataLoader workers suffice?",
        threshold="A number suffices if it reaches at least 95 % of the throughput of any other, "
        "intervals included; each further worker costs memory and a core, which 5 % would not "
        "repay.",
        test=per_group(_enough),
        yes="{enough} sufficed for {subject}: it trained {enough.throughput_per_s}, "
        "{share:%short} of what {best} gave, the fastest of the others.",
        no="The most measured, {enough}, may not suffice for {subject}: it trained "
        "{enough.throughput_per_s}, {share:%short} of what {best} gave.",
        unresolved="How many DataLoader workers suffice for {subject}",
        measured=": with {enough} it reached {share:%short} of what {best} gave, the fastest of "
        "the others.",
        advice={
            "yes": "Load {subject} with {enough}.",
            "no": "Load {subject} with at least {enough}, the most that were measured.",
        },
    ),
    Rule(
        name="data_wait",
        about="workers",
        question="Does the training wait less for data with DataLoader workers?",
        threshold="Less means that the share of time spent waiting falls by more than 5 "
        "percentage points, intervals included; less could not speed training up by more than 5 %.",
        test=Comparison(
            choose=baseline_and_fastest(),
            figure=lambda row, other: estimate(other, "data_wait_share").minus(
                estimate(row, "data_wait_share")
            ),
            limit=WAIT_FALLS_BY,
            limit_in_words="a fall by 5 percentage points",
            evidence={"data_wait_share": "time waiting for data"},
        ),
        yes="{subject} waited less for data{measured}",
        no="{subject} did not wait clearly less for data{measured}",
        unresolved="Whether {subject} waits less for data",
        measured=": {before.data_wait_share} of the time with {before}, "
        "{after.data_wait_share:short} with {after}.",
    ),
    QUALITY_OF_EACH,
    Rule(
        name="memory",
        about="precision",
        question="Does another precision save memory?",
        threshold="Saving" + SAVING_THRESHOLD,
        test=AllOrAny(
            asks="any",
            side="below",
            limit=1 - MEMORY_TOLERANCE,
            limit_in_words="10 % less",
            figures=over_baseline(ratio_of("memory_peak_mib")),
            item="with {row} {row.memory_peak_mib:short}, {figure:short} as much",
            evidence=MEMORY,
        ),
        yes="{subject} needed {baseline.memory_peak_mib} of memory at its peak with {baseline}, "
        "and less in another precision: {below}.",
        no="No other precision saved memory for {subject}, which needed "
        "{baseline.memory_peak_mib} with {baseline}: {all}.",
        unresolved="Whether another precision saves memory for {subject}",
        measured=": {all}, against {baseline.memory_peak_mib} with {baseline}.",
    ),
    Rule(
        name="skipped",
        about="precision",
        question="Did gradient scaling skip steps?",
        threshold="One skipped step is enough: its scaled gradients were not finite, the weights "
        "did not change, and the loss scale was halved. The scale starts too high on purpose and "
        "adapts by skipping.",
        test=_skipped,
        yes="{subject} skipped {skipped} of its {steps} steps with {precision}, in {processes} "
        "processes together; the last loss scale was {scale}.",
        no="{subject} skipped none of its {steps} steps with {precision}, in {processes} "
        "processes together; the last loss scale was {scale}.",
    ),
    SAVES_ENERGY,
)
