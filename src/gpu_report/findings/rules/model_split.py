"""Rules about models split over several GPUs: does a naive split pay, does a pipeline, and what does FSDP2 save?"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gpu_report.findings.estimate import Row, estimate, ratio_of
from gpu_report.findings.phrases import titled
from gpu_report.findings.rule import MEMORY, AllOrAny, Comparison, Figures, Rule
from gpu_report.findings.rules import axes
from gpu_report.findings.scope import MODEL_SPLIT, Group, Scope, key_of
from gpu_report.tables.bundle import rows_of

_TABLE: Final = "model_splits"
_OVER_ONE: Final = "speedup_over_one"
_NOTHING_ALONE: Final = "one device was not measured with the same batch"
_THRESHOLD: Final = (
    "It does if the whole interval of its throughput over that of one plain process with the same batch is above 1."
)


def _by_plain(scope: Scope) -> list[Group]:
    """A group for each plain process, with all that share its training, whatever the number of micro-batches."""
    rows = {row["variant"]: row for row in scope.rows}
    shared = [{**rows[row["variant"]], **row} for row in rows_of(scope.tables.model_splits) if row["variant"] in rows]
    plains = [rows[name] for name in dict.fromkeys(row["plain"] for row in shared) if name in rows]
    return [
        Group(
            title=titled(plain, plains, leave_out=scope.axis),
            key=key_of(plain["group"]),
            axis=scope.axis,
            table=_TABLE,
            rows=tuple(sorted((row for row in shared if row["plain"] == plain["variant"]), key=_micro_batches)),
        )
        for plain in plains
    ]


def _micro_batches(row: Row) -> int:
    return int(row["micro_batches"])


def _with(scope: Scope, strategy: str) -> Iterable[Group]:
    """The groups that have a variant of this strategy, with those alone."""
    for group in _by_plain(scope):
        rows = tuple(row for row in group.rows if row["strategy"] == strategy)
        if rows:
            yield replace(group, rows=rows)


def _over_one(strategy: str, item: str) -> AllOrAny:
    return AllOrAny(
        groups=lambda scope: _with(scope, strategy),
        asks="any",
        figures=lambda group: [(row, estimate(row, _OVER_ONE)) for row in group.measured],
        item=item,
        unknown=_NOTHING_ALONE,
        evidence={_OVER_ONE: "throughput over one device"},
        more=lambda figures: {"fewest": _fewest(figures)},
    )


def _fewest(figures: Figures) -> int:
    return min((_micro_batches(row) for row, _ in figures.on("above")), default=0)


def _ddp_and_fsdp(group: Group) -> tuple[Row, Row] | None:
    rows = {row["strategy"]: row for row in group.measured}
    return (rows["ddp"], rows["fsdp"]) if {"ddp", "fsdp"} <= rows.keys() else None


def _with_fsdp(scope: Scope) -> Iterable[Group]:
    groups = [group for group in _by_plain(scope) if any(row["strategy"] == "fsdp" for row in group.rows)]
    return [replace(group, table=scope.table) for group in groups]


RULES: Final = (
    Rule(
        name="naive",
        about=MODEL_SPLIT,
        question="Does a model split without a pipeline train faster than one GPU?",
        threshold=_THRESHOLD,
        test=_over_one("split", "{figure} its throughput, with {row.memory_peak_mib:short} on the device with most"),
        yes="Split over two devices, {subject} trained faster than on one: {all}.",
        no="Split over two devices, {subject} trained slower than on one, as each half waits for the other: {all}.",
        unresolved="Whether {subject} split over two devices trains faster than on one",
        measured="; it reached {all}.",
    ),
    Rule(
        name="pipeline",
        about=MODEL_SPLIT,
        question="From how many micro-batches does the pipeline beat one GPU?",
        threshold=_THRESHOLD,
        test=_over_one("pipeline", "m = {row.micro_batches}: {figure:short}"),
        yes="From {fewest} for {subject}. Throughput over that of one device with m micro-batches: {all}.",
        no="With no number of them for {subject}. Throughput over that of one device with m micro-batches: {all}.",
        unresolved="Whether the pipeline beats one device for {subject}",
        measured="; throughput over that of one device with m micro-batches: {all}.",
    ),
    Rule(
        name="sharded",
        about=MODEL_SPLIT,
        question="Does FSDP2 save memory against DistributedDataParallel?",
        threshold="Saving" + axes.SAVING_THRESHOLD,
        test=Comparison(
            groups=_with_fsdp,
            choose=_ddp_and_fsdp,
            figure=ratio_of("memory_peak_mib"),
            limit=1 - axes.MEMORY_TOLERANCE,
            limit_in_words="10 % less",
            holds="below",
            lacking="DistributedDataParallel was not measured beside it",
            evidence=MEMORY,
            of_both=True,
            more=lambda compared: {"speed": ratio_of("throughput_per_s")(compared.after, compared.before)},
        ),
        yes="{subject} needed less{measured} It is for models that do not fit otherwise.",
        no="{subject} needed hardly less{measured}",
        unresolved="Whether {subject} needs less",
        measured=": {after.memory_peak_mib} on the device with most, against {before.memory_peak_mib:short}, at {speed}"
        " the throughput.",
    ),
)
