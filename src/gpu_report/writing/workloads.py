"""What is trained and how, from what the workloads said of themselves in the records."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_report.glossary import capitalized
from gpu_report.printing.number_format import NOT_MEASURED, count, quantity
from gpu_report.records.record import Record
from gpu_report.writing.rows import first_of_each
from gpu_report.writing.tex import shorten
from gpu_report.writing.words import value_words

_LONGEST_HEADING = 100
"""Characters of a heading: what is longer fills the contents, where no entry breaks over a
column.
"""
_AXES = ("batch_size", "epochs", "steps_per_epoch", "workers", "precision", "device")


def trained_models(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """One row per workload and size that could be built, in the order of the study: facts, and
    values trained with.

    Records that say other things of a workload, such as another learning rate, have a row each.
    """
    twins: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        if record.workload is not None:
            twins.setdefault(_model(record), []).append(record)
    return [{**_facts(of_model[0]), **_values(of_model)} for of_model in twins.values()]


def _model(record: Record) -> tuple[object, ...]:
    """What its workload is and says of itself; chance depends on the machine's arithmetic and is
    left out.
    """
    return record.as_variant().size, *(
        value for name, value in _facts(record).items() if name != "chance"
    )


def _facts(record: Record) -> Mapping[str, Any]:
    facts, size = record.workload, record.as_variant().size
    if facts is None:
        return {}
    return {
        "workload": record.as_variant().workload,
        "title": capitalized(facts.title),
        "size": "" if size == "default" else size,
        "parameters": facts.parameters,
        "training samples": "its batch" if facts.begins_anew else facts.train_samples,
        "held out": facts.test_samples,
        "sample": facts.sample_description,
        "quality": (facts.quality_name or NOT_MEASURED)
        + (", lower is better" if facts.quality_better == "lower" else ""),
        "chance": quantity(
            math.nan if facts.quality_chance is None else facts.quality_chance
        ).plain(),
        "optimizer": facts.optimizer,
        "loss": facts.loss,
        "data": facts.data_description,
        "source_file": facts.source_file,
    }


def _values(records: Sequence[Record]) -> Mapping[str, str]:
    """By axis every value that these records were trained with."""
    found = {
        axis: dict.fromkeys(getattr(record.as_variant(), axis) for record in records)
        for axis in _AXES
    }
    return {
        axis: ", ".join(
            value_words(axis, "whole" if axis == "steps_per_epoch" and value is None else value)
            # numbers by size; names in the order of the study
            for value in sorted(values, key=lambda value: value if isinstance(value, int) else 0)
        )
        for axis, values in found.items()
    }


def networks(models: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The facts of each workload, those of its first size, with the parameters of every size in
    words.

    Data that a workload above has too are described there alone.
    """
    has_data: dict[str, str] = {}
    for model in models:
        has_data.setdefault(model["data"], model["title"])
    return [
        {
            **first,
            "heading": shorten(first["title"], _LONGEST_HEADING),
            "data": first["data"]
            if (title := has_data[first["data"]]) == first["title"]
            else f"Those of {title}.",
            "parameters_by_size": _parameters(
                [model for model in models if model["workload"] == first["workload"]]
            ),
        }
        for first in first_of_each(models, "workload")
    ]


def generated(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """The workloads whose data are made by a generator, which the built-in ones say with their
    first word.
    """
    return [
        str(model["title"])
        for model in first_of_each(models, "workload")
        if model["data"].startswith("Generated")
    ]


def _parameters(models: Sequence[Mapping[str, Any]]) -> str:
    counts = [
        f"{count(model['parameters']).plain()} parameters"
        + (f" in size {model['size']}" if model["size"] else "")
        for model in models
    ]
    return ", ".join(dict.fromkeys(counts))
