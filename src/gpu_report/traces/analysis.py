"""A trace file, or a folder with one file per rank: found, tabulated with advice, and named; and
two of them compared.

FILE or FOLDER -> files -> AnalysedTrace of each, the ranks in order -> a folder name for each
two of these -> what changed from one to the other, per step -> TRACE_CHANGES
"""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gpu_report.errors import TraceError
from gpu_report.storage.columns import Table, number, text
from gpu_report.traces.attribution import attribute
from gpu_report.traces.document import kept_name
from gpu_report.traces.graphs import with_operations
from gpu_report.traces.grouping import Row
from gpu_report.traces.kernels import KERNELS
from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS
from gpu_report.traces.quality import QUALITY, Gate, row_of
from gpu_report.traces.ranks import Exchange, exchange_of, tabulate_ranks
from gpu_report.traces.reading import read_trace
from gpu_report.traces.steps import PARTS_OF_STEP, STEPS
from gpu_report.traces.tables import TraceTables, file_name, tabulate_trace
from gpu_report.traces.trace import Trace

_MOST_NAMED: Final = 20


class AnalysedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of one file, and what the file is; the events themselves are let go.

    `device` is the accelerator's backend, `device_name` its model; the steps and the number of
    ranks are in `exchange`. What the trace does not say is an empty text or None.
    """

    path: Path
    rank: int | None
    device: str
    device_name: str
    has_steps: bool
    exchange: Exchange
    rows: TraceTables

    @property
    def gate(self) -> Gate:
        """The tables with what their quality gate lets through."""
        return Gate(self.rows)


def find_traces(path: Path) -> list[Path]:
    """The file itself, or the traces of a folder by name: what torch.profiler calls so, or else
    every JSON file.

    Raises:
        TraceError: there is no such file, or the folder holds none.
    """
    if not path.is_dir():
        if path.exists():
            return [path]
        raise TraceError(f"{path} does not exist; name a trace file, or a folder with one per rank")
    for patterns in (("*.pt.trace.json", "*.pt.trace.json.gz"), ("*.json", "*.json.gz")):
        found = sorted(file for pattern in patterns for file in path.glob(pattern))
        if found:
            return found
    raise TraceError(
        f"folder {path} holds no trace; it should hold .json or .json.gz files of torch.profiler"
    )


def analyse(path: Path, uncaptured: Path | None = None) -> AnalysedTrace:
    """Every table of one trace file, with quality and advice.

    `uncaptured` is a trace of the same work before it was captured in CUDA graphs, from which the
    kernels of the graphs have their operations.

    Raises:
        TraceError: a file is no trace, or damaged.
    """
    known = attribute(read_trace(path))
    if uncaptured is not None:
        known = with_operations(known, attribute(read_trace(uncaptured)))
    trace, *_ = known
    return AnalysedTrace(
        path=path,
        rank=trace.rank,
        device=trace.device or "",
        device_name=device_model(trace),
        has_steps=trace.has_steps,
        exchange=exchange_of(*known),
        rows=tabulate_trace(trace, known=known),
    )


def analyse_all(
    path: Path, say: Callable[..., None], uncaptured: Path | None = None
) -> list[AnalysedTrace]:
    """Every trace of a file or folder in the order of ranks.

    Where a folder lacks ranks, the table of quality of each says so. What a rank waited for others,
    which its own trace does not show, is in the tables of each that are about ranks. A file of a
    folder that cannot be read is left out.

    Args:
        path: The file or folder.
        say: Prints a line to standard error, as that of printing.terminal does: which files are
            left out, and which ranks have several, so that ranks are not compared.
        uncaptured: As of `analyse`, the same for all ranks.

    Raises:
        TraceError: there is no trace, or none that can be read.
    """
    analysed, faults = [], []
    for file in find_traces(path):
        try:
            analysed.append(analyse(file, uncaptured))
        except TraceError as error:
            faults.append(error)
    if not analysed:
        raise faults[0]
    for fault in faults:
        say(kept_name(f"left out: {fault}; the other files are shown"), to_stderr=True)
    analysed.sort(key=lambda each: (each.rank is None, each.rank or 0, each.path.name))
    if not path.is_dir():
        return analysed
    files = Counter(each.rank for each in analysed if each.rank is not None)
    if several := [str(rank) for rank, count in files.items() if count > 1][:_MOST_NAMED]:
        say(
            kept_name(
                f"ranks are not compared: {path} has several files of rank {', '.join(several)}; "
                "keep one of each"
            ),
            to_stderr=True,
        )
    missing, of_ranks = (
        _missing_ranks(analysed),
        tabulate_ranks([each.exchange for each in analysed]),
    )
    return [
        msgspec.structs.replace(
            each,
            rows={
                **each.rows,
                **{
                    table: [row for row in rows if row["rank"] == each.rank]
                    for table, rows in of_ranks.items()
                },
                QUALITY: [*each.rows[QUALITY], missing],
            },
        )
        for each in analysed
    ]


def _missing_ranks(analysed: Sequence[AnalysedTrace]) -> Row:
    """A row of QUALITY: at most 0 of the ranks that the traces name have no file.

    It invalidates nothing, since each rank's own numbers stay true.
    """
    ranks = {each.rank for each in analysed if each.rank is not None}
    world_size = max((each.exchange.ranks or 1 for each in analysed), default=1)
    missing = [rank for rank in range(world_size) if rank not in ranks] if ranks else []
    named = ", ".join(map(str, missing[:_MOST_NAMED]))
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    said = f"of {world_size} ranks {len(missing)} have no trace here" + (
        f": {named}{more}" if missing else ""
    )
    return row_of("every rank", len(missing), 0, passed=not missing, text=said, invalidates=())


def labels(analysed: Sequence[AnalysedTrace]) -> list[str]:
    """A name for each: `rank0` and so on, or the file's name where a rank is not known or has
    several files.
    """
    with_ranks = have_own_ranks(analysed)
    return [f"rank{each.rank}" if with_ranks else each.path.name for each in analysed]


def have_own_ranks(analysed: Sequence[AnalysedTrace]) -> bool:
    """Whether the rank of each is known, and no other has it."""
    ranks = [each.rank for each in analysed]
    return None not in ranks and len(set(ranks)) == len(ranks)


def csv_files(analysed: Sequence[AnalysedTrace]) -> dict[Path, str]:
    """The CSV text of every table by its path in the folder of tables; each of several traces has a
    folder of its own.

    Raises:
        TableError: a row is not as its table declares.
    """
    folders = [Path(label) for label in labels(analysed)] if len(analysed) > 1 else [Path()]
    return {
        folder / file_name(table): table.rows_to_csv(rows)
        for folder, each in zip(folders, analysed, strict=True)
        for table, rows in each.rows.items()
    }


def device_model(trace: Trace) -> str:
    """The first device's model; empty where the trace names none or nothing ran on one."""
    name = trace.first_device.get("name") if trace.device else None
    return kept_name(name, most=200) if isinstance(name, str) else ""


STEP: Final = "step"
PART: Final = "part"
CATEGORY: Final = "category"
OPERATION: Final = "operation"
KERNEL: Final = "kernel"

TRACE_CHANGES: Final = Table(
    name="trace_changes",
    meaning=(
        "One row per step time and part of it, category, operation and kernel of two traces A and "
        "B, per step; within each level the largest change of time first. A number that its "
        "trace's quality gate does not trust is missing."
    ),
    columns=(
        text("level", "step, part, category, operation or kernel."),
        text("name", "Name of the part, category, operation or kernel; wall time for a step."),
        text(
            "device",
            "cpu, or the accelerator's backend as in the traces; empty for a step, a part of it "
            "and a kernel.",
        ),
        text("category", "Category of the operation or kernel; empty for a step and a part of it."),
        number(
            "a_ms",
            "ms",
            "Own time, of a kernel run time, per step in A; 0 where A has no such row.",
        ),
        number("b_ms", "ms", "The same in B; 0 where B has no such row."),
        number("change_ms", "ms", "b_ms - a_ms."),
        number("ratio", "1", "b_ms / a_ms; missing where A took no time."),
        number("a_calls", "1", "Calls per step in A."),
        number("b_calls", "1", "Calls per step in B."),
    ),
)


_Key = tuple[str, str, str, str]


_LEVELS: Final = {
    CATEGORY: (CATEGORY_TIMES, "category", "self_ms"),
    OPERATION: (OPERATIONS, "name", "self_ms"),
    KERNEL: (KERNELS, "name", "total_ms"),
}
"""Each with its table, and that table's columns that name a row and have its time."""


def analyse_two(a: Path, b: Path) -> tuple[AnalysedTrace, AnalysedTrace]:
    """Two trace files to compare per step.

    Raises:
        TraceError: one cannot be read, or one has marked steps and the other none.
    """
    in_a, in_b = analyse(a), analyse(b)
    if in_a.has_steps != in_b.has_steps:
        without, other = (b, a) if in_a.has_steps else (a, b)
        raise TraceError(
            f"{without} has no marked steps but {other} does, so the two cannot be compared per "
            "step; call profiler.step() after each step in both scripts"
        )
    return in_a, in_b


def change_rows(a: TraceTables, b: TraceTables) -> list[Row]:
    """The rows of TRACE_CHANGES from the tables of two traces; steps and their parts first, then
    categories, operations and kernels.

    None where one of them has no steps, as the tables of a configuration without a trace.
    """
    if not (a.get(STEPS) and b.get(STEPS)):
        return []
    in_a, in_b = _amounts(a), _amounts(b)
    rows = []
    for key in {**in_a, **in_b}:
        level, name, device, category = key
        a_ms, a_calls = _amount(a, in_a, key)
        b_ms, b_calls = _amount(b, in_b, key)
        change_ms = None if a_ms is None or b_ms is None else b_ms - a_ms
        rows.append(
            {
                "level": level,
                "name": name,
                "device": device,
                "category": category,
                "a_ms": a_ms,
                "b_ms": b_ms,
                "change_ms": change_ms,
                "ratio": b_ms / a_ms if a_ms and b_ms is not None else None,
                "a_calls": a_calls,
                "b_calls": b_calls,
            }
        )
    return sorted(
        rows,
        key=lambda row: (
            [STEP, PART, *_LEVELS].index(row["level"]),
            -abs(row["change_ms"] or 0.0),
            row["name"],
            row["device"],
            row["category"],
        ),
    )


def _amounts(tables: TraceTables) -> dict[_Key, tuple[float, float]]:
    """Own time and calls per step of each row of the tables; of the step itself the mean over those
    that can be trusted.
    """
    steps = len(tables[STEPS])
    amounts: dict[_Key, tuple[float, float]] = {}
    for column, name in {"wall_ms": "wall time", **PARTS_OF_STEP}.items():
        level = STEP if column == "wall_ms" else PART
        found = [row[column] for row in Gate(tables).rows(STEPS, column)]
        if times_ms := [time_ms for time_ms in found if time_ms is not None]:
            amounts[level, name, "", ""] = (statistics.fmean(times_ms), 1.0)
    for level, (table, name, time) in _LEVELS.items():
        for row in tables.get(table, ()):
            key = (level, row[name], row.get("device", ""), row["category"])
            amounts[key] = (row[time] / steps, row["calls"] / steps)
    return amounts


def _amount(
    tables: TraceTables, amounts: Mapping[_Key, tuple[float, float]], key: _Key
) -> tuple[float, float] | tuple[None, None]:
    """The trace's amount, nothing where it has no such row, None where the quality gate does not
    trust that number.
    """
    level, _, device, _ = key
    if level in (STEP, PART):
        return amounts.get(key, (None, None))
    table, _, time = _LEVELS[level]
    is_trusted = Gate(tables).trusts(table, time, on=device)
    return amounts.get(key, (0.0, 0.0)) if is_trusted else (None, None)
