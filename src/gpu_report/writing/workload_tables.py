"""The tables that say what is trained and how, from what the workloads said of themselves in the records."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu_report.glossary import Row
from gpu_report.number_format import count, quantity
from gpu_report.records import Record
from gpu_report.writing.fields import Field, count_field, text_field
from gpu_report.writing.rows import first_of_each
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import escape, shorten
from gpu_report.writing.words import value_words

_LONGEST_HEADING = 100
"""Characters of a heading: what is longer fills the contents, where no entry breaks over a column."""


def workload_table(records: Sequence[Record]) -> TableBlock:
    """What is trained: one row per workload and size that could be built."""
    return lay_out(
        [facts_of(record) for record in one_per_model(records)],
        name="workloads",
        caption=escape("The workloads: what is trained, on how much data, and how its quality is judged."),
        fields=[
            text_field("workload", "title", width=0.16),
            text_field("size", "size"),
            count_field("parameters", "parameters"),
            Field(header="training samples", text=_training_samples, is_number=True),
            count_field("held out", "test_samples"),
            text_field("one sample", "sample", width=0.2),
            text_field("quality", "quality_name"),
            Field(header="chance", text=lambda row: quantity(row["chance"]).plain(), is_number=True),
        ],
        notes=[escape("Chance is the quality that guessing without looking reaches on the held-out samples.")],
    )


def _training_samples(row: Row) -> str:
    return "its batch" if row["begins_anew"] else count(row["train_samples"]).plain()


def configuration_table(records: Sequence[Record]) -> TableBlock:
    """How each workload is trained: one row per workload and size, every value it is trained with."""
    built = [record for record in records if record.workload is not None]
    rows = [
        {**facts_of(record), "twins": [twin for twin in built if _model(twin) == _model(record)]}
        for record in one_per_model(records)
    ]

    def values(axis: str) -> Callable[[Row], str]:
        def text(row: Row) -> str:
            found = dict.fromkeys(value_words(axis, _axis(twin, axis)) for twin in row["twins"])
            return ", ".join(found)

        return text

    return lay_out(
        rows,
        name="configuration",
        caption=escape("Training configuration: every value that a workload is trained with in this study."),
        fields=[
            text_field("workload", "title", width=0.12),
            text_field("size", "size"),
            text_field("optimizer", "optimizer", width=0.2),
            text_field("loss", "loss", width=0.13),
            Field(header="batch", text=values("batch_size"), width=0.1),
            Field(header="epochs", text=values("epochs")),
            Field(header="steps", text=values("steps_per_epoch"), width=0.07),
            Field(header="loaders", text=values("workers"), width=0.07),
            Field(header="precision", text=values("precision"), width=0.09),
            Field(header="device", text=values("device"), width=0.07),
        ],
        notes=[
            escape("Epochs count the first, which is kept apart as warm-up. Steps: those of an epoch, where it is ")
            + escape("shortened; whole where an epoch is the whole training set. Loaders: DataLoader workers.")
        ],
    )


def _model(record: Record) -> tuple[object, ...]:
    """What its workload is and says of itself; chance depends on the machine's arithmetic and is left out."""
    return record.as_variant().size, *(value for name, value in facts_of(record).items() if name != "chance")


def _axis(record: Record, axis: str) -> Any:
    value = getattr(record.as_variant(), axis)
    return "whole" if axis == "steps_per_epoch" and value is None else value


def one_per_model(records: Sequence[Record]) -> list[Record]:
    """The first record of each workload and size that says what it is, in the order of the study.

    Machines whose records say other things of it, such as another learning rate, have a record each.
    """
    first: dict[tuple[object, ...], Record] = {}
    for record in records:
        if record.workload is not None:
            first.setdefault(_model(record), record)
    return list(first.values())


def workload_facts(records: Sequence[Record]) -> list[Mapping[str, Any]]:
    """The facts of each workload, those of its first size, with the parameters of every size in words.

    Data that a workload above has too are described there alone.
    """
    models = [facts_of(record) for record in one_per_model(records)]
    has_data: dict[str, str] = {}
    for model in models:
        has_data.setdefault(model["data"], model["title"])
    return [
        {
            **first,
            "heading": shorten(first["title"], _LONGEST_HEADING),
            "is_generated": str(first["data"]).startswith("Generated"),
            "data": first["data"] if (title := has_data[first["data"]]) == first["title"] else f"Those of {title}.",
            "parameters_by_size": _parameters([model for model in models if model["workload"] == first["workload"]]),
        }
        for first in first_of_each(models, "workload")
    ]


def _parameters(models: Sequence[Mapping[str, Any]]) -> str:
    counts = [
        f"{count(model['parameters']).plain()} parameters" + (f" in size {model['size']}" if model["size"] else "")
        for model in models
    ]
    return ", ".join(dict.fromkeys(counts))


def facts_of(record: Record) -> Mapping[str, Any]:
    """What the workload of a record said of itself; nothing where it could not be built."""
    facts, size = record.workload, record.as_variant().size
    if facts is None:
        return {}
    return {
        "title": facts.title[:1].upper() + facts.title[1:],
        "size": "" if size == "default" else size,
        "parameters": facts.parameters,
        "train_samples": None if facts.begins_anew else facts.train_samples,
        "begins_anew": facts.begins_anew,
        "test_samples": facts.test_samples,
        "sample": facts.sample_description,
        "quality_name": facts.quality_name,
        "chance": facts.quality_chance,
        "optimizer": facts.optimizer,
        "loss": facts.loss,
        "data": facts.data_description,
        "source_file": facts.source_file,
        "workload": record.as_variant().workload,
    }
