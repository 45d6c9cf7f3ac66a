"""Rules about optimizations: what speeds training up, what saves memory, and at what cost (B4, B5, C6)."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate, Row, ratio_of, speedup
from gpu_report.findings.finding import Evidence, Verdict
from gpu_report.findings.phrases import Named, optimization_in_words, times
from gpu_report.findings.rule import (
    BY_HOLM,
    MEMORY,
    NOTHING_TO_COMPARE,
    THROUGHPUT,
    AllOrAny,
    Compared,
    Comparison,
    Figures,
    Outcome,
    Rule,
    baseline_and_other,
    not_measured,
    over_baseline,
    why_missing,
)
from gpu_report.findings.rules import axes
from gpu_report.findings.scope import Group, Scope, key_of
from gpu_report.number_format import count, duration, memory, quantity
from gpu_report.options import NO_OPTIONS, SEPARATOR, ladder, option_names

SAVES_MEMORY: Final = "checkpoint"
"""The option that makes a training slower on purpose."""

WORKSPACE_SHARE: Final = 0.25
"""Of the peak: from there on a convolution's workspace is named, since it can hide what saving activations saves."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step up the ladder: the variant, the one below it, and what was added."""

    row: Row
    below: Row
    added: str

    @property
    def gain(self) -> Estimate:
        """Throughput over that of the variant below; where that is the baseline, as the table compares them."""
        if self.below["is_baseline"]:
            return speedup(self.row, self.below)
        return ratio_of("throughput_per_s")(self.row, self.below)


def saves_memory(row: Row) -> bool:
    """Whether a variant trains in less memory rather than in less time."""
    return bool(row["accumulation"] > 1 or SAVES_MEMORY in option_names(row["options"]))


def only_for_speed(groups: Iterable[Group]) -> Iterable[Group]:
    """The groups without the variants that save memory; those about these alone are left out."""
    for group in groups:
        rows = tuple(row for row in group.rows if row["is_baseline"] or not saves_memory(row))
        if any(not row["is_baseline"] for row in rows):
            yield replace(group, rows=rows)


def _for_speed(scope: Scope) -> Iterable[Group]:
    return only_for_speed(scope.groups)


def _is_alone(row: Row) -> bool:
    return SEPARATOR not in row["optimization"]


def _alone(scope: Scope) -> Iterable[Group]:
    return [replace(group, rows=tuple(row for row in group.rows if _is_alone(row))) for group in _for_speed(scope)]


def _ladder_of(group: Group) -> list[str]:
    """The ladder's variants from the eager baseline up; none where the group's variants are no ladder."""
    names = {str(row["optimization"]) for row in group.rows}
    alone = [str(row["optimization"]) for row in group.rows if _is_alone(row) and row["optimization"] != NO_OPTIONS]
    steps = [NO_OPTIONS, *alone[:1], *ladder(alone)[1 + len(alone) :]]
    return steps if len(steps) > 2 and names >= set(steps) else []


def _ladders(scope: Scope) -> Iterable[Group]:
    return [group for group in _for_speed(scope) if _ladder_of(group)]


def steps_of(group: Group) -> list[Step]:
    """The steps up the ladder of which both ends were measured."""
    rows = {str(row["optimization"]): row for row in group.measured}
    return [
        Step(row=rows[name], below=rows[below], added=_added_to(below, name))
        for below, name in itertools.pairwise(_ladder_of(group))
        if name in rows and below in rows
    ]


def _added_to(below: str, name: str) -> str:
    return SEPARATOR.join(part for part in option_names(name) if part not in option_names(below))


def _baseline_and_top(group: Group) -> tuple[Row, Row] | None:
    steps = steps_of(group)
    return (group.baseline, steps[-1].row) if group.baseline is not None and steps else None


def _greatest_first(group: Group) -> list[Step]:
    return sorted(steps_of(group), key=lambda step: -step.gain.value)


def _greatest_step(compared: Compared) -> dict[str, Any]:
    most = max(steps_of(compared.group), key=lambda step: step.gain.value)
    return {"most": optimization_in_words(most.added), "most_gain": most.gain}


def _gains(steps: Iterable[Step], table: str) -> tuple[Evidence, ...]:
    return tuple(
        phrases.evidence(f"speedup from adding {step.added}", times(step.gain), table, step.row) for step in steps
    )


def _every_step(scope: Scope) -> Iterable[Outcome]:
    return [_every_step_of(group) for group in _ladders(scope)]


def _every_step_of(group: Group) -> Outcome:
    steps = steps_of(group)
    if not steps:
        return not_measured(group.title, why_missing(group.rows, NOTHING_TO_COMPARE), key=group.key)
    costly, unclear, others = (
        [step for step in steps if step.gain.against(1.0) == side] for side in ("below", "unclear", "above")
    )
    return Outcome(
        verdict="no" if costly else "not resolved" if unclear else "yes",
        fields={"subject": group.title, "gains": _added(steps), "costly": _added(costly), "unclear": _added(unclear)},
        evidence=_gains([*costly, *unclear, *others], group.table),
        key=group.key,
    )


def _added(steps: Iterable[Step]) -> str:
    return "; ".join(f"{optimization_in_words(step.added)} {times(step.gain, short=True)}" for step in steps)


def _is_undecided(figure: Estimate) -> bool:
    return bool(figure.doubts) or not figure.has_interval


def _idle(figures: Figures) -> list[tuple[Row, Estimate]]:
    """Those that show no significant gain: what cannot decide is not among them."""
    return [pair for pair in figures.pairs if not _is_undecided(pair[1]) and pair[1].against(1.0) != "above"]


def _any_useless(figures: Figures) -> Verdict:
    if _idle(figures):
        return "yes"
    return "not resolved" if any(_is_undecided(figure) for _, figure in figures.pairs) else "no"


def _speedups(figures: Figures) -> tuple[Evidence, ...]:
    first = _idle(figures) or [pair for pair in figures.pairs if _is_undecided(pair[1])]
    pairs = [*first, *(pair for pair in figures.pairs if pair not in first)]
    return tuple(phrases.evidence("speedup", times(figure), figures.group.table, row) for row, figure in pairs)


def _preparing(scope: Scope) -> Iterable[Outcome]:
    found = [
        _prepared_in(scope, group, group.baseline, prepared)
        for group in scope.groups
        if group.baseline is not None and (prepared := _prepared(group, group.baseline))
    ]
    asked = any("compile" in row["options"] or "graphs" in row["options"] for row in scope.rows)
    if found or scope.table not in scope.tables.experiments or not asked:
        return found
    return [not_measured("what preparing costs", why_missing(scope.rows, "no variant prepares anything"))]


def _prepared(group: Group, baseline: Row) -> list[Row]:
    """The variants that prepare something which the baseline does not, the fastest first."""
    cost = "preparation_cold_s"
    rows = [row for row in group.others if row[cost] > 0 and row[cost] > baseline[cost]]
    return sorted(rows, key=lambda row: -float(row["throughput_per_s"]))


def _prepared_in(scope: Scope, group: Group, baseline: Row, prepared: Sequence[Row]) -> Outcome:
    """Whether preparing the fastest repaid its time, and how many of the others did."""
    row, ratio = prepared[0], speedup(prepared[0], baseline)
    needed, steps = float(row["break_even_steps"]), _steps_of_training(scope, row)
    cold, warm = (duration(row[column]).plain() for column in ("preparation_cold_s", "preparation_time_s"))
    repaid = [_is_repaid(scope, baseline, one) for one in prepared]
    saves_time, when, advice = math.isfinite(needed), "it saves no time that could repay it", ""
    if saves_time:
        epochs = quantity(needed / (steps / row["epochs"])).plain()
        when = f"it breaks even after {count(needed).plain()} steps, which are {epochs} epochs"
    if saves_time and row is max(group.others, key=lambda other: float(other["throughput_per_s"])):
        advice = (
            f"Switch on {group.value_in_words(row)} for {group.title} only in trainings of more than"
            f" {count(needed).plain()} steps."
        )
    costs = {"cold-cache compile time": cold, "compile and capture time": warm}
    if saves_time:
        costs["break-even steps"] = count(needed).plain()
    return Outcome(
        verdict="not resolved" if ratio.against(1.0) == "unclear" else "yes" if repaid[0] else "no",
        fields={
            "subject": group.title,
            "after": Named(row, group.value_in_words(row)),
            "before": group.value_in_words(baseline),
            "cold": cold,
            "warm": warm,
            "steps": steps,
            "epochs": int(row["epochs"]),
            "when": when,
            "doubt": ratio.why_unclear("1"),
            "speedup": ratio,
            "others": f" Within the training {phrases.how_many(sum(repaid), len(repaid), 'prepared variant')} did."
            if len(prepared) > 1
            else "",
            "advice": advice,
        },
        evidence=tuple(phrases.evidence(label, value, group.table, row) for label, value in costs.items()),
        key=group.key,
    )


def _is_repaid(scope: Scope, baseline: Row, row: Row) -> bool:
    above = speedup(row, baseline).against(1.0) == "above"
    return above and float(row["break_even_steps"]) <= _steps_of_training(scope, row)


def _steps_of_training(scope: Scope, row: Row) -> int:
    losses = scope.tables.losses
    return int((losses["variant"] == row["variant"]).sum()) // int(row["processes"])


def _asked_to_save(group: Group) -> list[Row]:
    return [row for row in group.rows if saves_memory(row) and not row["is_baseline"]]


def _each_that_saves(scope: Scope) -> Iterable[Group]:
    """A group for each variant that saves memory and the baseline."""
    for group in scope.groups:
        for row in _asked_to_save(group):
            key = f"{group.key}_{key_of(row['optimization'])}"
            yield replace(group, key=key, rows=tuple(one for one in group.rows if one is row or one["is_baseline"]))


def _time_over(row: Row, baseline: Row) -> Estimate:
    """Time per sample over that of the baseline."""
    return speedup(row, baseline).inverse


def _saving_and_cost(compared: Compared) -> dict[str, Any]:
    """With the workspace of convolutions where it is much of the peak: nothing that saves activations can save it."""
    row, time = compared.after, _time_over(compared.after, compared.before)
    workspace_mib = float(row["convolution_workspace_mib"])
    told = f"{times(time, short=True)} as long"
    return {
        "workspace": f"; a convolution's workspace took up to {memory(workspace_mib).plain()}"
        if workspace_mib >= WORKSPACE_SHARE * float(row["memory_peak_mib"])
        else "",
        "saved": compared.figure.mapped(lambda ratio: 1 - ratio),
        "time": time,
        "cost": f"what that costs in time stayed open, {told}" if time.against(1.0) == "unclear" else f"it took {told}",
    }


def _that_save(scope: Scope) -> Iterable[Group]:
    """The groups with variants that save memory, without the others but the baseline."""
    for group in scope.groups:
        if _asked_to_save(group):
            yield replace(group, rows=tuple(row for row in group.rows if row["is_baseline"] or saves_memory(row)))


RULES: Final = (
    replace(
        axes.BUSIER,
        about="optimization",
        test=replace(axes.KERNELS_ACTIVE, groups=lambda scope: only_for_speed(axes.accelerated(scope))),
    ),
    replace(axes.BEST, about="optimization", test=replace(axes.FASTEST, groups=_for_speed)),
    replace(
        axes.BEST,
        name="alone",
        about="optimization",
        question="Which optimization alone trains fastest?",
        test=replace(axes.FASTEST, groups=_alone),
        yes="Of what was switched on alone, {after} made {subject} fastest: {after.throughput_per_s:short}, {figure}"
        " the throughput of {before}{rivals}.",
        no="Nothing that was switched on alone made {subject} faster than {before}, {before.throughput_per_s:short};"
        " the next, {after}, reached {figure} that.",
        unresolved="Whether anything alone makes {subject} faster than {before}",
        measured="; {after} reached {figure} the throughput.",
        advice={},
    ),
    Rule(
        name="useless",
        about="optimization",
        question="Which optimizations bring no significant gain by themselves?",
        threshold="One brings nothing if the interval of its speedup over the eager baseline is not wholly above 1:"
        " then it is not significant, or costs time. Together with others it may yet bring something.",
        test=AllOrAny(
            groups=_alone,
            figures=over_baseline(speedup),
            verdict=_any_useless,
            evidence=_speedups,
            more=lambda figures: {
                "idle": figures.listed("with {row} {figure:short}", _idle(figures)),
                "count": phrases.how_many(len(_idle(figures)), len(figures.pairs), "optimization"),
            },
        ),
        yes="By themselves {count} showed no significant gain for {subject}: {idle}.",
        no="Every optimization sped {subject} up by itself: {all}.",
        unresolved="Whether every optimization speeds {subject} up by itself",
        measured="; measured were {all}.",
    ),
    Rule(
        name="ladder",
        about="optimization",
        question="Do all optimizations together pay?",
        threshold="They pay if the whole interval of the last step's speedup over the eager baseline" + BY_HOLM,
        test=Comparison(
            groups=_ladders,
            choose=_baseline_and_top,
            unknown=NOTHING_TO_COMPARE,
            evidence=lambda compared: _gains(_greatest_first(compared.group), compared.group.table),
            more=_greatest_step,
        ),
        yes="Together the optimizations paid for {subject}: with {after} it trained {figure} as fast as with {before}."
        " Most came from adding {most}: {most_gain:short}.",
        no="Together the optimizations did not pay for {subject}: with {after} it trained {figure} as fast as with"
        " {before}.",
        unresolved="Whether the optimizations together pay for {subject}",
        measured=": with {after} it trained {figure} as fast as with {before}.",
    ),
    Rule(
        name="every_step",
        about="optimization",
        question="Does every step of the optimization ladder add speed to those below?",
        threshold="A step adds speed if the ratio of its throughput to that of the step below is above 1 with the most"
        " and the least that both intervals allow. Options made redundant by a step are dropped.",
        test=_every_step,
        yes="Every step made {subject} faster than the one below: {gains}.",
        no="Not every step made {subject} faster than the one below; these made it slower: {costly}.",
        unresolved="Steps of {subject} without a significant gain over the one below: {unclear}.",
    ),
    replace(axes.MEMORY_COST, about="optimization", test=replace(axes.MORE_MEMORY, groups=_for_speed)),
    Rule(
        name="preparing",
        about="optimization",
        question="Does preparing the fastest optimization repay its time within the training measured?",
        threshold="It does if preparing with an empty cache costs less time than the measured training's steps save"
        " against the eager baseline, and the whole interval of the speedup lies above 1. With a cache that an earlier"
        " training filled it pays sooner.",
        test=_preparing,
        yes="Preparing {subject} for {after} repaid its time: it took {cold} with an empty cache, {warm} with a filled"
        " one; against {before} {when}, and the training had {steps} steps in {epochs} epochs.{others}",
        no="Preparing {subject} for {after} did not repay its time: it took {cold} with an empty cache, {warm} with a"
        " filled one; against {before} {when}, and the training had {steps} steps in {epochs} epochs only.{others}",
        unresolved="Whether preparing {subject} for {after} ever repays its time",
        measured=": it took {cold} with an empty cache, {warm} with a filled one, for {speedup:short} the"
        " speed.{others}",
        advice={"no": "{advice}"},
    ),
    Rule(
        name="saves",
        about="optimization",
        question="Which options save memory?",
        threshold="Less" + axes.SAVING_THRESHOLD,
        test=Comparison(
            groups=_each_that_saves,
            choose=baseline_and_other,
            figure=ratio_of("memory_peak_mib"),
            limit=1 - axes.MEMORY_TOLERANCE,
            limit_in_words="10 % less",
            holds="below",
            unknown=NOTHING_TO_COMPARE,
            evidence=MEMORY,
            more=_saving_and_cost,
        ),
        yes="{after} saved {subject} {saved:%short} of its memory: {after.memory_peak_mib} at the peak, instead of"
        " {before.memory_peak_mib:short} with {before}{workspace}; {cost}.",
        no="{after} saved {subject} hardly any memory: {after.memory_peak_mib} at the peak, against"
        " {before.memory_peak_mib:short} with {before}{workspace}. Training took {time:short} as long.",
        unresolved="Whether {after} saves {subject} memory",
        measured=": {after.memory_peak_mib} at the peak, against {before.memory_peak_mib:short} with"
        " {before}{workspace}. Training took {time:short} as long.",
        advice={"yes": "Train {subject} with {after} where memory is short."},
    ),
    Rule(
        name="costs_time",
        about="optimization",
        question="Does training in less memory cost time?",
        threshold="It costs time if the whole interval of the ratio of times lies above 1 for one variant at least.",
        test=AllOrAny(
            asks="any",
            groups=_that_save,
            figures=over_baseline(_time_over),
            limit_in_words="equal times",
            evidence=THROUGHPUT,
        ),
        yes="Less memory cost {subject} time: {above} as long as with {baseline}.",
        no="Less memory cost {subject} no time: {all} as long as with {baseline}.",
        unresolved="Whether less memory costs {subject} time",
        measured=": {all} as long as with {baseline}.",
    ),
    replace(axes.QUALITY_OF_EACH, about="optimization"),
    replace(
        axes.SAVES_ENERGY,
        about="optimization",
        test=replace(axes.ENERGY_OF_FASTEST, groups=lambda scope: axes.with_energy(_for_speed(scope))),
    ),
)
