"""Small studies to draw from, and what is written in what was drawn."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pandas as pd
import yaml
from matplotlib.figure import Figure
from matplotlib.text import Text

from gpu_report.figures.declaration import FigureSpec
from gpu_report.figures.registry import available_figures
from gpu_report.records.record import Record
from gpu_report.study.study import Study
from gpu_report.tables.bundle import Tables
from tests.factories import CONFIG, make_record, make_records, make_study, make_tables, with_tables

Change = Callable[[pd.DataFrame], pd.DataFrame]
"""What makes a table of another one."""


def study_of(*experiments: str, devices: Sequence[str] = ("cpu", "cuda"), **entries: Any) -> Study:
    """Some experiments of the default study, and `entries` as further ones."""
    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    chosen = {name: config["experiments"][name] for name in experiments}
    return make_study(config={**config, "experiments": {**chosen, **entries}}, devices=devices)


def with_failures(records: Sequence[Record], **statuses: Any) -> list[Record]:
    """The records, those whose name holds a key in place of which it failed with that status."""
    return [
        next(
            (
                make_record(record.variant, status=status)
                for part, status in statuses.items()
                if part in record.variant
            ),
            record,
        )
        for record in records
    ]


def drawn_after_failures(name: str, experiment: str, **statuses: Any) -> Figure:
    """A figure of an experiment in which some variants failed, as in `with_failures`."""
    study = study_of(experiment)
    return draw_named(
        name, make_tables(study, with_failures(make_records(study, processes=1), **statuses)), study
    )


@cache
def study_and_tables(
    *experiments: str, devices: tuple[str, ...] = ("cpu", "cuda")
) -> tuple[Study, Tables]:
    """Some experiments of the default study with plausible numbers of four processes each."""
    study = study_of(*experiments, devices=devices)
    return study, make_tables(study, make_records(study, processes=4))


def specs_by_name(tables: Tables, study: Study) -> dict[str, FigureSpec]:
    return {spec.name: spec for spec in available_figures(tables, study.experiments)}


def specs_of(
    *experiments: str, devices: Sequence[str] = ("cpu", "cuda"), **changes: Change
) -> dict[str, FigureSpec]:
    """The figures of some experiments by name, with some tables changed."""
    study, tables = study_and_tables(*experiments, devices=tuple(devices))
    changed = {name: change(getattr(tables, name)) for name, change in changes.items()}
    return specs_by_name(with_tables(tables, **changed), study)


def drawn(
    name: str, *experiments: str, devices: Sequence[str] = ("cpu", "cuda"), **changes: Change
) -> Figure:
    """One of these figures."""
    return specs_of(*experiments, devices=devices, **changes)[name].draw()


def draw_named(name: str, tables: Tables, study: Study) -> Figure:
    return specs_by_name(tables, study)[name].draw()


def texts_of(figure: Figure) -> str:
    """Every text of the figure, ticks and legends included."""
    for axes in figure.axes:
        axes.xaxis.get_majorticklabels()
    return "\n".join(text.get_text() for text in figure.findobj(Text))
