"""A whole report made from synthetic records, for tests that look at its text or its PDF."""

import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_report.answers.finding import Finding
from gpu_report.answers.machines import derive_comparison
from gpu_report.answers.questions import derive_findings
from gpu_report.figures.machines import comparison_figures
from gpu_report.figures.registry import available_figures
from gpu_report.figures.style import figure_bytes
from gpu_report.records.record import Record
from gpu_report.study.study import Study
from gpu_report.tables.bundle import Tables
from gpu_report.tables.marks import Today
from gpu_report.writing.environment import TEMPLATES
from gpu_report.writing.layout import (
    LISTED_SOURCES,
    WRITTEN_BY_HAND,
    experiment_layout,
    report_layout,
)
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.report import render_report
from tests.factories import CODE_DIGEST, make_records, make_study, make_tables
from tests.searches import make_search
from tests.tabulated import tabulate_comparison

if TYPE_CHECKING:
    import pandas as pd

PROJECT: Final = Path(__file__).parents[2]
CODE: Final = {
    f"src/gpu_report/{file}": (PROJECT / "src/gpu_report" / file).read_text("utf-8")
    for file in LISTED_SOURCES
}
DATED: Final = datetime(2026, 5, 4, 10, tzinfo=UTC)
"""When the synthetic reports are dated."""
TWO_MACHINES: Final = "two machines"
LAPTOP: Final = "laptop-8c"
SERVER: Final = "h100-x1-xeon-16c"


def results_of(
    study: Study,
    *,
    machine: str = "xeon-2c",
    records: Sequence[Record] | None = None,
    tables: Tables | None = None,
    findings: Sequence[Finding] | None = None,
    folder: str = "",
) -> MachineResults:
    """What one machine gave for a study; experiments without variants there are left out."""
    experiments = [experiment for experiment in study.experiments if experiment.variants]
    records = make_records(study, machine=machine) if records is None else records
    searches = [make_search(search, machine=machine) for search in study.searches]
    tables = tables or make_tables(study, records, searches=searches)
    return MachineResults(
        id=machine,
        experiments=experiments,
        tables=tables,
        findings=derive_findings(tables, study.experiments) if findings is None else findings,
        figures=available_figures(tables, experiments),
        records=records,
        folder=folder or f"results/machines/{machine}",
        searching=[experiment for experiment in study.experiments if experiment.searches],
    )


def render_machines(
    study: Study,
    machines: Sequence[MachineResults],
    *,
    templates: Sequence[Path] = (),
    title: str | None = None,
    alone: bool = False,
) -> dict[str, str]:
    """The text of every file of the report on the first machine, beside the others; the study says
    what is asked.
    """
    comparison = comparison_of(machines)
    names = [experiment.name for experiment in study.experiments]
    return render_report(
        title=title or study.title,
        layout=experiment_layout(names[0]) if alone else report_layout(names, study.leave_out),
        experiments=study.experiments,
        machine=machines[0],
        comparison=comparison,
        comparison_findings=derive_comparison(comparison),
        comparison_figures=comparison_figures(comparison),
        templates=templates,
        code=CODE,
    )


def comparison_of(machines: Sequence[MachineResults]) -> "pd.DataFrame":
    """The table of these machines side by side."""
    records = {machine.id: machine.records for machine in machines}
    shares: dict[str, dict[str, float]] = {machine.id: {} for machine in machines}
    return tabulate_comparison(records, today=Today(code_digest=CODE_DIGEST), busy_shares=shares)


def render_study(
    study: Study,
    *,
    templates: Sequence[Path] = (),
    title: str | None = None,
    alone: bool = False,
    **results: Any,
) -> dict[str, str]:
    """The text of every file of the report on one machine."""
    return render_machines(
        study, [results_of(study, **results)], templates=templates, title=title, alone=alone
    )


@cache
def results_on(*devices: str) -> MachineResults:
    """What a machine with these devices gave for the default study."""
    return results_of(make_study(devices=devices))


@cache
def tables_of(*devices: str) -> Tables:
    """The tables of the default study, measured on these devices."""
    return results_on(*devices).tables


@cache
def render_devices(*devices: str) -> dict[str, str]:
    """The text of the report on the default study, measured on these devices."""
    return render_machines(make_study(devices=devices), [results_on(*devices)])


@cache
def two_machines() -> tuple[MachineResults, MachineResults]:
    """A server with an accelerator and a laptop without one, both measured for the default
    study.
    """
    return (
        results_of(make_study(devices=("cpu", "cuda")), machine=SERVER),
        results_of(make_study(devices=("cpu",)), machine=LAPTOP),
    )


@cache
def render_two_machines() -> dict[str, str]:
    """The text of the report on the server, beside the laptop."""
    return render_machines(make_study(), two_machines())


def section_with_floats(files: Mapping[str, str], name: str) -> str:
    """The text of a section with its tables and figures in their places."""
    return re.sub(
        r"\\gpurepfloat\{([^}]+)\}",
        lambda taken: files[f"floats/{taken[1]}.tex"],
        files[f"sections/{name}.tex"],
    )


def figure_files(machines: Sequence[MachineResults]) -> list[str]:
    """The figures of these machines and of their comparison, as the report's text names their
    files.
    """
    compared = [figure.name for figure in comparison_figures(comparison_of(machines))]
    return [
        *(f"{machine.id}/{figure.name}.pdf" for machine in machines for figure in machine.figures),
        *(f"machines/{name}.pdf" for name in compared),
    ]


def write_report(
    folder: Path, files: Mapping[str, str], machines: Sequence[MachineResults]
) -> Path:
    """Lay out a report's folder ready to be compiled; every figure is the same small picture."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in WRITTEN_BY_HAND:
        shutil.copy(TEMPLATES / name, folder)
    for name in figure_files(machines):
        path = folder / "figures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_small_picture())
    return folder


def write_project(folder: Path, *shown: str) -> Path:
    """The report's folder in a project that has the data of two tables; on these devices, or on
    `TWO_MACHINES`.
    """
    two = shown == (TWO_MACHINES,)
    machines = two_machines() if two else (results_on(*shown),)
    for name in ("variants", "batch_size"):
        table = folder / machines[0].folder / "tables" / f"{name}.csv"
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text("variant\n", encoding="utf-8")
    return write_report(
        folder / "report", render_two_machines() if two else render_devices(*shown), machines
    )


@cache
def _small_picture() -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.3, 2.0))
    figure.subplots().plot([0, 1])
    return figure_bytes(figure)
