"""How a configuration, its fields and what became of it are called, in three lengths.

cell and axis: `value_words`, `flags_of`, `why_missing`; label beside what it names: `part_words`,
`EAGER_BASELINE`; sentence: `in_words`, `described`, `titled`, `why_no_numbers`
"""

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from gpu_report.glossary import (
    AXES,
    SPEEDUP,
    STATUS_WORDS,
    Metric,
    Row,
    american,
    capitalized,
    device_words,
)
from gpu_report.printing import number_format
from gpu_report.printing.number_format import counted, field_value
from gpu_report.study.catalogue import GPT2_SIZES
from gpu_report.study.options import (
    BUCKETS_MIB,
    EXECUTIONS,
    LOWER_PRECISIONS,
    NO_OPTIONS,
    OPTIONS,
    SEPARATOR,
    Optimization,
    execution,
    is_bound,
    option_names,
)
from gpu_report.study.strategies import SINGLE, STRATEGIES, devices_and_strategy
from gpu_report.study.variant import AXIS_FIELDS
from gpu_report.tables.marks import marks_in

if TYPE_CHECKING:
    import pandas as pd

EAGER_BASELINE: Final = "eager baseline"

_LONGEST_REASON: Final = 200
"""Characters; longer reasons are in the appendix."""

DISTINGUISHING: Final[tuple[str, ...]] = (
    "size",
    "device",
    "batch_size",
    "accumulation",
    "workers",
    "precision",
    "options",
    "epochs",
    "steps_per_epoch",
    "seed",
    "parallelism",
)
"""The fields of a variant beside its workload."""


def listed(parts: Sequence[str]) -> str:
    """Parts as a sentence lists them: 'this, that and the other'."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def shorten(text: str, longest: int) -> str:
    """The text, its middle left out where it is longer than `longest` characters."""
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[len(text) - tail :]}"


def model_words(row: "Row | pd.Series[Any]") -> str:
    """What a variant trains: `U-Net 128px`; the size is left out where there is one only."""
    size = "" if row["size"] == "default" else f" {size_words(str(row['size']))}"
    return f"{row['workload_title']}{size}"


def size_words(size: str) -> str:
    """A size as a reader calls it: `124M (context 2048)` for `124m_2048`."""
    return GPT2_SIZES.get(size, size)


def model_cell(row: Row) -> str:
    """What a variant trains, at the beginning of a cell: `U-Net 128px`."""
    return capitalized(model_words(row))


def title_cell(row: Row) -> str:
    """The workload's title with a capital."""
    return capitalized(str(row["workload_title"]))


def device_of(row: Row) -> str:
    """The device of a row, in words."""
    return device_words(row["device"])


def device_in_words(device: str) -> str:
    """A device in a sentence: 'the CPU', 'the GPU', but 'GPU 1' for `cuda:1`."""
    return f"the {device_words(device)}" if device in ("cpu", "cuda") else device_words(device)


def parallelism_words(name: str) -> str:
    """How devices share a training: `DistributedDataParallel on 2 devices` for `ddp2`, `one
    process` for `single`.
    """
    ((strategy, count),) = devices_and_strategy(name, present=1)
    title = STRATEGIES[strategy].title
    return (
        title if strategy == SINGLE else f"{title} on {count} device" + ("s" if count > 1 else "")
    )


def value_words(axis: str, value: Any) -> str:
    """A field's value in a sentence or a cell."""
    if axis == "device":
        return device_words(str(value))
    if axis == "size":
        return size_words(str(value))
    return parallelism_words(str(value)) if axis == "parallelism" else field_value(value)


def in_words(field: str, value: Any) -> str:
    """A field of a variant in a sentence, with the field's name where the value alone says too
    little: 'batch size 64', '4 DataLoader workers', but 'bf16' and 'the GPU'.
    """
    if field in _IN_WORDS:
        return _IN_WORDS[field](value)
    if field in _NOUNS:
        return counted(value, _NOUNS[field])
    if field == "steps_per_epoch":
        return "whole epochs" if math.isnan(value) else f"epochs of {counted(value, 'step')}"
    if field == "accumulation":
        return "whole batches" if value == 1 else f"accumulation in {value} parts"
    words = value_words(field, value)
    return words if field in ("precision", "workload") else f"{AXES.get(field, field)} {words}"


def batch_size_words(row: Row) -> str:
    """Samples per step; those of each where several devices divide them: '16 per GPU'."""
    ((strategy, devices),) = devices_and_strategy(str(row["parallelism"]), present=1)
    if devices == 1 or not STRATEGIES[strategy].divides_batch:
        return field_value(row["batch_size"])
    return per_device(row["batch_size"] // devices, row["device"])


def batch_in_words(row: Row) -> str:
    """'batch size 32', or 'batch size 16 per GPU'."""
    return f"batch size {batch_size_words(row)}"


def per_device(samples: int, device: str) -> str:
    """What each of several devices has of a batch: '16 per GPU'."""
    return f"{field_value(samples)} per {'process' if device == 'cpu' else 'GPU'}"


def part_words(part: str) -> str:
    """One part of an optimization: `4 DataLoader workers` for `workers4`, an option's title."""
    return _title_and_meaning(part)[0]


def optimization_in_words(name: str) -> str:
    """An optimization in a sentence, for instance '4 DataLoader workers and pinned memory'."""
    # A custom loop is one thing, 'the persistent CUDA kernel'; other options are not, 'CUDA
    # graphs'.
    parts = [
        f"{'the ' if part in OPTIONS and OPTIONS[part].is_loop else ''}{part_words(part)}"
        for part in option_names(name)
    ]
    return listed(parts) if parts else f"the {EAGER_BASELINE}"


_IN_WORDS: Final[Mapping[str, Callable[[str], str]]] = {
    "device": device_in_words,
    "optimization": optimization_in_words,
    "options": optimization_in_words,
    "parallelism": parallelism_words,
}
_NOUNS: Final = {"workers": "DataLoader worker", "epochs": "epoch"}


def option_words(optimizations: Iterable[str]) -> list[tuple[str, str, str]]:
    """Name, title and meaning of every part of these optimizations, each once."""
    parts = dict.fromkeys(
        part for optimization in optimizations for part in option_names(optimization)
    )
    return [(part, *_title_and_meaning(part)) for part in parts]


def _title_and_meaning(part: str) -> tuple[str, str]:
    if part in OPTIONS:
        return OPTIONS[part].title, OPTIONS[part].meaning
    if part in LOWER_PRECISIONS:
        return part, LOWER_PRECISIONS[part]
    one = Optimization.from_name(part)
    if one.workers:
        return (
            in_words("workers", one.workers),
            "batches are loaded by processes of their own while the training computes",
        )
    return (
        in_words("accumulation", one.accumulation),
        f"a batch goes through the model in {one.accumulation} parts, whose gradients are added up "
        "before the optimizer steps",
    )


def option_notes(rows: Iterable[Row]) -> list[str]:
    """What the options of these rows are called in sentences, as a note of a table that has their
    short names.

    Sizes of buckets are clear from theirs.
    """
    words = option_words(row["options"] for row in rows)
    named = [f"{name} ({title})" for name, title, _ in words if name not in BUCKETS_MIB]
    return [f"Options: {listed(named)}."] if named else []


def execution_in_words(row: "Row | pd.Series[Any]", named: Sequence[str] = ()) -> str:
    """How a variant's code runs, with its precision: 'uncompiled fp32', 'bf16 with CUDA graphs',
    'compiled tf32'; with the options `named`, if there are any, 'uncompiled fp32 with flash
    attention'.
    """
    how = execution(row["options"])
    others = [name for name in named or (how,) if name not in ("compile", NO_OPTIONS)]
    options = f" with {optimization_in_words(SEPARATOR.join(others))}" if others else ""
    return f"{EXECUTIONS[how]}{row['precision']}{options}"


def with_configurations(rows: Sequence[Row]) -> list[Row]:
    """The rows with `configuration`: how their code runs, with the options where a model runs so in
    two ways among them.

    Give all rows of a table, failed ones too, so that sentences distinguish the same.
    """
    found = {(model_words(row), execution(row["options"]), row["optimization"]) for row in rows}
    ways = Counter((model, how) for model, how, _ in found)
    return [
        {
            **row,
            "configuration": execution_in_words(
                row,
                option_names(row["optimization"])
                if ways[model_words(row), execution(row["options"])] > 1
                else (),
            ),
        }
        for row in rows
    ]


def settings_in_words(row: Row) -> list[str]:
    """A precision other than fp32, and the optimizations, of a variant that has them."""
    said = ("fp32", *option_names(row["optimization"]))
    precision = [] if row["precision"] in said else [row["precision"]]
    return precision + (
        [] if row["optimization"] == NO_OPTIONS else [optimization_in_words(row["optimization"])]
    )


def described(row: Row) -> str:
    """A variant as a sentence names it alone: 'U-Net 128px on CUDA (batch size 16, bf16, CUDA
    graphs)'.
    """
    where = device_in_words(row["device"])
    return f"{model_words(row)} on {where} ({configuration_in_words(row)})"


def configuration_in_words(row: Row, *, beside: Row | None = None) -> str:
    """Batch size, settings, and how devices share the training; the batch size only where that of
    the configuration `beside` is another.
    """
    is_said = beside is not None and beside["batch_size"] == row["batch_size"]
    size = [] if is_said else [batch_in_words(row)]
    shared = [in_words("parallelism", row["parallelism"])] if row["devices"] > 1 else []
    return ", ".join([*size, *settings_in_words(row), *shared])


def fields_along(axis: str, rows: Iterable[Row]) -> tuple[str, ...]:
    """The fields in which the rows that an experiment compares differ: also in the precision, where
    the names of their optimizations have it.
    """
    goes_through_precisions = axis == "optimization" and any(
        row["precision"] in option_names(row["optimization"]) for row in rows
    )
    return AXIS_FIELDS.get(axis, (axis,)) + (("precision",) if goes_through_precisions else ())


_USUAL: Final = {"precision": "fp32", "parallelism": SINGLE}


def titled(row: Row, among: Sequence[Row], *, leave_out: Sequence[str]) -> str:
    """The workload's title and what distinguishes the variant from others of its workload, as in
    'U-Net (on CUDA)'.

    A precision other than fp32 is always named, and how devices share a training. `leave_out` are
    the fields in which the variants of a group differ; where that is the workload, no title is
    shared.
    """
    across = "workload" in leave_out
    rivals = [other for other in among if across or other["workload"] == row["workload"]]
    title: str = "training" if across else row["workload_title"]
    details: list[str] = []
    for field in DISTINGUISHING:
        alike = [other for other in rivals if str(other[field]) == str(row[field])]
        is_named = len(alike) < len(rivals) or _USUAL.get(field) not in (None, row[field])
        if field not in leave_out and is_named:
            words = in_words(field, row[field])
            if field == "batch_size":
                words = batch_in_words(row)
            details.append(f"on {words}" if field == "device" else words)
            rivals = alike
    loop = optimization_in_words(row["options"])
    if row["begins_anew"] and "options" not in leave_out and loop not in details:
        details.append(loop)
    return f"{title} ({', '.join(details)})" if details else title


def varying(axes: Iterable[str], rows: Sequence[Row]) -> list[str]:
    """The fields in which the rows differ."""
    return [axis for axis in axes if len({value_words(axis, row[axis]) for row in rows}) > 1]


def constants(axes: Iterable[str], rows: Sequence[Row], *, unsaid: Mapping[str, str]) -> str:
    """The fields in which no two rows differ, in words; a value in `unsaid` goes without saying."""
    if not rows:
        return ""
    fixed = [axis for axis in axes if axis not in varying(axes, rows)]
    first = {axis: value_words(axis, rows[0][axis]) for axis in fixed}
    if {"batch_size", "parallelism"} <= first.keys():
        first["batch_size"] = batch_size_words(rows[0])
    return ", ".join(
        value if axis == "device" else f"{AXES[axis]} {value}"
        for axis, value in first.items()
        if unsaid.get(axis) != value
    )


def distinguishing(axes: Iterable[str], rows: Sequence[Row], *, beside: Sequence[str]) -> list[str]:
    """Those of these fields without which two rows would agree in all of them and the fields
    `beside`.
    """
    chosen: list[str] = []

    def distinct(by: Sequence[str]) -> int:
        return len({tuple(value_words(axis, row[axis]) for axis in by) for row in rows})

    for axis in axes:
        if distinct([*beside, *chosen, axis]) > distinct([*beside, *chosen]):
            chosen.append(axis)
    return chosen


def method(row: Row) -> str:
    """How devices share a training: `FSDP2`."""
    return STRATEGIES[str(row["strategy"])].title


def category_words(row: Row) -> str:
    """The category of an operation or a kernel."""
    return american(str(row["category"]))


def date_words(day: str) -> str:
    """`4 May 2026` for 2026-05-04."""
    parsed = date.fromisoformat(day)
    return f"{parsed.day} {parsed:%B %Y}"


def flags_of(row: Row) -> list[str]:
    """The quality flags of a row, none twice."""
    return marks_in(str(row["marks"]))


def flags_but_projected(row: Row) -> list[str]:
    """The same where no time of a whole epoch is shown."""
    return [flag for flag in flags_of(row) if flag != "projected"]


def flags_but_software(row: Row) -> list[str]:
    """The flags for a table that itself shows in which software two measurements differ."""
    return [flag for flag in flags_of(row) if flag != "other software"]


def why_no_numbers(row: Row) -> str:
    """What became of a variant that was not measured: where memory ran out what was asked and what
    there was.

    PyTorch's own message stays in the record and in VARIANTS: it is a paragraph of advice.
    """
    if row["status"] == "oom":
        return why_missing(row)
    reason = " ".join(str(row["reason"]).split())
    return (
        f"{row['status']}: {textwrap.shorten(reason, _LONGEST_REASON, placeholder=' …')}"
        if reason
        else row["status"]
    )


def memory_asked(row: Row) -> str:
    """What a variant asked for when memory ran out, and what there was; empty where that is
    unknown.
    """
    asked, free, total = (
        number_format.memory(float(row.get(column, math.nan)))
        for column in ("memory_asked_mib", "memory_free_mib", "device_memory_mib")
    )
    if not asked.is_measured:
        return ""
    more = f"asked for {asked.plain()} more"
    if free.is_measured:
        return f"{more}, {free.plain()} free"
    return f"{more}; the device has {total.plain()}" if total.is_measured else more


def why_missing(row: Row, metric: Metric | None = None) -> str:
    """What became of a row without numbers, in a few words with what was asked for and what there
    was where the memory ran out; empty where it has them.

    In place of the speedup of a bound, that it is no training to compare.
    """
    if metric is SPEEDUP and is_bound(row["options"]):
        return "bound"
    asked = memory_asked(row) if row["status"] == "oom" else ""
    return ": ".join(filter(None, (STATUS_WORDS.get(str(row["status"]), ""), asked)))


def why_missing_or_skipped(row: Row, *_: object) -> str:
    """The same, with the reason why it was skipped."""
    reason = f": {row['reason']}" if row["status"] == "skipped" else ""
    return why_missing(row) + reason
