"""The words in figures: names of devices, axes, groups and variants short enough to stand beside
what they name.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Final

import pandas as pd

from gpu_report.glossary import (
    AXES,
    PRECISIONS,
    STATUS_WORDS,
    capitalized,
    device_words,
    field_words,
)
from gpu_report.printing.number_format import NOT_MEASURED, counted
from gpu_report.study.options import NO_OPTIONS, SEPARATOR, ladder, left_out, option_names
from gpu_report.study.strategies import SINGLE
from gpu_report.study.variant import AXIS_FIELDS, LENGTH_FIELDS, Variant
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.marks import WEAKENING, marks_in
from gpu_report.words import (
    DISTINGUISHING,
    EAGER_BASELINE,
    batch_size_words,
    fields_along,
    model_words,
    part_words,
    shorten,
    size_words,
    value_words,
)

_FIELDS: Final = tuple(field for field in DISTINGUISHING if field != "size")
_CONFIGURATION: Final = ("precision", *AXIS_FIELDS["optimization"])


def axis_label(axis: str) -> str:
    """What a field is called along an axis, with its unit."""
    name = AXES.get(axis, axis.replace("_", " "))
    return capitalized(name) + (" (samples)" if axis == "batch_size" else "")


def value_label(field: str, value: Any) -> str:
    """A field's value as it stands on an axis."""
    if field == "optimization":
        return optimization_label(str(value))
    if field == "options":
        return EAGER_BASELINE if value == NO_OPTIONS else printable(str(value))
    return printable(value_words(field, value))


def field_label(field: str, value: Any) -> str:
    """A field's value in words that say which field it is, for instance `batch 16`."""
    if field in ("batch_size", "seed"):
        value = value_label(field, value)
    elif field not in ("accumulation", "workers", "epochs", "steps_per_epoch"):
        return value_label(field, value)
    words = field_words(field, value)
    return words if words == "whole epochs" else words.replace(" ", "\N{NO-BREAK SPACE}")


def optimization_label(name: str) -> str:
    """An optimization in words: `4 DataLoader workers + pinned memory` for `workers4+pinned`."""
    return " + ".join(part_words(part) for part in option_names(name)) or EAGER_BASELINE


@dataclass(frozen=True, kw_only=True)
class LadderStep:
    """One optimization of a ladder: by itself, together with those below that it does not make
    redundant, and left out of the whole ladder.
    """

    title: str
    individual: str
    """An optimization's name, as `cumulative`; the two are the same where nothing below is left."""
    cumulative: str
    left_out: str = ""
    """Empty where the whole ladder has two steps, or does not have this one."""


def ladder_steps_of(names: Sequence[str]) -> list[LadderStep]:
    """The steps, in the order of the individual names; none where the names do not make a ladder.

    They make one where each is the eager baseline, an individual or a cumulative step, or all steps
    but one, and some step has others below. Individual ones that none has below are no steps where
    they would keep the others from making a ladder. Names of which each adds one step to another
    make one too, where few of the steps stand alone.
    """
    alone = [
        name for name in dict.fromkeys(names) if name != NO_OPTIONS and len(option_names(name)) == 1
    ]
    together = set(names) - {NO_OPTIONS, *alone}
    used = {part for name in together for part in option_names(name)}
    for chosen in (alone, [name for name in alone if name in used], _path(names)):
        kinds = {name.rstrip("0123456789") for name in chosen}
        if len(kinds) == len(chosen) and together and together <= set(ladder(chosen)):
            break
    else:
        return []
    steps = [_ladder_step(chosen, position) for position in range(len(chosen))]
    lacking = {part: name for name, part in left_out(steps[-1].cumulative).items()}
    if len(lacking) > 2:
        steps = [replace(step, left_out=lacking.get(step.individual, "")) for step in steps]
    return steps


def beside_ladder(names: Sequence[str]) -> set[str]:
    """Of the names that make a ladder, those of one optimization alone, and of all but one, that
    are no cumulative step.
    """
    steps = ladder_steps_of(names)
    apart = {name for step in steps for name in (step.individual, step.left_out)}
    return (apart - {step.cumulative for step in steps}) & set(names)


def _path(names: Sequence[str]) -> list[str]:
    """The steps of the longest name, each of which another name lacks that has all before it; none
    where one of these names is missing.
    """
    known = [set(option_names(name)) for name in names]

    def steps_to(whole: set[str]) -> list[str] | None:
        if not whole:
            return []
        for before in known:
            if before < whole and len(before) == len(whole) - 1:
                steps = steps_to(before)
                if steps is not None:
                    return [*steps, *(whole - before)]
        return None

    return steps_to(max(known, key=len, default=set())) or []


def _ladder_step(alone: Sequence[str], position: int) -> LadderStep:
    name = alone[position]
    below = ladder(alone[:position])
    new = [found for found in ladder(alone[: position + 1]) if found not in below and found != name]
    return LadderStep(title=part_words(name), individual=name, cumulative=new[0] if new else name)


def cumulative_labels(names: Collection[str], steps: Sequence[LadderStep]) -> dict[str, str]:
    """Those of these optimizations that are cumulative steps, in order -> what each adds to the one
    before, in words if it is one part: `+ fused optimizer`, `+ fused+resident`.
    """
    cumulative = [step.cumulative for step in steps if step.cumulative in names]
    added = {
        name: [part for part in option_names(name) if part not in option_names(before)]
        for before, name in pairwise([NO_OPTIONS, *cumulative])
    }
    return {
        name: f"+ {part_words(parts[0]) if len(parts) == 1 else SEPARATOR.join(parts)}"
        for name, parts in added.items()
    }


def with_titles(frame: pd.DataFrame, variants: pd.DataFrame) -> pd.DataFrame:
    """The table with the title of a workload that could not be built taken from a variant of it
    that could.
    """
    built = variants[variants["workload_title"] != variants["workload"]]
    titles = dict(zip(built["workload"], built["workload_title"], strict=True))
    return frame.assign(
        workload_title=frame["workload"].map(titles).fillna(frame["workload_title"])
    )


def with_labels(frame: pd.DataFrame, *, without: Sequence[str] = ()) -> pd.DataFrame:
    """The table with two more columns of text that distinguish its variants.

    `heading` names the workload and its size. `label` names the device and what differs among the
    variants under one heading. Fields in `without`, such as an experiment's axis, are in neither.
    """
    frame = frame.reset_index(drop=True)
    headings = [
        _heading(row, without) for row in frame[["workload_title", "size"]].to_dict("records")
    ]
    frame = frame.assign(heading=headings)
    rows = frame[["heading", "optimization", *_FIELDS]].to_dict("records")
    values = frame[[*_FIELDS]].groupby(frame["heading"]).transform("nunique", dropna=False)
    # The device of each row, a precision other than fp32, how several devices share it, and what
    # differs among the rows of its heading.
    return frame.assign(
        label=[
            _distinction(
                row,
                [
                    each
                    for each in _FIELDS
                    if each == "device"
                    or of_heading[each] > 1
                    or (each == "precision" and row[each] != PRECISIONS[0])
                    or (each == "parallelism" and row[each] != SINGLE)
                ],
                without,
            )
            for row, of_heading in zip(rows, values.to_dict("records"), strict=True)
        ]
    )


def with_labels_across_machines(comparison: pd.DataFrame) -> pd.DataFrame:
    """COMPARISON with `heading` and `label`, the rows of two machines, and of these of one model,
    together.

    Labels leave out the device where there is one, and the length of the trainings, where rows
    differ without them.
    """
    if comparison.empty:
        return comparison.assign(heading="", label="")
    frame = with_fields(comparison)
    keys = ["machine", "reference_machine", "heading"]
    device = ("device",) if frame["device"].nunique() == 1 else ()
    labelled = with_labels(frame, without=(*device, *LENGTH_FIELDS))
    if labelled.duplicated([*keys, "label"]).any() or not labelled["label"].all():
        labelled = with_labels(frame)
    return sorted_by(labelled, *keys)


def with_fields(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with the fields of its variants that it lacks, from their names."""
    fields = [
        {
            **asdict(variant),
            "optimization": variant.optimization,
            "parallelism": variant.parallelism,
        }
        for variant in map(Variant.from_slug, frame["variant"])
    ]
    return frame.assign(
        **{name: [each[name] for each in fields] for name in fields[0] if name not in frame.columns}
    )


def with_row_labels(frame: pd.DataFrame, axis: str) -> pd.DataFrame:
    """The table with `heading` and `label` for its rows, the rows of one heading together.

    Headings name what the variants compared along `axis` share, as the first that is no baseline
    has it: a baseline may be shortened where the others are not, for instance on a slow device.
    Without an axis they name workload and size.
    """
    if not axis:
        return sorted_by(with_labels(frame), "heading", "device", then=["batch_size", "workers"])
    fields = fields_along(axis, rows_of(frame))
    if axis == "device":
        for those in (LENGTH_FIELDS, _CONFIGURATION):
            if _differ(frame, those).any():
                fields = (*fields, *those)  # the rows have them
    frame = with_labels(frame, without=fields)
    for_group = (
        frame.assign(name=full_names(frame))
        .sort_values("is_baseline", kind="stable")
        .groupby("group")["name"]
        .first()
    )
    frame = frame.assign(heading=frame["group"].map(for_group), label=_labels_along(frame, axis))
    if axis == "precision":
        frame = frame.sort_values(
            axis, key=lambda precisions: precisions.map(PRECISIONS.index), kind="stable"
        )
    return sorted_by(frame, "heading")


def full_names(frame: pd.DataFrame) -> list[str]:
    """The heading and the label of each row as one text."""
    return [joined(*parts) for parts in zip(frame["heading"], frame["label"], strict=True)]


def _labels_along(frame: pd.DataFrame, axis: str) -> list[str]:
    if axis == "workload":
        return [workload_label(row) for _, row in frame.iterrows()]
    if axis == "device":
        return [
            joined(
                _distinction(row, ["device", *(_CONFIGURATION if configured else ())], ()),
                length_label(row) if unlike else "",
            )
            for row, unlike, configured in zip(
                frame.to_dict("records"),
                _differ(frame, LENGTH_FIELDS),
                _differ(frame, _CONFIGURATION),
                strict=True,
            )
        ]
    return [field_label(axis, value) for value in frame[axis]]


def _differ(frame: pd.DataFrame, fields: Sequence[str]) -> "pd.Series[bool]":
    values = frame[[*fields]].apply(tuple, axis="columns").astype(str)
    return values.groupby(frame["group"]).transform("nunique") > 1


def with_panels(frame: pd.DataFrame, axis: str) -> pd.DataFrame:
    """The table by its column `panel`: what a variant shares with those it is drawn beside."""
    frame = with_labels(frame, without=(axis, "device"))
    frame = frame.assign(panel=full_names(frame))
    is_alone = frame.groupby("panel")["device"].transform("nunique") == 1
    devices = frame["device"].map(device_words).where(is_alone, "")
    panels = [joined(*parts) for parts in zip(frame["panel"], devices, strict=True)]
    return sorted_by(frame.assign(panel=panels), "panel")


def _heading(row: dict[Any, Any], without: Sequence[str]) -> str:
    if "workload" in without:
        return (
            ""
            if row["size"] == "default" or "size" in without
            else printable(size_words(row["size"]))
        )
    return workload_label(row if "size" not in without else {**row, "size": "default"})


def workload_label(row: "Mapping[Any, Any] | pd.Series[Any]") -> str:
    """Title and size of a row's workload, the size left out where there is one only."""
    return capitalized(shorten(printable(model_words(row)), 44))


def _distinction(row: dict[Any, Any], differing: Sequence[str], without: Sequence[str]) -> str:
    named = [field for field in differing if field not in without]
    words, of_optimization = {}, AXIS_FIELDS["optimization"]
    if {"accumulation", "options"} & set(named) and not set(of_optimization) & set(without):
        said = option_names(row["optimization"])
        others = (each for each in named if each not in of_optimization and row[each] not in said)
        named = [*others, "options"]
        words["options"] = value_label("options", row["optimization"])
    if "parallelism" in named and row["parallelism"] != SINGLE:
        words["batch_size"] = f"batch {batch_size_words(row)}"
    if {*LENGTH_FIELDS} <= set(named):
        named.remove("steps_per_epoch")  # they are part of the length
        words["epochs"] = length_label(row)
    return joined(*(words.get(field) or field_label(field, row[field]) for field in named))


def length_label(row: "Mapping[Any, Any] | pd.Series[Any]") -> str:
    """How long a row's variant trains: `5 whole epochs`, `2 epochs of 3 steps`."""
    if math.isnan(row["steps_per_epoch"]):
        return counted(row["epochs"], "whole epoch")
    return (
        f"{field_label('epochs', row['epochs'])} of "
        f"{field_label('steps_per_epoch', row['steps_per_epoch'])}"
    )


def sorted_by(frame: pd.DataFrame, *columns: str, then: Sequence[str] = ()) -> pd.DataFrame:
    """The rows sorted by texts in the order in which they first appear, and `then` by numbers."""
    orders = {column: list(dict.fromkeys(frame[column])) for column in columns}
    return frame.sort_values(
        [*columns, *then],
        key=lambda values: (
            values.map(orders[str(values.name)].index) if values.name in orders else values
        ),
        kind="stable",
        ignore_index=True,
    )


def joined(*parts: str) -> str:
    """The parts that are not empty, with a comma between."""
    return ", ".join(part for part in parts if part)


def status_text(row: "Mapping[Any, Any] | pd.Series[Any]", *, name_device: bool = False) -> str:
    """Why a variant has no number, in two words, if need be after the name of its device; one that
    went well may lack a profile or what it is compared with.
    """
    text = STATUS_WORDS.get(str(row.get("status")), NOT_MEASURED)
    return f"{device_words(row['device'])}: {text}" if name_device else text


def doubts(marks: Iterable[str]) -> list[str]:
    """The doubts among the marks of some variants, each once; marks of one variant are separated by
    semicolons.
    """
    found = {mark for text in marks for mark in marks_in(text)}
    return [mark for mark in WEAKENING if mark in found]


def printable(text: str) -> str:
    """The text on one line; a character that no font at hand can draw becomes a white square."""
    known = _known_characters()
    return "".join(
        char if ord(char) in known else "\N{WHITE SQUARE}" for char in " ".join(text.split())
    )


@cache
def _known_characters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    fonts = (get_font(findfont(family)) for family in ("STIXGeneral", "DejaVu Sans"))
    return frozenset(code for font in fonts for code in font.get_charmap() if code > 31)
