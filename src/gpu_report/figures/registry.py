"""Every figure of a machine, in the order of reading, and which of them the tables hold data for.

A figure declares its name, caption, alternative text and tables beside the function that draws it;
it is listed here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gpu_report.figures import labels
from gpu_report.figures.convergence import CONVERGENCE, LOSS_SCALE
from gpu_report.figures.declaration import FigureSpec, Shown
from gpu_report.figures.devices import LINKS, ROOFLINE, TRANSFER
from gpu_report.figures.ladder import LADDER, WATERFALL
from gpu_report.figures.own_loops import PARTS, PASSES
from gpu_report.figures.speed import (
    CROSSOVER,
    SCALING,
    SPEEDUP_ROWS,
    THROUGHPUT_CURVES,
    THROUGHPUT_ROWS,
)
from gpu_report.figures.stacked_bars import IDLE, PHASES, STEPS
from gpu_report.study.study import Experiment
from gpu_report.tables.bundle import Tables

FIGURES: Final[tuple["partial[Iterator[FigureSpec]]", ...]] = (
    *(SPEEDUP_ROWS, CROSSOVER, LADDER, THROUGHPUT_ROWS, THROUGHPUT_CURVES),
    *(SCALING, PHASES, LOSS_SCALE, CONVERGENCE),
    *(STEPS, IDLE),
    *(PARTS, PASSES),
    *(WATERFALL, TRANSFER, LINKS, ROOFLINE),
)


def available_figures(tables: Tables, experiments: Sequence[Experiment]) -> list[FigureSpec]:
    """Every figure that has data, by experiment in the order given, those of the study and of the
    machine last.

    Experiments without a variant on the machine have none.
    """
    study = Shown(rows=labels.with_titles(tables.variants, tables.variants), tables=tables)
    subjects = [
        replace(
            study,
            rows=labels.with_titles(tables.experiments[experiment.name], tables.variants),
            subject=experiment.name,
            axis=experiment.axis,
            baseline=labels.field_label(experiment.axis, experiment.baseline),
        )
        for experiment in experiments
        if experiment.variants
    ]
    return [spec for given in [*subjects, study] for figure in FIGURES for spec in figure(given)]
