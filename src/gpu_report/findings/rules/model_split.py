"""Rules about models split over several GPUs: does a naive split pay, does a pipeline, and what
does FSDP2 save?
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from gpu_report.findings.estimate import Estimate, against_other, estimate, ratio_of
from gpu_report.findings.phrases import of_column, times
from gpu_report.findings.rule import AllOrAny, Figures, Rule
from gpu_report.findings.rules import axes
from gpu_report.findings.scope import MODEL_SPLIT, Group, Scope, key_of
from gpu_report.glossary import Row
from gpu_report.printing.number_format import counted
from gpu_report.tables.bundle import rows_of
from gpu_report.words import listed, titled

_TABLE: Final = "model_splits"
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
            title=f"{titled(rows[plain], plains, leave_out=scope.axis)} on "
            f"{counted(devices, 'device')}",
            key=key_of(f"{rows[plain]['group']} on {devices}"),
            axis=scope.axis,
            table=_TABLE,
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


RULES: Final = (
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
