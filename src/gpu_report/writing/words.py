"""What fields of a variant, quality flags, statuses and days are called in the text."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from gpu_report.figures.labels import part_label
from gpu_report.findings import phrases
from gpu_report.findings.estimate import listed
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
from gpu_report.printing.number_format import field_value
from gpu_report.study.options import (
    BUCKETS_MIB,
    NO_OPTIONS,
    OPTIONS,
    Optimization,
    is_bound,
    option_names,
)
from gpu_report.study.strategies import STRATEGIES, parallelism_words
from gpu_report.tables.marks import MEANINGS, marks_in


def device_of(row: Row) -> str:
    """The device of a row, in words."""
    return device_words(row["device"])


def category_words(row: Row) -> str:
    """The category of an operation or a kernel."""
    return american(str(row["category"]))


def date_words(day: str) -> str:
    """`4 May 2026` for 2026-05-04."""
    parsed = date.fromisoformat(day)
    return f"{parsed.day} {parsed:%B %Y}"


def on_device(device: str) -> str:
    """`on the CPU`, `on CUDA 1`."""
    return f"on {phrases.device_in_words(device)}"


def value_words(axis: str, value: Any) -> str:
    """A field's value in a sentence or a cell."""
    if axis == "device":
        return device_words(str(value))
    return parallelism_words(str(value)) if axis == "parallelism" else field_value(value)


def axis_value_words(axis: str, value: Any) -> str:
    """A field's value with the field's name where the value alone says too little: `batch size 64`,
    but `CPU`.
    """
    if axis == "optimization":
        return "the eager baseline" if value == NO_OPTIONS else str(value)
    words = value_words(axis, value)
    return (
        words
        if axis in ("device", "workload", "precision", "parallelism")
        else f"{AXES.get(axis, axis)} {words}"
    )


def option_words(optimizations: Iterable[str]) -> list[tuple[str, str, str]]:
    """Name, title and meaning of every part of these optimizations, each once."""
    parts = dict.fromkeys(
        part for optimization in optimizations for part in option_names(optimization)
    )
    return [(part, part_label(part), _meaning(part)) for part in parts]


def _meaning(part: str) -> str:
    if part in OPTIONS:
        return OPTIONS[part].meaning
    if part.startswith("workers"):
        return "batches are loaded by processes of their own while the training computes"
    number = Optimization.from_name(part).accumulation
    return (
        f"a batch goes through the model in {number} parts, whose gradients are added up before "
        "the optimizer steps"
    )


def option_notes(rows: Iterable[Row]) -> list[str]:
    """What the options of these rows are called in sentences, as a note of a table that has their
    short names.

    Sizes of buckets are clear from theirs.
    """
    words = option_words(row["options"] for row in rows)
    named = [f"{name} ({title})" for name, title, _ in words if name not in BUCKETS_MIB]
    return [f"Options: {listed(named)}."] if named else []


def flags_of(row: Row) -> list[str]:
    """The quality flags of a row, none twice."""
    return marks_in(str(row["marks"]))


def flags_but_projected(row: Row) -> list[str]:
    """The same where no time of a whole epoch is shown."""
    return [flag for flag in flags_of(row) if flag != "projected"]


def flags_but_software(row: Row) -> list[str]:
    """The flags for a table that itself shows in which software two measurements differ."""
    return [flag for flag in flags_of(row) if flag != "other software"]


def flag_words(flag: str) -> str:
    """What a quality flag means."""
    return MEANINGS.get(flag, flag)


def status_words(row: Row) -> str:
    """What became of a row without numbers, in two or three words; empty where it has them."""
    return STATUS_WORDS.get(str(row["status"]), "")


def why_no_numbers(row: Row) -> str:
    """The same with the first words of its error, without a full stop."""
    return phrases.why_no_numbers(row).rstrip(".")


def why_missing(row: Row, *_: object) -> str:
    """The same, with what was asked for and what there was where the memory ran out."""
    asked = phrases.memory_asked(row, short=True) if row["status"] == "oom" else ""
    return f"{status_words(row)}: {asked}" if asked else status_words(row)


def why_missing_or_skipped(row: Row, *_: object) -> str:
    """The same, with the reason why it was skipped."""
    return (
        f"{status_words(row)}: {row['reason']}" if row["status"] == "skipped" else why_missing(row)
    )


def why_missing_or_bound(row: Row, metric: Metric) -> str:
    """Why there are no numbers; in place of the speedup of a bound, that it is no training to
    compare.
    """
    return "bound" if metric is SPEEDUP and is_bound(row["options"]) else why_missing(row)


def method(row: Row) -> str:
    """How devices share a training: `FSDP2`."""
    return STRATEGIES[str(row["strategy"])].title


def model_words(row: Row) -> str:
    """What a variant trains: `U-Net 128px`."""
    return titled(row) if row["size"] == "default" else f"{titled(row)} {row['size']}"


def varying(axes: Iterable[str], rows: Sequence[Row]) -> list[str]:
    """The fields in which the rows differ."""
    return [axis for axis in axes if len({value_words(axis, row[axis]) for row in rows}) > 1]


def constants(axes: Iterable[str], rows: Sequence[Row], *, unsaid: Mapping[str, str]) -> str:
    """The fields in which no two rows differ, in words; a value in `unsaid` goes without saying."""
    if not rows:
        return ""
    fixed = [axis for axis in axes if axis not in varying(axes, rows)]
    said = [(axis, value_words(axis, rows[0][axis])) for axis in fixed]
    return ", ".join(
        value if axis == "device" else f"{AXES[axis]} {value}"
        for axis, value in said
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


def titled(row: Row) -> str:
    """The workload's title with a capital."""
    return capitalized(str(row["workload_title"]))
