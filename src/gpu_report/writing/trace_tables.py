"""The tables in the text about what a step consists of: shares, idle causes, kernels, memory, advice, failed checks.

Each takes rows of the study's tables about the traces, with those of their variants, and gives a TableBlock.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Final

from gpu_report.glossary import AXES, Metric, Row, memory_unit, time_in, time_unit_of_ms
from gpu_report.number_format import count, duration, memory, ratio, share
from gpu_report.options import NO_OPTIONS
from gpu_report.traces.quality import NOT_RELIABLE
from gpu_report.writing.constants import SHORT_LAUNCH
from gpu_report.writing.fields import Field, count_field, text_field
from gpu_report.writing.table_block import TableBlock, TableRow, lay_out
from gpu_report.writing.tex import Tex, escape
from gpu_report.writing.words import device_words, model_words, on_device

DOUBTS: Final = "doubts"
"""The key under which a row has the sentences of the checks that its trace failed, in one text; empty where none."""

_HOST_COLUMNS: Final = ("wall_ms", "loader_share")
_STEPS_CAPTION: Final = (
    "The profiled steps: wall time, the share of it in which the loop waited for data and nothing else ran"
)
_ACCELERATOR_CAPTION: Final = (
    ", kernel-active time, the shares in which the GPU was idle, and only copying, the launches in a step with"
    " the share of those "
    f"that ran for less than {SHORT_LAUNCH.plain()}, and the share of the time in which the GPU waited for the "
    "next launch; those of a CUDA graph are counted one by one."
)
_LONGEST_KERNEL_NAME: Final = 76
_LONGEST_LIST: Final = 700


def shares_table(rows: Sequence[Row], *, source: str) -> TableBlock:
    """How long the profiled steps took, how much of them kernels were active, and how it was given its work."""
    has_accelerator = any(row["device"] != "cpu" for row in rows)
    metrics = [
        Metric(column="wall_ms", header="profiled step", show=lambda value: duration(value / 1000, unit="ms")),
        Metric(column="loader_share", header="loader", show=share),
        Metric(column="device_busy_share", header="kernel-active", show=share),
        Metric(column="device_idle_share", header="idle", show=share),
        Metric(column="exposed_copy_share", header="exposed copies", show=share),
        Metric(column="launches_per_step", header="launches", show=count),
        Metric(column="short_share", header="short kernels", show=share),
        Metric(column="launch_bound_share", header="launch-bound", show=share),
    ]
    block = lay_out(
        rows,
        name="step_shares",
        caption=escape(_STEPS_CAPTION + (_ACCELERATOR_CAPTION if has_accelerator else ".")),
        fields=_identity_fields(),
        metrics=metrics,
        marks=lambda row: [row[DOUBTS]] if row[DOUBTS] else [],
        group=lambda row: row["workload"],
        source=source,
    )
    shown = [metric.column for metric in metrics if metric.is_in(rows)]
    laid = zip(block.rows, rows, strict=True)
    return replace(block, rows=tuple(_without_spoiled(cells, row, shown) for cells, row in laid))


def kernels_table(rows: Sequence[Row], *, spoiled: Mapping[str, frozenset[str]], source: str) -> TableBlock:
    """The kernels, copies and fills that ran longest; `spoiled` has the columns that the gate spoils, by variant."""
    return lay_out(
        rows,
        name="top_kernels",
        caption=escape(
            "The kernels, copies and memsets that ran longest on the GPU, with their share of all run times; tc "
            "tells whether the kernel uses tensor cores, with a question mark where its name does not say."
        ),
        fields=[
            Field(header="", text=lambda row: str(row["rank"]), is_number=True),
            Field(header="kernel", text=_kernel_name, is_name=True, width=0.27, longest=_LONGEST_KERNEL_NAME),
            _launch_field("category", "category", spoiled),
            text_field("library", "library"),
            Field(header="tc", text=lambda row: str(row["tensor_cores"]).replace("unknown", "?")),
            Field(header="launched by", text=lambda row: _launched_by(row, spoiled), is_name=True, width=0.25),
        ],
        metrics=[Metric(column="share", header="share", show=share)],
        group=lambda row: row["variant"],
        heading=_heading,
        source=source,
    )


def memory_table(rows: Sequence[Row], *, source: str) -> TableBlock:
    """The operations that asked for the most memory in a step."""
    return lay_out(
        rows,
        name="operation_memory",
        caption=escape(
            "The operations that asked for the most memory on the variant's device in one step, whether or not it was "
            "freed again, with their share of all that was asked for."
        ),
        fields=[Field(header="operation", text=lambda row: str(row["operation"]), is_name=True, width=0.5)],
        metrics=[
            Metric(column="allocations_per_step", header="allocations", show=count),
            Metric(column="allocated_mib_per_step", header="memory", show=memory, column_unit=memory_unit),
            Metric(column="share", header="share", show=share),
        ],
        group=lambda row: row["variant"],
        heading=_heading,
        source=source,
    )


def speedups_table(rows: Sequence[Row], *, source: str) -> TableBlock:
    """How much less time the categories take on the accelerator than on the CPU."""
    return lay_out(
        rows,
        name="category_speedups",
        caption=escape(
            "Time of a profiled step by category: on the CPU in the operations themselves, on the GPU in the "
            "kernels they launched, and the former over the latter. One profiled run on each."
        ),
        fields=[text_field("category", "category", width=0.35)],
        metrics=[
            Metric(column="cpu_ms", header="CPU", show=time_in(1e3), column_unit=time_unit_of_ms),
            Metric(column="device_ms", header="GPU", show=time_in(1e3), column_unit=time_unit_of_ms),
            Metric(column="speedup", header="speedup", show=ratio),
        ],
        group=lambda row: row["variant"],
        heading=_heading,
        source=source,
    )


def doubts_table(rows: Sequence[Row], *, source: str) -> TableBlock:
    """The checks that traces failed, with how many did and what is left out of their tables for it."""
    checks = []
    for check, alike in groupby(sorted(rows, key=lambda row: str(row["check"])), key=lambda row: str(row["check"])):
        of_check = list(alike)
        variants = len({row["variant"] for row in of_check})
        spoils = dict.fromkeys(name for row in of_check for name in str(row["spoils"]).split(", ") if name)
        checks.append({"check": check, "variants": variants, "spoils": _by_table(spoils) or "nothing"})
    return lay_out(
        checks,
        name="trace_doubts",
        caption=escape(
            "Checks that traces failed, and the trace tables and columns whose numbers are left out for it."
        ),
        fields=[
            text_field("check", "check", width=0.25),
            count_field("variants", "variants"),
            Field(header="left out", text=lambda row: row["spoils"], is_name=True, width=0.55, longest=_LONGEST_LIST),
        ],
        source=source,
    )


def _by_table(names: Iterable[str]) -> str:
    """Names of tables and columns, the columns of one table together: `idle, steps (loader_ms, other_ms)`."""
    columns: dict[str, list[str]] = {}
    for name in names:
        table, _, column = name.partition(".")
        columns.setdefault(table, []).extend([column] if column else [])
    return ", ".join(f"{table} ({', '.join(found)})" if found else table for table, found in columns.items())


def _identity_fields() -> list[Field]:
    return [
        Field(header=AXES["workload"], text=model_words),
        Field(header="configuration", text=_configuration, width=0.22, longest=80),
    ]


def _configuration(row: Row) -> str:
    """Device, precision, whether DataLoader workers load, and what is switched on."""
    workers = ["DataLoader workers"] if row["workers"] else []
    options = [] if row["options"] == NO_OPTIONS else [str(row["options"])]
    return ", ".join([device_words(row["device"]), str(row["precision"]), *workers, *options])


def _heading(row: Row) -> str:
    return f"{model_words(row)} {on_device(row['device'])}, {row['variant']}"


def _without_spoiled(laid: TableRow, row: Row, columns: Sequence[str]) -> TableRow:
    """The row with words in place of its spoiled numbers, once for those side by side."""
    texts, numbers = laid.cells[: -len(columns)], laid.cells[-len(columns) :]
    cells = list(texts)
    for is_spoiled, found in groupby(zip(columns, numbers, strict=True), key=lambda cell: _is_spoiled(row, cell[0])):
        values = [value for _, value in found]
        words = Tex(rf"\multicolumn{{{len(values)}}}{{c}}{{\itshape {NOT_RELIABLE}}}")
        cells += [words] if is_spoiled else values
    return replace(laid, cells=tuple(cells))


def _is_spoiled(row: Row, column: str) -> bool:
    """On the CPU there is no number of an accelerator to be spoiled."""
    has_one = row["device"] != "cpu" or column in _HOST_COLUMNS
    return bool(row[DOUBTS]) and has_one and math.isnan(row[column])


def _kernel_name(row: Row) -> str:
    """Without what it returns and the types of its arguments, which tell nothing."""
    name = str(row["name"])
    if not name.startswith("void ") or not name.endswith(")"):
        return name
    depths = accumulate((char == ")") - (char == "(") for char in reversed(name))
    arguments = next((at for at, depth in enumerate(depths, start=1) if depth == 0), 0)
    return name[len("void ") : -arguments] if arguments else name


def _launch_field(header: str, column: str, spoiled: Mapping[str, frozenset[str]]) -> Field:
    return Field(header=header, text=lambda row: _of_launch(row, column, spoiled))


def _of_launch(row: Row, column: str, spoiled: Mapping[str, frozenset[str]]) -> str:
    """What the launching call tells of a kernel: empty where none is known."""
    return NOT_RELIABLE if column in spoiled.get(str(row["variant"]), frozenset()) else str(row[column])


def _launched_by(row: Row, spoiled: Mapping[str, frozenset[str]]) -> str:
    """The operation, and around it the line of the user's own code, or failing that the module."""
    operation = _of_launch(row, "operation", spoiled)
    place = str(row["source"] or row["module"])
    return f"{operation}, {place}" if place and operation != NOT_RELIABLE else operation
