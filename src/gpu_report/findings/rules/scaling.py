"""Rules about several GPUs that share a training: do they pay, what does sharing cost, which
strategy is for what? And about the settings of DistributedDataParallel: is communication hidden,
which setting pays, what does accumulation save? And about models split over several GPUs:
does a naive split pay, does a pipeline, and what does FSDP2 save?
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Final

from gpu_report.findings.estimate import Estimate, against_other, estimate, ratio_of
from gpu_report.findings.phrases import as_share, of_column, times
from gpu_report.findings.rule import (
    AllOrAny,
    Comparison,
    Figures,
    Outcome,
    Rule,
    first_two,
    over_baseline,
)
from gpu_report.findings.rules import axes
from gpu_report.findings.scope import (
    DDP_OPTIONS,
    MODEL_SPLIT,
    Group,
    Scope,
    groups_beside,
    key_of,
    only_difference,
)
from gpu_report.glossary import Row
from gpu_report.printing.number_format import counted
from gpu_report.study.options import NO_OPTIONS, SEPARATOR, option_names
from gpu_report.tables.bundle import grouped, rows_of
from gpu_report.words import (
    fields_along,
    listed,
    model_words,
    optimization_in_words,
    parallelism_words,
    titled,
    with_configurations,
)

PARALLELISM: Final = "parallelism"
WORTH_IT: Final = 0.90
COSTS: Final = 0.98
NEARLY: Final = 0.95

_WEAK: Final = {"weak_efficiency": "weak efficiency"}
_WITH_ONE_PROCESS: Final = "{row.model} {figure:%short} with {row.configuration}{row.kept}"
_TOTAL: Final = {"throughput_per_s": "throughput of all devices"}
HIDDEN_BELOW: Final = 0.05
_LIMIT: Final = f"{100 * HIDDEN_BELOW:g} %"

_TABLE: Final = "communication"
_SEARCH: Final = "unused"
_OF_TASK: Final = ("devices", "batch_size", "precision", "optimization")


def _exposed(scope: Scope) -> Iterable[Outcome]:
    """Whether much of a step is, with the doubts about the defaults and about their bound."""
    variants = {row["variant"]: row for row in rows_of(scope.tables.variants)}

    def figures(group: Group) -> list[tuple[Row, Estimate]]:
        known = [row for row in group.measured if "bound" in row]
        return [(row, against_other(row, "exposed_share", variants[row["bound"]])) for row in known]

    return AllOrAny(
        groups=lambda scope: [
            replace(group, rows=tuple(row for row in group.rows if row["is_baseline"]))
            for group in groups_beside(scope, _TABLE)
        ],
        figures=figures,
        asks="any",
        side="below",
        limit=HIDDEN_BELOW,
        item="{row.exposed_ms}, {figure:%short} of a step",
        lacking=lambda _: "no training without communication was measured",
        unknown="no training without communication had the same seeds",
        evidence={"exposed_share": "exposed share of the step"},
        more=lambda found: {"doubt": found.pairs[0][1].why_unclear(_LIMIT)},
    )(scope)


def _settings(group: Group) -> list[Row]:
    """The defaults and what sets more than they do, each named by what it adds; the defaults are in
    all of them.
    """
    defaults = next(
        (option_names(row["optimization"]) for row in group.rows if row["is_baseline"]), ()
    )
    return [
        {
            **row,
            "optimization": SEPARATOR.join(name for name in names if name not in defaults)
            or NO_OPTIONS,
        }
        for row in group.rows
        if {*defaults} <= {*(names := option_names(row["optimization"]))}
    ]


def _only(scope: Scope, *, accumulated: bool) -> Iterable[Group]:
    """The groups with the defaults and the settings that accumulate, or those that do not; none
    about these alone.
    """
    for group in scope.groups:
        rows = [
            row
            for row in _settings(group)
            if row["is_baseline"] or (row["accumulation"] > 1) == accumulated
        ]
        if any(not row["is_baseline"] for row in rows):
            yield replace(group, rows=tuple(rows))


def _searched(scope: Scope) -> Iterable[Group]:
    """The groups with what searches for unused parameters and the same without."""
    for group in scope.groups:
        for row, twin in product(group.rows, repeat=2):
            if only_difference(twin, row) == _SEARCH:
                yield replace(group, rows=(twin, row))


def shared_by_model(scope: Scope, keep: Callable[[Row], bool]) -> list[Group]:
    """The measured trainings that devices share and that are kept, by model, each in words; none is
    a baseline.

    `configuration` says how the code is trained, `sharing` by which devices.
    """
    everything = [row for group in groups_beside(scope, "scaling_efficiency") for row in group.rows]
    shared = [
        {**row, "sharing": parallelism_words(row["parallelism"]), "is_baseline": False}
        for row in with_configurations(everything, in_sentences=True)
        if row["status"] == "ok" and "is_weak" in row and keep(row)
    ]
    return [
        Group(title=model, key=key_of(model), axis="", table="scaling_efficiency", rows=tuple(rows))
        for model, rows in grouped(shared, model_words).items()
    ]


def _is_ddp(row: Row) -> bool:
    return bool(
        row["strategy"] == "ddp" and row["is_weak"] and estimate(row, "weak_efficiency").known
    )


def _on_most_devices(groups: Iterable[Group]) -> list[Group]:
    """The same with the trainings on the most devices alone."""
    return [
        replace(group, rows=tuple(row for row in group.rows if row["devices"] == most))
        for group in groups
        for most in [max(map(_devices, group.rows))]
    ]


def _devices(row: Row) -> int:
    return int(row["devices"])


def _fastest_weak(scope: Scope) -> list[Group]:
    """Of each model the training that is fastest on the most devices, alone."""
    groups = _on_most_devices(
        shared_by_model(scope, lambda row: _is_ddp(row) and row["devices"] > 1)
    )
    return [
        replace(group, rows=(max(group.rows, key=lambda row: float(row["throughput_per_s"])),))
        for group in groups
    ]


def _figures(column: str) -> Callable[[Group], list[tuple[Row, Estimate]]]:
    return lambda group: [(row, estimate(row, column)) for row in group.measured]


def _with_gain(test: AllOrAny) -> Callable[[Scope], Iterable[Outcome]]:
    """The test, following whose advice gives what the training `gained`."""

    def outcomes(scope: Scope) -> Iterable[Outcome]:
        for outcome in test(scope):
            yield replace(
                outcome, gain=outcome.fields["gained"] if outcome.verdict == "yes" else None
            )

    return outcomes


def _captured(scope: Scope) -> Iterable[Group]:
    """Of each model the fastest training with CUDA graphs on the most devices, after the same
    without them.

    The one with them is of this experiment, the other of any.
    """
    variants = {
        row["variant"]: row for row in rows_of(scope.tables.variants) if row["status"] == "ok"
    }
    scaled = {row["variant"]: row for row in rows_of(scope.tables.scaling_efficiency)}
    rows = [
        {**variants[name], **scaled[name], "is_baseline": False}
        for name in scaled
        if name in variants
    ]
    own = {row["variant"] for row in scope.rows}
    pairs = [
        (without, captured)
        for captured in rows
        if captured["variant"] in own and _is_ddp(captured) and captured["devices"] > 1
        for without in rows
        if only_difference(without, captured) == "graphs" and _is_ddp(without)
    ]
    for model, found in sorted(grouped(pairs, lambda pair: model_words(pair[1])).items()):
        pair = max(found, key=lambda pair: (pair[1]["devices"], pair[1]["throughput_per_s"]))
        yield Group(title=model, key=key_of(model), axis="", table="scaling_efficiency", rows=pair)


def _how(row: Row) -> str:
    options = (
        [] if row["optimization"] == NO_OPTIONS else [optimization_in_words(row["optimization"])]
    )
    return ", ".join([row["precision"], *options, parallelism_words(row["parallelism"])])


def _ddp_and_dp(group: Group) -> tuple[Row, Row] | None:
    pairs = [
        (ddp, dp)
        for dp in group.measured
        for ddp in group.measured
        if (ddp["strategy"], dp["strategy"]) == ("ddp", "dp")
        and all(ddp[name] == dp[name] for name in _OF_TASK)
    ]
    return max(pairs, key=lambda pair: int(pair[0]["devices"]), default=None)


def _alone(scope: Scope) -> list[Group]:
    """What DDP trained with one process, of all models together, each with what the most devices
    `kept` of it.
    """
    groups = shared_by_model(scope, lambda row: _is_ddp(row) and row["devices"] == 1)
    shared = [
        row for group in shared_by_model(scope, _is_ddp) for row in group.rows if row["devices"] > 1
    ]

    def kept(alone: Row) -> str:
        own = [row for row in shared if row["ddp1_variant"] == alone["variant"]]
        if not own:
            return ""
        most = max(own, key=_devices)
        figure = ratio_of("weak_efficiency")(most, alone)
        return (
            ""
            if figure.doubts
            else f", of which {most['devices']} devices keep {as_share(figure, short=True)}"
        )

    rows = tuple(
        {**row, "model": group.title, "kept": kept(row)} for group in groups for row in group.rows
    )
    return (
        [replace(groups[0], title="DistributedDataParallel with one process", key="", rows=rows)]
        if groups
        else []
    )


def _not_above(figures: Figures) -> dict[str, str]:
    """Those that were slower, or did not gain, as the end of a sentence."""
    words = {"slower": figures.on("below"), "no significant gain": figures.on("unclear")}
    item = "{row.configuration} {figure:short}"
    others = "".join(
        f"; {word}: {figures.listed(item, pairs)}" for word, pairs in words.items() if pairs
    )
    return {**_sharing(figures.group), "others": others}


def _not_below(figures: Figures) -> dict[str, str]:
    """Those of which it is not shown that they lost more, as the end of a sentence."""
    others = figures.listed(_WITH_ONE_PROCESS, [*figures.on("above"), *figures.on("unclear")])
    return {"others": "" if others == "none" else f"; not significantly less: {others}"}


def _sharing(group: Group) -> dict[str, str]:
    return {"sharing": str(group.rows[0]["sharing"])}


RULES: Final = (
    Rule(
        name="pays",
        about=PARALLELISM,
        not_measured="",
        question="Do further GPUs pay with more samples per step (weak scaling)?",
        threshold="They do if the fastest configuration reaches at least 90 % of the throughput "
        "of as many plain processes, intervals included, repetition by repetition; below that, a "
        "tenth of the GPUs' cost is lost.",
        test=_with_gain(
            AllOrAny(
                groups=_fastest_weak,
                limit=WORTH_IT,
                limit_in_words="90 %",
                figures=_figures("weak_efficiency"),
                item="{row.configuration} {figure:%short}",
                evidence=_WEAK,
                more=lambda figures: {
                    **_sharing(figures.group),
                    "gained": estimate(figures.group.rows[0], "base_speedup"),
                },
            )
        ),
        yes="{subject} trained {gained:short} as fast with {sharing} as on one GPU; weak "
        "efficiency: {all}.",
        no="{subject} trained {gained:short} as fast with {sharing} as on one GPU, less than 90 % "
        "of what as many separate processes do; weak efficiency: {all}.",
        unresolved="Whether {subject} reaches a weak efficiency of 90 %",
        measured="; with {sharing}: {all}.",
        advice={
            "yes": "Train {subject} with {sharing}, and give each GPU as many samples as one alone."
        },
    ),
    Rule(
        name="ddp_cost",
        about=PARALLELISM,
        not_measured="",
        question="Does DistributedDataParallel itself cost more than 2 %?",
        threshold="It does if a configuration reaches less than 98 % of the plain process's "
        "throughput on one device, intervals included, repetition by repetition: one device "
        "exchanges nothing.",
        test=AllOrAny(
            asks="any",
            side="below",
            limit=COSTS,
            limit_in_words="98 %",
            groups=_alone,
            figures=_figures("weak_efficiency"),
            item=_WITH_ONE_PROCESS,
            evidence=_WEAK,
            more=_not_below,
        ),
        yes="With one process, and so without communication, it reached less than 98 % of the "
        "plain process's throughput: {below}{others}.",
        no="With one process, and so without communication, it reached nearly the plain process's "
        "throughput: {all}.",
        unresolved="Whether it costs more than 2 % with one process",
        measured="; share of the plain process's throughput: {all}.",
    ),
    Rule(
        name="captured",
        about=PARALLELISM,
        not_measured="",
        question="Do CUDA graphs improve scaling?",
        threshold="They do if the weak efficiency of a captured training is above that of the "
        "same without graphs, intervals included: DistributedDataParallel gives the host more to "
        "launch, and a captured step is one launch.",
        test=Comparison(
            choose=lambda group: (group.rows[0], group.rows[1]),
            groups=_captured,
            figure=ratio_of("weak_efficiency"),
            evidence=_WEAK,
            of_both=True,
            more=lambda found: {"how": _how(found.before)},
        ),
        yes="{subject} scales better with them{measured}",
        no="{subject} scales worse with them{measured}",
        unresolved="Whether {subject} scales better with CUDA graphs",
        measured="; weak efficiency ({how}): {after.weak_efficiency:short} with CUDA graphs,"
        " {before.weak_efficiency:short} without.",
    ),
    Rule(
        name="data_parallel",
        about=PARALLELISM,
        not_measured="",
        question="Is DataParallel worth its simplicity?",
        threshold="It is if it reaches at least 95 % of the throughput of DistributedDataParallel "
        "on the same devices with the same samples, intervals included. PyTorch discourages it.",
        test=Comparison(
            choose=_ddp_and_dp,
            groups=lambda scope: [
                group
                for group in shared_by_model(scope, lambda row: bool(row["is_weak"]))
                if _ddp_and_dp(group)
            ],
            figure=ratio_of("throughput_per_s"),
            limit=NEARLY,
            limit_in_words="95 %",
            evidence=_TOTAL,
            of_both=True,
            more=lambda found: {
                "dp": found.after["sharing"],
                "over_base": estimate(found.after, "base_speedup"),
            },
        ),
        yes="{subject} trained about as fast with it{measured}",
        no="{subject} trained more slowly with it{measured}",
        unresolved="Whether {subject} trains about as fast with it as with DistributedDataParallel",
        measured=": with {dp} {figure:short} the throughput of DistributedDataParallel, and "
        "{over_base:short} that of one GPU.",
    ),
    Rule(
        name="strong",
        about=PARALLELISM,
        not_measured="",
        question="Does a batch of the same size train faster on several GPUs (strong scaling)?",
        threshold="It does if a configuration's speedup over one plain process with the whole "
        "batch is above 1, intervals included. Each GPU then has a part of the samples, and all "
        "gradients to exchange.",
        test=AllOrAny(
            asks="any",
            groups=lambda scope: _on_most_devices(
                shared_by_model(
                    scope,
                    lambda row: bool(
                        row["strategy"] == "ddp"
                        and row["is_strong"]
                        and estimate(row, "strong_speedup").known
                    ),
                )
            ),
            figures=_figures("strong_speedup"),
            item="{row.configuration} {figure:short}",
            evidence={"strong_speedup": "strong speedup"},
            more=_not_above,
        ),
        yes="Speedup of {subject} with {sharing}: {above}{others}.",
        no="{subject} trains more slowly with {sharing} than one plain process with the whole "
        "batch: {all}.",
        unresolved="Whether {subject} trains faster with {sharing} and the same batch",
        measured="; speedup over one plain process: {all}.",
    ),
    Rule(
        name="hidden",
        about=DDP_OPTIONS,
        question="How much communication is exposed?",
        threshold=f"The limit is {_LIMIT} of a step, intervals included: no setting of DDP can "
        "hide more than what is exposed. That is the step time less that of the same training in "
        "which every rank keeps its own gradients and buffers, process by process.",
        test=_exposed,
        yes=f"Less than {_LIMIT} of a step for {{subject}}: with DDP's defaults {{all}}.",
        no=f"More than {_LIMIT} of a step for {{subject}}: with DDP's defaults {{all}}.",
        unresolved=f"Whether it is less than {_LIMIT} of a step for {{subject}}",
        measured=": with DDP's defaults {all}.",
    ),
    replace(
        axes.BEST,
        name="setting",
        about=DDP_OPTIONS,
        question="Which setting of DDP pays?",
        threshold="It does if the whole interval of the fastest's speedup over DDP's defaults is "
        "above 1, and the difference is significant among the experiment's comparisons (Holm).",
        test=replace(axes.FASTEST, groups=lambda scope: _only(scope, accumulated=False)),
        yes="{subject} trained fastest with {after}: {figure:short} the throughput of the "
        "defaults{rivals}.",
        no="No setting made {subject} faster than DDP's defaults: the next, {after}, reached "
        "{figure} their throughput.",
        unresolved="Whether {subject} trains faster with {after} than with DDP's defaults",
        measured="; it trained {figure} as fast.",
        advice={"yes": "With DistributedDataParallel train {subject} with {after}."},
    ),
    Rule(
        name="search",
        about=DDP_OPTIONS,
        question="Does the search for unused parameters take time?",
        threshold="It does if the whole interval of the throughput with it over that of the same "
        "training without it is below 1. Every step then goes through the graph of the loss, even "
        "where all parameters are used.",
        test=Comparison(
            groups=_searched,
            choose=first_two,
            figure=ratio_of("throughput_per_s"),
            holds="below",
            evidence={"throughput_per_s": "throughput"},
        ),
        yes="{subject} trained more slowly{measured} Switch it off if all are used.",
        no="{subject} did not train more slowly{measured}",
        unresolved="Whether {subject} trains more slowly",
        measured=" with it: {figure:short} the throughput.",
    ),
    Rule(
        name="accumulation",
        about=DDP_OPTIONS,
        question="Does accumulation save memory?",
        threshold="It does if any number of parts needs at least 10 % less peak memory, intervals "
        "included. It cannot save communication here: the batch stays the same, and gradients are "
        "averaged once per step either way.",
        test=AllOrAny(
            groups=lambda scope: _only(scope, accumulated=True),
            asks="any",
            side="below",
            limit=1 - axes.MEMORY_TOLERANCE,
            limit_in_words="10 % less",
            figures=over_baseline(ratio_of("memory_peak_mib")),
            item="{row} {row.memory_peak_mib:short} at {row.speedup:short} the throughput",
            evidence={"memory_peak_mib": "peak memory", "speedup": "speedup"},
        ),
        yes="{subject} needs less memory in parts: {below}. The whole batch needs "
        "{baseline.memory_peak_mib}: accumulation is worth its time where that does not fit.",
        no="{subject} does not need less memory in parts: {all}. The whole batch needs "
        "{baseline.memory_peak_mib}.",
        unresolved="Whether {subject} needs less memory in parts",
        measured=": {all}, against {baseline.memory_peak_mib} of the whole batch.",
    ),
)


_SPLITS: Final = "model_splits"
_OVER_ONE: Final = "speedup_over_one"
_SAVED: Final = "memory_saved_share"
_ONE: Final = "plain process"
_DDP: Final = "DistributedDataParallel"
"""Where a row has those of the plain process, and of DistributedDataParallel if measured, that it
is compared with.
"""
_NOTHING_ALONE: Final = "one device was not measured with the same batch"
_THRESHOLD: Final = (
    "It does if the whole interval of its throughput over that of one plain process with the same "
    "batch is above 1."
)


def _by_plain(scope: Scope) -> list[Group]:
    """A group for each plain process and number of devices, with all that share its training on as
    many.
    """
    rows = {row["variant"]: row for row in scope.rows}
    found = [
        row
        for row in rows_of(scope.tables.model_splits)
        if {row["variant"], row["plain"]} <= rows.keys()
    ]
    shared = [{**rows[row["variant"]], **row, _ONE: rows[row["plain"]]} for row in found]
    by_ddp = {(row["plain"], row["devices"]): row for row in shared if row["strategy"] == "ddp"}
    shared = [{**row, _DDP: by_ddp.get((row["plain"], row["devices"]))} for row in shared]
    plains = [rows[name] for name in dict.fromkeys(row["plain"] for row in found)]
    together = dict.fromkeys((row["plain"], row["devices"]) for row in shared)
    return [
        Group(
            title=f"{titled(rows[plain], plains, leave_out=fields_along(scope.axis, ()))} on "
            f"{counted(devices, 'device')}",
            key=key_of(f"{rows[plain]['group']} on {devices}"),
            axis=scope.axis,
            table=_SPLITS,
            rows=tuple(
                sorted(
                    (row for row in shared if (row["plain"], row["devices"]) == (plain, devices)),
                    key=_micro_batches,
                )
            ),
        )
        for plain, devices in together
    ]


def _over_plain(column: str) -> Callable[[Group], list[tuple[Row, Estimate]]]:
    """What a column compares with the plain process, of each variant."""
    return lambda group: [(row, against_other(row, column, row[_ONE])) for row in group.measured]


def _micro_batches(row: Row) -> int:
    return int(row["micro_batches"])


def _with(scope: Scope, strategy: str) -> Iterable[Group]:
    """The groups that have a variant of this strategy, with those alone."""
    for group in _by_plain(scope):
        rows = tuple(row for row in group.rows if row["strategy"] == strategy)
        if rows:
            yield replace(group, rows=rows)


def _over_one(strategy: str, item: str) -> AllOrAny:
    """Which of a strategy's trainings have more throughput than one device."""
    return AllOrAny(
        groups=lambda scope: _with(scope, strategy),
        asks="any",
        figures=_over_plain(_OVER_ONE),
        item=item,
        unknown=_NOTHING_ALONE,
        evidence={_OVER_ONE: "throughput over one device"},
        more=lambda figures: {
            "enough": _enough(figures),
            "most": figures.listed(item, [max(figures.pairs, key=lambda pair: pair[1].value)]),
            "ddp": _throughput_of_ddp(figures),
        },
    )


def _throughput_of_ddp(figures: Figures) -> str:
    """What DistributedDataParallel reaches on the same devices, as the end of a sentence; empty
    where not measured.
    """
    ddp = figures.pairs[0][0][_DDP]
    reached = estimate(ddp, _OVER_ONE) if ddp else None
    return (
        f"; DistributedDataParallel reaches {times(reached, short=True)} that throughput"
        if reached
        else ""
    )


def _enough(figures: Figures) -> str:
    """With which numbers of micro-batches a pipeline is faster: from one on, or with these
    alone.
    """
    enough, measured = (
        [_micro_batches(row) for row, _ in pairs] for pairs in (figures.on("above"), figures.pairs)
    )
    if not enough:
        return ""
    if enough != [number for number in measured if number >= min(enough)]:
        return f"With {listed([str(number) for number in enough])} alone"
    return f"From {min(enough)} on" + (
        ", the fewest measured," if min(enough) == min(measured) else ""
    )


def _beside_ddp(figures: Figures) -> dict[str, str]:
    """What DistributedDataParallel takes for the same, as the end of a sentence about FSDP2."""
    fsdp = figures.pairs[0][0]
    ddp = fsdp[_DDP]
    if ddp is None:
        return {"ddp": ""}
    saved, speed = (of_column(ddp, column, short=True) for column in (_SAVED, _OVER_ONE))
    is_faster = ratio_of("throughput_per_s")(ddp, fsdp).against(1.0) == "above"
    advice = (
        ", so FSDP2 is for models that do not fit with DistributedDataParallel" if is_faster else ""
    )
    return {"ddp": f"; DistributedDataParallel saved {saved} at {speed} the throughput{advice}"}


MODEL_SPLIT_RULES: Final = (
    Rule(
        name="naive",
        about=MODEL_SPLIT,
        question="Does a model split without a pipeline train faster than one GPU?",
        threshold=_THRESHOLD,
        test=_over_one("split", "{figure} its throughput"),
        yes="Split into stages, {subject} trained faster than on one: {all}.",
        no="Split into stages, {subject} trained more slowly than on one, as each stage waits for "
        "the others: {all}.",
        unresolved="Whether {subject}, split into stages, trains faster than on one",
        measured="; it reached {all}.",
    ),
    Rule(
        name="pipeline",
        about=MODEL_SPLIT,
        question="From how many micro-batches does the pipeline beat the throughput of one GPU?",
        threshold=_THRESHOLD,
        test=_over_one("pipeline", "with m = {row.micro_batches}, {figure:short} that throughput"),
        yes="{enough} for {subject}. It is fastest {most}{ddp}.",
        no="With none of the numbers measured for {subject}. It is fastest {most}{ddp}.",
        unresolved="Whether the pipeline beats one device for {subject}",
        measured="; it is fastest {most}{ddp}.",
    ),
    Rule(
        name="sharded",
        about=MODEL_SPLIT,
        question="Does FSDP2 save memory against one GPU?",
        threshold="Saving"
        + axes.SAVING_THRESHOLD
        + " Part of the saving comes from the batch: each device has a share of it.",
        test=replace(
            _over_one(
                "fsdp",
                "{figure:%short} on the device with most, at {row.speedup_over_one:short} the "
                "throughput",
            ),
            figures=_over_plain(_SAVED),
            limit=axes.MEMORY_TOLERANCE,
            limit_in_words="10 % less",
            evidence={_SAVED: "memory saved"},
            more=_beside_ddp,
        ),
        yes="{subject} saved {all}{ddp}.",
        no="{subject} saved little: {all}{ddp}.",
        unresolved="Whether {subject} saves memory",
        measured=": {all}{ddp}.",
    ),
)
