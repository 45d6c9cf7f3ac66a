"""Questions about several GPUs that share a training or hold a model in parts, and about the
settings of DistributedDataParallel (DDP).

How much faster is a training on several GPUs, with more samples per step (weak scaling) or with as
many (strong scaling)? Is DataParallel worth its simplicity? How much communication is exposed, and
which setting pays?

From how many micro-batches does a pipeline train faster than one GPU, and does FSDP2 save memory?
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Final

from gpu_report.answers.estimate import (
    Estimate,
    against_other,
    between_sessions,
    estimate,
    ratio_of,
    speedup,
)
from gpu_report.answers.phrases import as_share, evidence_of_columns, shown, times
from gpu_report.answers.question import (
    Answer,
    Compared,
    against_baseline,
    decided,
    each_group,
    evidence_of,
    missing,
    not_measured,
    question,
)
from gpu_report.answers.questions.axes import MEMORY_TOLERANCE, for_speed, rivals
from gpu_report.answers.scope import (
    DDP_OPTIONS,
    MODEL_SPLIT,
    Group,
    Scope,
    added_options,
    groups_beside,
    key_of,
)
from gpu_report.glossary import Row
from gpu_report.printing.number_format import counted
from gpu_report.study.options import option_names
from gpu_report.tables.bundle import (
    Tables,
    alike,
    fastest_of,
    grouped,
    rows_of,
    spread_between,
)
from gpu_report.words import (
    batch_size_words,
    fields_along,
    listed,
    model_words,
    parallelism_words,
    titled,
    with_configurations,
)

NEARLY: Final = 0.95
HIDDEN_BELOW: Final = 0.05

_TABLE: Final = "scaling_efficiency"
_WEAK: Final = {"weak_efficiency": "weak efficiency"}
_OVER_ONE: Final = "speedup_over_one"
_SAVED: Final = "memory_saved_share"
_PEAK: Final = "memory_allocated_most_mib"
_NOTHING_ALONE: Final = "one device was not measured with the same batch"
_OF_TASK: Final = ("devices", "batch_size", "precision", "optimization")
_OF_PROCESS: Final = ("workload", "size", "batch_per_device", "precision", "optimization")


@question(
    "How much faster is training on several GPUs with the same samples per GPU (weak scaling)?",
    "parallelism",
)
def pays(scope: Scope) -> Iterator[Answer]:
    """It is faster if the whole interval of the speedup over one plain process, which has the
    samples of one GPU, is above 1, repetition by repetition. Of each model the fastest
    configuration on several GPUs is compared. On one device nothing is exchanged, so that a loss
    there is the cost of DistributedDataParallel itself.
    """
    weak = [
        row
        for row in _shared(scope.tables, scope.rows)
        if row["strategy"] == "ddp" and row["is_weak"] and not math.isnan(row["weak_efficiency"])
    ]
    for group in _by_model(row for row in weak if row["devices"] > 1):
        fastest = max(group.rows, key=lambda row: (row["throughput_per_s"], -row["devices"]))
        gained = estimate(fastest, "base_speedup")
        subject, sharing = group.title, parallelism_words(fastest["parallelism"])
        trained = (
            f"{subject} trained {times(gained, short=True)} as fast with {sharing} as on one GPU"
        )
        reached = (
            f"{shown(fastest, 'weak_efficiency', short=True)} of {fastest['devices']} times the "
            "throughput of one process"
        )
        yield decided(
            group,
            gained,
            yes=trained,
            no=trained,
            whether=f"{subject} trains faster with {sharing} than on one GPU",
            if_unclear=f": {times(gained, short=True)} as fast",
            measured=f" ({fastest['configuration']}).{_on_one_device(group, weak)}",
            evidence=evidence_of_columns(
                [fastest], {"base_speedup": "speedup over one GPU", **_WEAK}, _TABLE
            ),
            advice={
                "yes": f"Train {subject} with {sharing} and {fastest['batch_per_device']} samples "
                f"on each GPU: {reached} ({fastest['configuration']})."
            },
            gain=gained,
        )


def _on_one_device(group: Group, weak: Iterable[Row]) -> str:
    """A sentence about DistributedDataParallel on one device, beside the most that train the same;
    empty where it was not measured.
    """
    pairs = [
        (alone, row)
        for alone in weak
        if alone["devices"] == 1
        for row in alike(group.rows, alone, *_OF_PROCESS)
    ]
    if not pairs:
        return ""
    alone, most = max(pairs, key=lambda pair: int(pair[1]["devices"]))
    kept, of_most = (shown(row, "weak_efficiency", short=True) for row in (alone, most))
    return (
        " With DistributedDataParallel on one device, where nothing is exchanged, "
        f"{alone['configuration']} kept {kept} of the throughput of one plain process; on "
        f"{most['devices']} devices, {of_most} on each."
    )


@question("Is DataParallel worth its simplicity?", "parallelism")
def data_parallel(scope: Scope) -> Iterator[Answer]:
    """It is if it reaches at least 95 % of the throughput of DistributedDataParallel on the same
    devices with the same samples, intervals included. PyTorch discourages it.
    """
    weak = [row for row in _shared(scope.tables, scope.rows) if row["is_weak"]]
    for group, pairs in _beside_ddp(weak, "dp"):
        dp, ddp = max(pairs, key=lambda pair: int(pair[0]["devices"]))
        ratio = ratio_of("throughput_per_s", scope.tables)(dp, ddp)
        yield decided(
            group,
            ratio,
            limit=NEARLY,
            limit_in_words="95 %",
            yes=f"{group.title} trained about as fast with it",
            no=f"{group.title} trained more slowly with it",
            whether=f"{group.title} trains about as fast with it as with DistributedDataParallel",
            measured=f": with {parallelism_words(dp['parallelism'])} {times(ratio, short=True)} "
            "the throughput of DistributedDataParallel, and "
            f"{times(estimate(dp, 'base_speedup'), short=True)} that of one GPU.",
            evidence=evidence_of_columns(
                [dp, ddp], {"throughput_per_s": "throughput of all devices"}, _TABLE
            ),
        )


@question(
    "Does {subject} train faster on several GPUs with a batch of the same size (strong scaling)?",
    "parallelism",
)
def strong(scope: Scope) -> Iterator[Answer]:
    """It does if a configuration's speedup over one plain process with the whole batch is above 1,
    intervals included. Each GPU then has a part of the samples, and all gradients to exchange. The
    speedup is the product of what the smaller batch costs one process and of weak scaling at that
    batch.
    """
    alone = {row["variant"]: row for row in rows_of(scope.tables.variants)}
    rows = [
        {**row, "parts": _parts(scope.tables, row, alone[row["strong_variant"]])}
        for row in _shared(scope.tables, scope.rows)
        if row["strategy"] == "ddp" and row["is_strong"] and not math.isnan(row["strong_speedup"])
    ]
    for group in _by_model(rows):
        most = max(row["devices"] for row in group.rows)
        yield _strong(
            replace(group, rows=tuple(row for row in group.rows if row["devices"] == most))
        )


def _strong(group: Group) -> Answer:
    pairs = [(row, estimate(row, "strong_speedup")) for row in group.rows]
    compared = Compared(group=group, pairs=pairs)

    def each(pairs: Iterable[tuple[Row, Estimate]]) -> str:
        return compared.listed(
            pairs,
            lambda row, gain: f"{row['configuration']} {times(gain, short=True)}{row['parts']}",
        )

    subject, sharing = group.title, parallelism_words(group.rows[0]["parallelism"])
    rest = {"slower": compared.on("below"), "no significant gain": compared.on("unclear")}
    others = "".join(f"; {word}: {each(some)}" for word, some in rest.items() if some)
    return compared.answer(
        "above",
        yes=f"Speedup of {subject} with {sharing}: {each(compared.on('above'))}{others}",
        no=f"{subject} trains more slowly with {sharing} than one plain process with the whole "
        f"batch: {each(pairs)}",
        whether=f"{subject} trains faster with {sharing} and the same batch",
        if_unclear=f"; speedup over one plain process: {each(pairs)}",
        measured=".",
        evidence=evidence_of(group, {"strong_speedup": "strong speedup"}),
    )


def _parts(tables: Tables, row: Row, whole: Row) -> str:
    """The factors of a strong speedup, over one plain process with the whole batch, in words."""
    base = estimate(row, "base_throughput_per_s")
    smaller = base.over(estimate(whole, "throughput_per_s"), spread_between(tables, row, whole))
    return (
        f": {times(smaller, short=True)} from the smaller batch of each GPU, multiplied by "
        f"{times(estimate(row, 'base_speedup'), short=True)} from sharing"
        if smaller.known
        else ""
    )


def _shared(tables: Tables, rows: Iterable[Row]) -> list[Row]:
    """Those of some variants that devices share and that were measured, with what they gain;
    `configuration` says how the code is trained.
    """
    gains = {row["variant"]: row for row in rows_of(tables.scaling_efficiency)}
    return [
        {**row, **gains[row["variant"]]}
        for row in with_configurations(list(rows))
        if row["variant"] in gains
    ]


def _by_model(rows: Iterable[Row]) -> list[Group]:
    return [
        Group(title=model, key=key_of(model), axis="", table=_TABLE, rows=tuple(found))
        for model, found in grouped(rows, model_words).items()
    ]


def _beside_ddp(
    rows: Iterable[Row], strategy: str
) -> Iterator[tuple[Group, list[tuple[Row, Row]]]]:
    """Of each model the trainings by a strategy, each with that by DistributedDataParallel of the
    same samples on as many devices, in the same precision with the same options.
    """
    for group in _by_model(rows):
        pairs = [
            (row, ddp)
            for row in group.rows
            for ddp in alike(group.rows, row, *_OF_TASK)
            if (row["strategy"], ddp["strategy"]) == (strategy, "ddp")
        ]
        if pairs:
            yield group, pairs


@question("How much communication is exposed?", DDP_OPTIONS)
def hidden(scope: Scope) -> Iterator[Answer]:
    """The limit is 5 % of a step, intervals included: no setting of DDP can hide more than what is
    exposed. That is the step time less that of the same training in which every rank keeps its own
    gradients and buffers, process by process.
    """
    variants = {row["variant"]: row for row in rows_of(scope.tables.variants)}
    for group in groups_beside(scope, "communication"):
        defaults = group.baseline
        if defaults is None or "bound" not in defaults:
            yield missing(group, "no training without communication was measured")
            continue
        bound = variants[defaults["bound"]]
        spread = spread_between(scope.tables, defaults, bound)
        share = against_other(defaults, "exposed_share", bound)
        share = between_sessions(share, defaults, bound, spread)
        yield decided(
            group,
            share,
            limit=HIDDEN_BELOW,
            limit_in_words="5 %",
            holds="below",
            yes=f"Less than 5 % of a step for {group.title}",
            no=f"More than 5 % of a step for {group.title}",
            whether=f"it is less than 5 % of a step for {group.title}",
            measured=f": with DDP's defaults {shown(defaults, 'exposed_ms')}, "
            f"{as_share(share, short=True)} of a step.",
            evidence=evidence_of_columns(
                [defaults], {"exposed_share": "exposed share of the step"}, group.table
            ),
            unknown="no training without communication had the same seeds",
        )


@question("Which setting of DDP pays?", DDP_OPTIONS)
@partial(each_group, groups=lambda scope: map(_beyond_defaults, for_speed(scope)))
@against_baseline
def setting(group: Group, before: Row) -> Answer:
    """It does if the whole interval of the fastest's speedup over DDP's defaults is above 1, and
    the difference is significant among the experiment's comparisons (Holm).
    """
    after = fastest_of(group.others)
    gain, subject, words = speedup(after, before), group.title, group.words(after)
    return decided(
        group,
        gain,
        yes=f"{subject} trained fastest with {words}: {times(gain, short=True)} the throughput "
        f"of the defaults{rivals(group, after)}",
        no=f"No setting made {subject} faster than DDP's defaults: the next, {words}, reached "
        f"{times(gain)} their throughput",
        whether=f"{subject} trains faster with {words} than with DDP's defaults",
        if_unclear=f"; it trained {times(gain)} as fast{_beside_its_session(group, after)}",
        evidence=evidence_of(group, {"throughput_per_s": "throughput"}, [after, before]),
        advice={"yes": f"With DistributedDataParallel train {subject} with {words}."},
        gain=gain,
    )


def _beside_its_session(group: Group, after: Row) -> str:
    """What is known of a setting beside the next and the slowest of its session, where the defaults
    are of another, as the end of a sentence.
    """
    others = sorted(
        (row for row in group.others if row["session"] == after["session"] and row is not after),
        key=lambda row: -float(row["throughput_per_s"]),
    )
    if not others or group.baseline is None or group.baseline["session"] == after["session"]:
        return ""
    over = ratio_of("throughput_per_s", group.tables)
    known = [
        f"{times(over(after, row), short=True)} as fast as with {group.words(row)}"
        for row in [others[0], *others[1:][-1:]]
    ]
    return f"; in its own session it trained {listed(known)}"


def _beyond_defaults(group: Group) -> Group:
    """The group with the defaults and what sets more than they do, each named by what it adds."""
    before = group.baseline
    if before is None:
        return group
    defaults = {*option_names(before["optimization"])}
    rows = (row for row in group.rows if defaults <= {*option_names(row["optimization"])})
    named = tuple({**row, "optimization": added_options(row, before)} for row in rows)
    return replace(group, rows=named)


@question(
    "From how many micro-batches does the pipeline beat the throughput of one GPU?", MODEL_SPLIT
)
def pipeline(scope: Scope) -> Iterator[Answer]:
    """A number of them does if the whole interval of the pipeline's throughput over that of one
    plain process with the same batch is above 1.
    """
    for group, plain, ddp in _pipelines(scope):
        figures = [(row, against_other(row, _OVER_ONE, plain)) for row in group.rows]
        known = [(row, figure) for row, figure in figures if figure.known]
        if not known:
            yield not_measured(group.title, _NOTHING_ALONE, key=group.key)
            continue
        compared = Compared(group=group, pairs=known)
        fastest, figure = max(known, key=lambda pair: pair[1].value)
        measured = (
            f"; it is fastest with m = {fastest['micro_batches']}, {times(figure, short=True)} "
            "that throughput"
        )
        if ddp is not None:
            reached = times(estimate(ddp, _OVER_ONE), short=True)
            measured += f"; DistributedDataParallel reaches {reached} that throughput"
        saving = [row for row in group.rows if row[_SAVED] >= MEMORY_TOLERANCE]
        if saving:
            least = max(saving, key=itemgetter(_SAVED))
            measured += (
                f"; the pipeline takes the least memory with m = {least['micro_batches']}, "
                f"{shown(least, _SAVED, short=True)} less than one device"
            )
        said = f"{_from_how_many(compared)} for {group.title}"
        yield compared.answer(
            "above",
            yes=said,
            no=said,
            whether=f"the pipeline beats one device for {group.title}",
            measured=f"{measured}.",
            evidence=evidence_of(group, {_OVER_ONE: "throughput over one device"}),
        )


def _from_how_many(compared: Compared) -> str:
    """With which numbers of micro-batches a pipeline is faster: from one on, with these alone, or
    with none.
    """
    enough = [row["micro_batches"] for row, _ in compared.on("above")]
    measured = [row["micro_batches"] for row, _ in compared.pairs]
    if not enough:
        return "With none of the numbers measured"
    if enough != measured[-len(enough) :]:
        return f"With {listed([str(number) for number in enough])} alone"
    return f"From {enough[0]} on" + (", the fewest measured," if enough == measured else "")


@question(
    "Does FSDP2 save memory compared with DistributedDataParallel for {subject}?",
    "parallelism",
    MODEL_SPLIT,
)
def sharded(scope: Scope) -> Iterator[Answer]:
    """Saving means at least 10 % less at the peak of a device that has the same samples, in the
    same precision with the same options, intervals included: allocators hand out memory in blocks,
    so that less than that is not due to the training.
    """
    memory, rate = ratio_of(_PEAK), ratio_of("throughput_per_s", scope.tables)
    known = [row for row in _shared(scope.tables, scope.rows) if row[_PEAK] > 0]
    for group, pairs in _beside_ddp(known, "fsdp"):
        sizes = list(dict.fromkeys(batch_size_words(fsdp) for fsdp, _ in pairs))
        figures = [
            (
                {
                    **fsdp,
                    "speed": times(rate(fsdp, ddp), short=True),
                    "beside": f", {batch_size_words(fsdp)}" * (len(sizes) > 1),
                },
                memory(fsdp, ddp).mapped(lambda left: 1 - left),
            )
            for fsdp, ddp in pairs
        ]
        compared = Compared(
            group=group, pairs=figures, limit=MEMORY_TOLERANCE, limit_in_words="10 %"
        )
        each = compared.listed(
            figures,
            lambda row, saved: (
                f"{as_share(saved, short=True)} at {row['speed']} the throughput "
                f"({row['configuration']}{row['beside']})"
            ),
        )
        subject = f"{group.title} ({listed(sizes)})"
        some = " in at least one configuration" * (len(pairs) > 1)
        yield compared.answer(
            "above",
            yes=f"{subject} saved 10 % or more{some}",
            no=f"{subject} saved less than 10 %",
            whether=f"{subject} saves memory",
            measured=f": {each}.",
            evidence=evidence_of_columns(
                [row for pair in pairs for row in pair], {_PEAK: "peak memory"}, _TABLE
            ),
            subject=subject,
        )


def _pipelines(scope: Scope) -> Iterator[tuple[Group, Row, Row | None]]:
    """The pipelines on one number of devices, by their micro-batches; one plain process with the
    same batch; and DistributedDataParallel on as many devices where measured.
    """
    rows = {row["variant"]: row for row in scope.rows}
    shared = [
        {**rows[row["variant"]], **row}
        for row in rows_of(scope.tables.model_splits)
        if {row["variant"], row["plain"]} <= rows.keys()
    ]
    plains = [rows[name] for name in dict.fromkeys(row["plain"] for row in shared)]
    by_plain = grouped(shared, lambda row: (row["plain"], row["devices"]))
    for (name, devices), together in by_plain.items():
        plain = rows[name]
        chosen = [row for row in together if row["strategy"] == "pipeline"]
        if not chosen:
            continue
        title = titled(plain, plains, leave_out=fields_along(scope.axis, ()))
        group = Group(
            title=f"{title} on {counted(devices, 'device')}",
            key=key_of(f"{plain['group']} on {devices}"),
            axis=scope.axis,
            table="model_splits",
            rows=tuple(sorted(chosen, key=lambda row: int(row["micro_batches"]))),
        )
        yield group, plain, next((row for row in together if row["strategy"] == "ddp"), None)
