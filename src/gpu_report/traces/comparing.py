"""What changed between two traces: time and calls of every category and operation, per step, the largest change first.

tables of A and of B -> rows of TRACE_CHANGES; traces of two folders -> pairs of one rank each
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gpu_report.columns import Table, number, text
from gpu_report.traces.analysis import AnalysedTrace, file_labels, have_own_ranks, labels
from gpu_report.traces.grouping import Row
from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS
from gpu_report.traces.steps import STEPS
from gpu_report.traces.trace import TraceError

STEP: Final = "step"
CATEGORY: Final = "category"
OPERATION: Final = "operation"

TRACE_CHANGES: Final = Table(
    name="trace_changes",
    meaning=(
        "One row per step time, category and operation of two traces A and B, per step; within each level the largest "
        "change of time first. A number that its trace's quality gate spoils is missing."
    ),
    columns=(
        text("level", "step, category or operation."),
        text("name", "Name of the category or operation; wall time for a step."),
        text("device", "cpu, or the accelerator's backend as in the traces."),
        text("category", "Category of the operation; empty for a step."),
        number("a_ms", "ms", "Own time per step in A; 0 where A has no such row."),
        number("b_ms", "ms", "Own time per step in B; 0 where B has no such row."),
        number("change_ms", "ms", "b_ms - a_ms."),
        number("ratio", "1", "b_ms / a_ms; missing where A took no time."),
        number("a_calls", "1", "Calls per step in A."),
        number("b_calls", "1", "Calls per step in B."),
    ),
)


_STEP_KEY: Final = (STEP, "wall time", "cpu", "")


class _Amount(NamedTuple):
    """Own time and calls per step."""

    ms: float
    calls: float


_Key = tuple[str, str, str, str]
_NOTHING: Final = _Amount(0.0, 0.0)
_TABLES: Final = ((CATEGORY, CATEGORY_TIMES, "category"), (OPERATION, OPERATIONS, "name"))


class TracePair(NamedTuple):
    """Two traces to compare, and their common name, such as `rank0`."""

    label: str
    a: AnalysedTrace
    b: AnalysedTrace


class Paired(NamedTuple):
    """The pairs in the order of A, and the names of those on one side alone."""

    pairs: list[TracePair]
    a_alone: list[str]
    b_alone: list[str]


def paired(a: Sequence[AnalysedTrace], b: Sequence[AnalysedTrace]) -> Paired:
    """The traces of each rank that both have; one trace alone is compared with one, of any rank.

    Where the ranks of one side are not known or have several files, traces whose files have one name are compared.

    Raises:
        TraceError: there is no such pair.
    """
    if len(a) == len(b) == 1:
        return Paired([TracePair(labels(a)[0], a[0], b[0])], [], [])
    name = labels if have_own_ranks(a) and have_own_ranks(b) else file_labels
    in_a, in_b = (dict(zip(name(side), side, strict=True)) for side in (a, b))
    both = [label for label in in_a if label in in_b]
    if not both:
        held = "; ".join(f"{_place(side)} holds {', '.join(name(side))}" for side in (a, b))
        raise TraceError(f"nothing to compare: {held}; name two folders that share a rank, or two files")
    return Paired(
        [TracePair(label, in_a[label], in_b[label]) for label in both],
        [label for label in in_a if label not in in_b],
        [label for label in in_b if label not in in_a],
    )


def _place(side: Sequence[AnalysedTrace]) -> Path:
    return side[0].path if len(side) == 1 else side[0].path.parent


def change_rows(a: AnalysedTrace, b: AnalysedTrace) -> list[Row]:
    """The rows of TRACE_CHANGES; steps first, then categories, then operations."""
    in_a, in_b = _amounts(a), _amounts(b)
    rows = [_row(key, _amount(a, in_a, key), _amount(b, in_b, key)) for key in {**in_a, **in_b}]
    levels = (STEP, CATEGORY, OPERATION)
    return sorted(
        rows,
        key=lambda row: (
            levels.index(row["level"]),
            -abs(row["change_ms"] or 0.0),
            row["name"],
            row["device"],
            row["category"],
        ),
    )


def _row(key: _Key, a: _Amount | None, b: _Amount | None) -> Row:
    level, name, device, category = key
    return {
        "level": level,
        "name": name,
        "device": device,
        "category": category,
        "a_ms": a.ms if a else None,
        "b_ms": b.ms if b else None,
        "change_ms": b.ms - a.ms if a and b else None,
        "ratio": b.ms / a.ms if a and b and a.ms else None,
        "a_calls": a.calls if a else None,
        "b_calls": b.calls if b else None,
    }


def _amounts(trace: AnalysedTrace) -> dict[_Key, _Amount]:
    """The amount per step of each row of the tables; of the step itself the mean over those that can be trusted."""
    steps = trace.step_count
    walls_ms = [row["wall_ms"] for row in trace.gate.rows(STEPS, "wall_ms")]
    amounts = {_STEP_KEY: _Amount(sum(walls_ms) / len(walls_ms), 1.0)} if walls_ms else {}
    for level, table, name in _TABLES:
        for row in trace.rows[table]:
            key = (level, row[name], row["device"], row["category"])
            amounts[key] = _Amount(row["self_ms"] / steps, row["calls"] / steps)
    return amounts


def _amount(trace: AnalysedTrace, amounts: Mapping[_Key, _Amount], key: _Key) -> _Amount | None:
    """The trace's amount, nothing where it has no such row, None where the quality gate spoils that number."""
    level, _, device, _ = key
    if level == STEP:
        return amounts.get(key)
    table = next(table for name, table, _ in _TABLES if name == level)
    return amounts.get(key, _NOTHING) if trace.gate.trusts(table, "self_ms", on=device) else None
