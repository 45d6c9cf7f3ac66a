"""How fields of a variant, marks, verdicts and days are called in the text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpu_report.findings.phrases import memory_asked
from gpu_report.glossary import AXES, STATUS_WORDS, Row
from gpu_report.glossary import device_words as device_words
from gpu_report.number_format import field_value
from gpu_report.options import NO_OPTIONS, OPTIONS, option_names
from gpu_report.tables.marks import MEANINGS, marks_in

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

MEMORY_KINDS: Final[Mapping[str, str]] = {
    "allocator": "device memory that PyTorch's allocator held",
    "resident set": "main memory resident for the process",
}


def date_words(day: str) -> str:
    """`4 May 2026` for 2026-05-04."""
    year, month, number = day.split("-")
    return f"{int(number)} {_MONTHS[int(month) - 1]} {year}"


def on_device(device: str) -> str:
    """`on the CPU`, `on CUDA 1`."""
    return f"on {'the ' if device == 'cpu' else ''}{device_words(device)}"


def value_words(axis: str, value: Any) -> str:
    """A field's value as it stands in a sentence or a cell."""
    if axis == "device":
        return device_words(str(value))
    return field_value(value)


def axis_value_words(axis: str, value: Any) -> str:
    """A field's value with the field's name where the value alone says too little: `batch size 64`, but `CPU`."""
    if axis == "optimization":
        return "the eager baseline" if value == NO_OPTIONS else str(value)
    words = value_words(axis, value)
    return words if axis in ("device", "workload", "precision") else f"{AXES.get(axis, axis)} {words}"


def option_words(optimizations: Iterable[str]) -> list[tuple[str, str, str]]:
    """Name, title and meaning of every part of these optimizations, each once."""
    parts = dict.fromkeys(part for optimization in optimizations for part in option_names(optimization))
    return [(part, *_part_words(part)) for part in parts]


def _part_words(part: str) -> tuple[str, str]:
    option = OPTIONS.get(part)
    if option:
        return option.title, option.meaning
    number = part.lstrip("abcdefghijklmnopqrstuvwxyz")
    if part.startswith("workers"):
        return (
            f"{number} DataLoader workers",
            "batches are loaded by processes of their own while the training computes",
        )
    return f"{number} accumulated parts", (
        f"a batch goes through the model in {number} parts, whose gradients are added up before the optimizer steps"
    )


def marks_of(row: Row) -> list[str]:
    """The marks of a row, none twice."""
    return marks_in(str(row["marks"]))


def mark_words(mark: str) -> str:
    """What a mark means."""
    return MEANINGS.get(mark, mark)


def status_words(row: Row) -> str:
    """What became of a row without numbers, in two or three words; empty where it has them."""
    return STATUS_WORDS.get(str(row["status"]), "")


def why_missing(row: Row) -> str:
    """The same, with what was asked for and what there was where the memory ran out."""
    asked = memory_asked(row, short=True) if row["status"] == "oom" else ""
    return f"{status_words(row)}: {asked}" if asked else status_words(row)


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
        value if axis == "device" else f"{AXES[axis]} {value}" for axis, value in said if unsaid.get(axis) != value
    )


def telling(axes: Iterable[str], rows: Sequence[Row], *, beside: Sequence[str]) -> list[str]:
    """Of these fields, those needed to tell the rows apart by themselves and the fields `beside`."""
    chosen: list[str] = []

    def told_apart(by: Sequence[str]) -> int:
        return len({tuple(value_words(axis, row[axis]) for axis in by) for row in rows})

    for axis in axes:
        if told_apart([*beside, *chosen, axis]) > told_apart([*beside, *chosen]):
            chosen.append(axis)
    return chosen


def titled(row: Row) -> str:
    """The workload's title with a capital."""
    title = str(row["workload_title"])
    return title[:1].upper() + title[1:]
