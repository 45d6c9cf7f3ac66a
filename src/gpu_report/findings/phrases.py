"""The words of findings: sentences filled with figures, and the names of variants in them.

Numbers come from the one formatter, with interval and count where they are estimates.
"""

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING, Any, Final

from gpu_report.findings.estimate import Estimate, estimate, is_paired, listed, quality_change
from gpu_report.findings.finding import Evidence
from gpu_report.glossary import METRICS, Row, device_words, model_words
from gpu_report.printing import number_format
from gpu_report.printing.number_format import Quantity, counted, field_value, is_range
from gpu_report.study.options import (
    EXECUTIONS,
    NO_OPTIONS,
    OPTIONS,
    SEPARATOR,
    Optimization,
    execution,
    option_names,
)
from gpu_report.study.strategies import parallelism_words
from gpu_report.study.variant import AXIS_FIELDS

if TYPE_CHECKING:
    import pandas as pd

CPU: Final = "cpu"

_DIGIT: Final = re.compile(r"\d")
_LEAST_PERCENT: Final = 0.1
_TINY: Final = Quantity(value=f"less than {_LEAST_PERCENT}", unit="%")
"""In place of millionths of a per cent, which no one would use, and of nonzero values that would
round to 0.
"""

_LONGEST_REASON: Final = 200
"""Characters; longer reasons are in the appendix."""


@dataclass(frozen=True)
class Named:
    """A variant that a sentence names, or whose figures it gives."""

    row: Row
    name: str = ""


def filled(template: str, fields: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The sentence of a template, and those of its words that have a number, by the names of their
    fields.

    A field is `{subject}` for a text, a whole number or the name of a variant, `{after.quality}`
    for a column of a variant, and `{figure}` for an estimate, written as a factor, or with `%` as a
    share. `:short` leaves out the number of processes and what kind of interval it is:
    `{after.quality:short}`, `{figure:%short}`.
    """
    text = ""
    numbers: dict[str, str] = {}
    for literal, name, spec, _ in Formatter().parse(template):
        text += literal
        if name is not None:
            word = _word(name, spec or "", fields)
            text += word
            if _DIGIT.search(word):
                numbers.setdefault(re.sub(r"[._]", " ", name), word)
    return text, numbers


def _word(field: str, spec: str, fields: Mapping[str, Any]) -> str:
    name, _, column = field.partition(".")
    value, short = fields[name], "short" in spec
    if column:
        return of_column(value.row, column, short=short)
    if isinstance(value, Named):
        return value.name
    if isinstance(value, int | float):
        return number_format.count(value).plain()
    if isinstance(value, Estimate):
        return (as_share if "%" in spec else times)(value, short=short)
    return str(value)


def of_column(row: Row, column: str, *, short: bool = False) -> str:
    """A variant's figure with its unit, interval and count; `short` leaves out the words about
    them.
    """
    if f"{column}_count" not in row:
        # A cell that has no interval.
        value = row[column]
        if isinstance(value, str):
            return value
        if column in METRICS:
            return METRICS[column].show(value).plain()
        if column.endswith("_share"):
            return number_format.share(value).plain()
        return (number_format.count if isinstance(value, int) else number_format.quantity)(
            value
        ).plain()
    figure = estimate(row, column)
    show = METRICS[column].show
    is_tiny = show is number_format.share and 0 < 100 * figure.value < _LEAST_PERCENT / 2
    quantity = _TINY if is_tiny else show(figure.value, low=figure.low, high=figure.high)
    return _with_interval(quantity, figure, short=short)


def times(figure: Estimate, *, short: bool = False) -> str:
    """A factor, as in '12.3 times (95 % interval 11.9 to 12.8, 3 processes)'."""
    quantity = number_format.ratio(figure.value, low=figure.low, high=figure.high)
    return _with_interval(
        Quantity(value=quantity.value, low=quantity.low, high=quantity.high, unit="times"),
        figure,
        short=short,
    )


def as_share(figure: Estimate, *, short: bool = False) -> str:
    """A share of the whole, in per cent."""
    return _with_interval(
        number_format.share(figure.value, low=figure.low, high=figure.high), figure, short=short
    )


def percent_alone(value: float) -> str:
    """A number in per cent that has no interval."""
    tiny = 0 < value < _LEAST_PERCENT / 2
    return (_TINY if tiny else number_format.percent(value)).plain()


def factor_alone(value: float) -> str:
    """A factor that has no interval, as in '1.2 times'."""
    return f"{number_format.ratio(value).plain(unit=False)} times"


def change_by_seed(row: Row, before: Row, *, short: bool = True) -> str:
    """What quality changed by, where there are processes of the same seeds; else empty."""
    if not is_paired(row, before):
        return ""
    change = quality_change(row, before)
    return _with_interval(
        number_format.quantity(change.value, low=change.low, high=change.high), change, short=short
    )


def why_no_numbers(row: Row) -> str:
    """What became of a variant that was not measured: where memory ran out what was asked and what
    there was.

    PyTorch's own message stays in the record and in the appendix: it is a paragraph of advice.
    """
    if row["status"] == "oom":
        asked = memory_asked(row)
        return f"out of memory: {asked}" if asked else "out of memory"
    reason = " ".join(str(row["reason"]).split())
    return (
        f"{row['status']}: {textwrap.shorten(reason, _LONGEST_REASON, placeholder=' …')}"
        if reason
        else row["status"]
    )


def memory_asked(row: Row, *, short: bool = False) -> str:
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
    if not free.is_measured:
        return f"{more}; the device has {total.plain()}" if total.is_measured else more
    if short:
        return f"{more}, {free.plain()} free"
    there = f" of the device's {total.plain()}" if total.is_measured else ""
    return f"{more} where {free.plain()}{there} were free"


def how_many(chosen: int, total: int, noun: str) -> str:
    """A part of a number of things, as in '2 of 7 variants' or 'all 7 variants'."""
    if chosen == total:
        return {1: f"the one {noun}", 2: f"both {noun}s"}.get(total, f"all {total} {noun}s")
    return f"{chosen or 'none'} of {total} {noun}s"


def evidence(label: str, value: str, table: str, row: Row) -> Evidence:
    """One number behind a verdict, with the variant it belongs to."""
    return Evidence(label=label, value=value, table=table, variant=row["variant"])


def evidence_of_columns(
    rows: Sequence[Row], columns: Mapping[str, str], table: str, *, first: Iterable[Row] = ()
) -> tuple[Evidence, ...]:
    """The figures of some variants, those that decide `first`; `columns` maps each column to its
    label.
    """
    decisive = list({id(row): row for row in first if row in rows}.values())
    return tuple(
        evidence(label, of_column(row, column), table, row)
        for row in [*decisive, *(row for row in rows if row not in decisive)]
        for column, label in columns.items()
        if not math.isnan(row.get(column, math.nan))
    )


def _with_interval(quantity: Quantity, figure: Estimate, *, short: bool) -> str:
    text = quantity.plain(interval=False)
    if not quantity.is_measured:
        return text
    bounds = quantity.plain_bounds
    name = "range" if is_range(figure.processes) else "" if short else "95 % interval"
    interval = f"{name} {bounds}".strip() if bounds else ""
    if short:
        return f"{text} ({interval})" if interval else text
    processes = {0: "", 1: "1 process"}.get(figure.processes, f"{figure.processes} processes")
    details = ", ".join(part for part in (interval, processes) if part)
    return f"{text} ({details})" if details else text


def device_in_words(device: str) -> str:
    """A device in a sentence: 'the CPU', or PyTorch's name in capitals, 'CUDA 1' for `cuda:1`."""
    return "the CPU" if device == CPU else device_words(device)


def in_words(field: str, value: Any) -> str:
    """A field of a variant in a sentence, for instance '4 DataLoader workers'."""
    if field == "device":
        return device_in_words(value)
    if field == "workers":
        return "1 DataLoader worker" if value == 1 else f"{value} DataLoader workers"
    if field == "epochs":
        return counted(value, "epoch")
    if field == "steps_per_epoch":
        return "whole epochs" if math.isnan(value) else f"epochs of {counted(value, 'step')}"
    if field == "accumulation":
        return "whole batches" if value == 1 else f"accumulation in {value} parts"
    if field in ("optimization", "options"):
        return optimization_in_words(value)
    if field == "parallelism":
        return parallelism_words(value)
    return f"{field.replace('_', ' ')} {field_value(value)}"


def optimization_in_words(name: str) -> str:
    """An optimization in a sentence, for instance '4 DataLoader workers and pinned memory'."""
    if name == NO_OPTIONS:
        return "the eager baseline"
    one = Optimization.from_name(name)
    counts = {
        "workers": one.workers or None,
        "accumulation": one.accumulation if one.accumulation > 1 else None,
    }
    numbered = [in_words(field, value) for field, value in counts.items() if value is not None]
    # A custom loop is one thing, 'the persistent CUDA kernel'; other options are not, 'CUDA
    # graphs'.
    options = [OPTIONS[option] for option in option_names(one.options)]
    return listed(
        [
            *numbered,
            *(f"the {option.title}" if option.is_loop else option.title for option in options),
        ]
    )


def execution_in_words(row: "Row | pd.Series[Any]") -> str:
    """How a variant's code runs, with its precision: 'eager fp32', 'captured bf16', 'compiled
    tf32'.
    """
    return f"{execution(row['options'])} {row['precision']}"


def with_configurations(rows: Sequence[Row], *, in_sentences: bool = False) -> list[Row]:
    """The rows with `configuration`: 'eager fp32', with the options where a model runs eager in two
    ways among them.

    With them it is 'resident fp32' in a table and 'eager fp32 with data on the device' in a
    sentence; the same holds for compiled and captured code. Give all rows of a table, failed ones
    too, so that sentences distinguish the same.
    """
    options: dict[tuple[str, str], set[str]] = {}

    def way(row: Row) -> tuple[str, str]:
        return model_words(row), execution(row["options"])

    for row in rows:
        options.setdefault(way(row), set()).add(row["optimization"])

    def words(row: Row) -> str:
        if len(options[way(row)]) == 1 or row["optimization"] == NO_OPTIONS:
            return execution_in_words(row)
        if not in_sentences:
            return f"{row['optimization']} {row['precision']}"
        others = SEPARATOR.join(
            name for name in option_names(row["optimization"]) if name not in EXECUTIONS
        )
        return execution_in_words(row) + (
            f" with {optimization_in_words(others)}" if others else ""
        )

    return [{**row, "configuration": words(row)} for row in rows]


def described(row: Row) -> str:
    """A variant as a sentence names it alone: 'U-Net 128px on CUDA (batch size 16, bf16, CUDA
    graphs)'.
    """
    shared = [in_words("parallelism", row["parallelism"])] if row["devices"] > 1 else []
    details = ", ".join(
        [in_words("batch_size", row["batch_size"]), *settings_in_words(row), *shared]
    )
    return f"{model_words(row)} on {device_in_words(row['device'])} ({details})"


def settings_in_words(row: Row) -> list[str]:
    """A precision other than fp32, and the optimizations, of a variant that has them."""
    precision = [] if row["precision"] == "fp32" else [row["precision"]]
    return precision + (
        [] if row["optimization"] == NO_OPTIONS else [optimization_in_words(row["optimization"])]
    )


DISTINGUISHING: Final[tuple[str, ...]] = (
    "size",
    "device",
    "batch_size",
    "accumulation",
    "workers",
    "precision",
    "steps_per_epoch",
    "epochs",
    "seed",
    "options",
    "parallelism",
)
"""The fields of a variant beside its workload."""


def titled(row: Row, among: Sequence[Row], *, leave_out: str = "") -> str:
    """The workload's title and what distinguishes the variant from others of its workload, as in
    'U-Net (on CUDA)'.

    A precision other than fp32 is always named. `leave_out` is the axis along which the variants of
    a group differ; where that is the workload, no title is shared.
    """
    across = leave_out == "workload"
    left_out = AXIS_FIELDS.get(leave_out, (leave_out,))
    rivals = [other for other in among if across or other["workload"] == row["workload"]]
    title: str = "training" if across else row["workload_title"]
    details: list[str] = []
    for field in DISTINGUISHING:
        alike = [other for other in rivals if str(other[field]) == str(row[field])]
        is_named = len(alike) < len(rivals) or (field == "precision" and row[field] != "fp32")
        if field not in left_out and is_named:
            shown = {"device": f"on {in_words(field, row[field])}", "precision": str(row[field])}
            details.append(shown.get(field) or in_words(field, row[field]))
            rivals = alike
    loop = optimization_in_words(row["options"])
    if row["begins_anew"] and "options" not in left_out and loop not in details:
        details.append(loop)
    return f"{title} ({', '.join(details)})" if details else title
