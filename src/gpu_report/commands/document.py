"""Commands that draw the figures, and write sections and page."""

import shutil
from argparse import Namespace
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import pandas as pd

from gpu_report.answers.finding import Finding, read_findings
from gpu_report.bundles.shown_machines import IMPORTED, find_bundles, published_for
from gpu_report.commands.results_folder import ResultsFolder
from gpu_report.figures.declaration import FigureSpec
from gpu_report.figures.drawing import draw_all
from gpu_report.figures.machines import comparison_figures
from gpu_report.figures.networks import network_figures
from gpu_report.figures.registry import available_figures
from gpu_report.page.page import render_page
from gpu_report.storage.columns import Table
from gpu_report.storage.files import (
    list_content,
    replaced_folder,
    write_bytes_atomically,
    write_text_atomically,
)
from gpu_report.tables.operations import profiled
from gpu_report.tables.variants import COMPARISON
from gpu_report.traces.memory import MEMORY
from gpu_report.writing.environment import written_by_hand
from gpu_report.writing.layout import (
    FLOATS_FOLDER,
    LISTED_SOURCES,
    WRITTEN_BY_HAND,
    experiment_layout,
    figures_of,
    report_layout,
)
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.report import render_report


def draw_figures(arguments: Namespace) -> None:
    """Replace the folder of figures by one with every figure that there is data for.

    Of an experiment alone, those that its own section shows.
    """
    results = ResultsFolder.of(arguments.study, experiment=arguments.experiment)
    figures = available_figures(results.read_tables(), results.study.experiments_with_variants)
    if arguments.experiment:
        figures = list(figures_of(arguments.experiment, figures))
    _draw_into(arguments.figures, figures)


def _draw_into(folder: Path, specs: Sequence[FigureSpec]) -> None:
    with replaced_folder(folder) as drawn:
        for spec, pdf in zip(specs, draw_all([spec.draw for spec in specs]), strict=True):
            write_bytes_atomically(drawn / f"{spec.name}.pdf", pdf)
            if spec.csv:
                write_text_atomically(drawn / f"{spec.name}.csv", spec.csv)
    list_content(folder)


def draw_comparison(arguments: Namespace) -> None:
    """Replace the folder of figures that show machines side by side."""
    _draw_into(arguments.figures, comparison_figures(COMPARISON.read_csv(arguments.comparison)))


def draw_study(arguments: Namespace) -> None:
    """Replace the folder of the figures of the networks that the report's machine trained."""
    _draw_into(arguments.figures, network_figures(ResultsFolder.of(arguments.study).read_records()))


def write_sections(arguments: Namespace) -> None:
    """Write every LaTeX file of the report on one machine, which is compared with others, from the
    templates, with the files written by hand that they need; of a document about one experiment
    too.
    """
    alone = arguments.experiment
    results = ResultsFolder.of(arguments.study, experiment=alone)
    comparison, comparison_findings = _read_with_findings(COMPARISON, arguments.comparison)
    machine = results_of(results)

    package = resources.files("gpu_report")
    files = render_report(
        title=f"{results.study.title}: {alone.replace('_', ' ')}" if alone else results.study.title,
        layout=experiment_layout(alone)
        if alone
        else report_layout(
            [experiment.name for experiment in results.study.experiments], results.study.leave_out
        ),
        experiments=results.study.experiments,  # also those without a variant on the machine
        machine=machine,
        comparison=comparison,
        comparison_findings=comparison_findings,
        comparison_figures=comparison_figures(comparison),
        study_figures=() if alone else network_figures(machine.records),
        rebuilt_by=arguments.rebuilt_by,
        templates=arguments.templates,
        code={
            f"src/gpu_report/{file}": package.joinpath(file).read_text("utf-8")
            for file in LISTED_SOURCES
        },
    )
    by_hand = {name: written_by_hand(name, arguments.templates) for name in WRITTEN_BY_HAND}
    # Tables and figures that the study no longer has must not stay.
    shutil.rmtree(arguments.folder / FLOATS_FOLDER, ignore_errors=True)
    for name, text in {**files, **by_hand}.items():
        write_text_atomically(arguments.folder / name, text)
    list_content(arguments.folder / FLOATS_FOLDER)


def _read_with_findings(table: Table, path: Path | None) -> tuple[pd.DataFrame, Sequence[Finding]]:
    if path is None:
        return table.from_rows([]), ()
    return table.read_csv(path), read_findings(path.with_name("findings.json"))


def results_of(results: ResultsFolder) -> MachineResults:
    """What report, page and notebooks show of a machine, out of its folder."""
    experiments, tables = results.study.experiments_with_variants, results.read_tables()
    bundle = (
        find_bundles(published_for(results.study.name)).get(results.resolved.machine)
        if results.machine_folder.parent == IMPORTED
        else None
    )
    return MachineResults(
        id=results.resolved.machine,
        experiments=experiments,
        tables=tables,
        findings=read_findings(results.folder / "findings.json"),
        figures=available_figures(tables, experiments),
        records=results.read_records(),
        folder=results.folder.as_posix(),
        searching=[experiment for experiment in results.study.experiments if experiment.searches],
        bundle=bundle[0] if bundle else None,
    )


def write_page(arguments: Namespace) -> None:
    """Write the HTML file that shows one machine's results in a browser."""
    results = ResultsFolder.of(arguments.study)
    memory = {
        each.variant.slug: each.rows(MEMORY) for each in profiled(results.read_trace_tables())
    }
    comparison, comparison_findings = _read_with_findings(COMPARISON, arguments.comparison)
    text = render_page(
        title=results.study.title,
        machine=results_of(results),
        memory=memory,
        comparison=comparison,
        comparison_findings=comparison_findings,
    )
    write_text_atomically(arguments.page, text)
