"""Questions about models that are split over several GPUs.

Does a split without a pipeline train faster than one GPU, from how many micro-batches does a
pipeline, and what memory does FSDP2 save?
"""

from collections.abc import Iterator
from typing import Final

from gpu_report.answers.estimate import against_other, estimate, ratio_of
from gpu_report.answers.phrases import as_share, shown, times
from gpu_report.answers.question import (
    Answer,
    Compared,
    decided,
    evidence_of,
    not_measured,
    question,
)
from gpu_report.answers.questions.axes import MEMORY_TOLERANCE
from gpu_report.answers.scope import MODEL_SPLIT, Group, Scope, key_of
from gpu_report.glossary import Row
from gpu_report.printing.number_format import counted
from gpu_report.tables.bundle import grouped, rows_of
from gpu_report.words import fields_along, listed, titled

_OVER_ONE: Final = "speedup_over_one"
_SAVED: Final = "memory_saved_share"
_NOTHING_ALONE: Final = "one device was not measured with the same batch"


@question("Does a model split without a pipeline train faster than one GPU?", MODEL_SPLIT)
def naive(scope: Scope) -> Iterator[Answer]:
    """It does if the whole interval of its throughput over that of one plain process with the same
    batch is above 1.
    """
    for group, plain, _ in _beside_plain(scope, "split"):
        figure = against_other(group.rows[0], _OVER_ONE, plain)
        if not figure.known:
            yield not_measured(group.title, _NOTHING_ALONE, key=group.key)
            continue
        yield decided(
            group,
            figure,
            yes=f"Split into stages, {group.title} trained faster than on one",
            no=f"Split into stages, {group.title} trained more slowly than on one, as each stage "
            "waits for the others",
            whether=f"{group.title}, split into stages, trains faster than on one",
            measured=f"; it reached {times(figure)} the throughput of one.",
            evidence=evidence_of(group, {_OVER_ONE: "throughput over one device"}),
        )


@question(
    "From how many micro-batches does the pipeline beat the throughput of one GPU?", MODEL_SPLIT
)
def pipeline(scope: Scope) -> Iterator[Answer]:
    """A number of them does if the whole interval of the pipeline's throughput over that of one
    plain process with the same batch is above 1.
    """
    for group, plain, ddp in _beside_plain(scope, "pipeline"):
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
        verdict = compared.any_on("above")
        statement = f"{_enough(compared)} for {group.title}"
        if verdict == "too close to call":
            statement = (
                f"Whether the pipeline beats one device for {group.title} is too close to call, "
                f"because {compared.doubt}"
            )
        yield Answer(
            verdict=verdict,
            statement=f"{statement}{measured}.",
            subject=group.title,
            evidence=evidence_of(group, {_OVER_ONE: "throughput over one device"}),
            key=group.key,
        )


def _enough(compared: Compared) -> str:
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


@question("Does FSDP2 save memory against one GPU?", MODEL_SPLIT)
def sharded(scope: Scope) -> Iterator[Answer]:
    """Saving means at least 10 % less at the peak, intervals included: allocators hand out memory
    in blocks, so that less than that is not due to the training. Part of the saving comes from the
    batch: each device has a share of it.
    """
    for group, plain, ddp in _beside_plain(scope, "fsdp"):
        fsdp = group.rows[0]
        saved = against_other(fsdp, _SAVED, plain)
        if not saved.known:
            yield not_measured(group.title, _NOTHING_ALONE, key=group.key)
            continue
        yield decided(
            group,
            saved,
            limit=MEMORY_TOLERANCE,
            limit_in_words="10 %",
            yes=f"{group.title} saved memory",
            no=f"{group.title} saved little",
            whether=f"{group.title} saves memory",
            measured=f": {as_share(saved, short=True)} on the device with most, at "
            f"{shown(fsdp, _OVER_ONE, short=True)} the throughput{_beside_ddp(fsdp, ddp)}.",
            evidence=evidence_of(group, {_SAVED: "memory saved"}),
        )


def _beside_ddp(fsdp: Row, ddp: Row | None) -> str:
    """What DistributedDataParallel takes for the same, as the end of a sentence about FSDP2."""
    if ddp is None:
        return ""
    saved, speed = (shown(ddp, column, short=True) for column in (_SAVED, _OVER_ONE))
    words = f"; DistributedDataParallel saved {saved} at {speed} the throughput"
    if ratio_of("throughput_per_s")(ddp, fsdp).against(1.0) == "above":
        words += ", so FSDP2 is for models that do not fit with DistributedDataParallel"
    return words


def _beside_plain(scope: Scope, strategy: str) -> Iterator[tuple[Group, Row, Row | None]]:
    """The trainings by a strategy on one number of devices, by their micro-batches; one plain
    process with the same batch; and DistributedDataParallel on as many devices where measured.
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
        chosen = [row for row in together if row["strategy"] == strategy]
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
