"""Commands that draw the figures, write the sections and compile the report."""

import gc
import json
import shutil
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_report.commands.places import read_records, read_tables
from gpu_report.errors import GpuReportError
from gpu_report.files import unfinished_folder, write_bytes_atomically, write_text_atomically
from gpu_report.records import read_record
from gpu_report.study import Experiment
from gpu_report.terminal import say

if TYPE_CHECKING:
    import pandas as pd

    from gpu_report.figures.declaration import FigureSpec
    from gpu_report.records import Record
    from gpu_report.writing.listing import SourceFile
    from gpu_report.writing.machine import MachineResults

REPORT = Path("report")
WRITTEN_BY_HAND = ("gpu_report.sty", "references.bib")
"""What a report takes from its folder as it is."""


def draw_figures(arguments: Namespace) -> None:
    """Replace the folder of figures by one that holds every figure that there is data for."""
    gc.disable()  # what is imported and read is kept; drawing collects again
    from gpu_report.figures.registry import available_figures
    from gpu_report.writing.pictures import figures_of

    experiments = [Experiment.from_dict(values) for values in json.loads(arguments.experiments)]
    figures = available_figures(read_tables(arguments.results, experiments), experiments)
    if arguments.alone:
        figures = [figure for experiment in experiments for figure in figures_of(experiment.name, figures)]
    _draw_into(arguments, figures)


def _draw_into(arguments: Namespace, specs: "Sequence[FigureSpec]") -> None:
    """Draw figures in the format asked for: PDF in a new folder, PGF beside what is in the folder."""
    from gpu_report.figures.drawing import draw_all

    if arguments.format == "pgf":
        from gpu_report.figures.pgf import write_pgf

        arguments.figures.mkdir(parents=True, exist_ok=True)
        for old in (*arguments.figures.glob("*.pgf"), *arguments.figures.glob("*-img*.png")):
            old.unlink()
        for spec in specs:
            write_pgf(spec.draw(), arguments.figures / f"{spec.name}.pgf", escape=_as_tex)
        return
    with _replaced(arguments.figures) as drawn:
        for spec, pdf in zip(specs, draw_all([spec.draw for spec in specs]), strict=True):
            _write_figure(drawn, spec, pdf)


def _as_tex(text: str) -> str:
    """As everywhere in the report, but without the places where names may be broken: a text in a figure stays whole."""
    from gpu_report.writing.tex import escape

    return escape(text).replace(r"\gpurepbreak{}", "")


def _write_figure(folder: Path, figure: "FigureSpec", pdf: bytes) -> None:
    """The picture, and beside it what Snakemake's HTML report says of it."""
    from gpu_report.writing.pictures import figure_description

    write_bytes_atomically(folder / f"{figure.name}.pdf", pdf)
    write_text_atomically(folder / f"{figure.name}.rst", figure_description(figure))


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of the old one once it is whole."""
    with unfinished_folder(folder) as unfinished:
        drawn = unfinished / folder.name
        drawn.mkdir()
        yield drawn
        shutil.rmtree(folder, ignore_errors=True)
        drawn.replace(folder)


def draw_comparison(arguments: Namespace) -> None:
    """Replace the folder of figures that show machines side by side; it is empty where one is shown."""
    if _is_empty(arguments.comparison):
        with _replaced(arguments.figures):
            return
    from gpu_report.figures.machines import comparison_figures

    _draw_into(arguments, comparison_figures(_read_comparison(arguments.comparison)))


def draw_study(arguments: Namespace) -> None:
    """Replace the folder of the figures of the networks that the report's machine trained."""
    from gpu_report.figures.networks import network_figures

    study = json.loads(arguments.study)
    records = read_records(arguments.machines[0] / "runs", _variants_of(study["machines"][0]))
    specs = network_figures(records)
    _draw_into(arguments, specs)
    for spec in specs:
        if spec.csv:
            write_text_atomically(arguments.figures / f"{spec.name}.csv", spec.csv)


def _variants_of(machine: Mapping[str, Any]) -> list[str]:
    """Each variant once, in the order of the experiments."""
    return list(dict.fromkeys(variant for each in machine["experiments"] for variant in each["variants"]))


def _records_of(study: Mapping[str, Any], folders: "Sequence[Path]") -> "list[list[Record]]":
    """Those of each of the study's machines, in order, as the folders are."""
    return [
        read_records(folder / "runs", _variants_of(machine))
        for machine, folder in zip(study["machines"], folders, strict=True)
    ]


def write_sections(arguments: Namespace) -> None:
    """Write every LaTeX file of the report, which is about the first of the machines, from the templates beside it."""
    from gpu_report.figures.machines import comparison_figures
    from gpu_report.figures.networks import network_figures
    from gpu_report.findings.finding import read_findings
    from gpu_report.writing.layout import report_layout
    from gpu_report.writing.report import render_report

    study = json.loads(arguments.study)
    comparison = _read_comparison(arguments.comparison)
    records = _records_of(study, arguments.machines)
    experiments = _asked(study)
    files = render_report(
        title=study["title"],
        layout=report_layout([experiment.name for experiment in experiments]),
        experiments=experiments,
        machine=_results_of(study["machines"][0], arguments.machines[0], records[0]),
        comparison=comparison,
        comparison_findings=read_findings(arguments.comparison_findings),
        comparison_figures=comparison_figures(comparison),
        study_figures=network_figures(records[0]),
        templates=REPORT,
        source=_listed_source(),
    )
    _write_text(files, arguments.folder)


def write_experiment(arguments: Namespace) -> None:
    """Write every LaTeX file of a document about one experiment, with the package that it needs beside them."""
    from gpu_report.tables.schema import COMPARISON
    from gpu_report.writing.layout import experiment_layout
    from gpu_report.writing.report import render_report

    experiment = Experiment.from_dict(json.loads(arguments.experiment))
    records = read_records(arguments.runs, [variant.slug for variant in experiment.variants])
    machine = {"id": arguments.machine, "experiments": [experiment.as_dict()]}
    files = render_report(
        title=f"{arguments.title}: {experiment.name.replace('_', ' ')}",
        layout=experiment_layout(experiment.name),
        experiments=[experiment],
        machine=_results_of(machine, arguments.results, records),
        comparison=COMPARISON.from_rows([]),
        comparison_findings=(),
        comparison_figures=(),
        templates=REPORT,
        source=_listed_source(),
    )
    _write_text({**files, **{name: (REPORT / name).read_text("utf-8") for name in WRITTEN_BY_HAND}}, arguments.folder)


def _listed_source() -> "SourceFile":
    from gpu_report.writing.layout import LISTED_SOURCE
    from gpu_report.writing.listing import SourceFile

    text = resources.files("gpu_report").joinpath(LISTED_SOURCE).read_text("utf-8")
    return SourceFile(name=f"src/gpu_report/{LISTED_SOURCE}", text=text)


def _write_text(files: Mapping[str, str], folder: Path) -> None:
    """Write a document's files, in place of all tables and figures that the folder had."""
    from gpu_report.writing.layout import FLOATS_FOLDER

    # Tables and figures that the study no longer has must not stay.
    shutil.rmtree(folder / FLOATS_FOLDER, ignore_errors=True)
    for name, text in files.items():
        write_text_atomically(folder / name, text)


def _asked(study: Mapping[str, Any]) -> list[Experiment]:
    """The experiments of the configuration, also those without a variant here."""
    given = [*study.get("experiments", []), *(each for machine in study["machines"] for each in machine["experiments"])]
    experiments: dict[str, Experiment] = {}
    for values in given:
        experiments.setdefault(values["name"], Experiment.from_dict(values))
    return list(experiments.values())


def _results_of(machine: Mapping[str, Any], results: Path, records: "Sequence[Record]") -> "MachineResults":
    from gpu_report.figures.registry import available_figures
    from gpu_report.findings.finding import read_findings
    from gpu_report.shown_machines import IMPORTED
    from gpu_report.writing.machine import MachineResults

    experiments = [Experiment.from_dict(values) for values in machine["experiments"]]
    tables = read_tables(results, experiments)
    return MachineResults(
        id=machine["id"],
        experiments=experiments,
        tables=tables,
        findings=read_findings(results / "findings.json"),
        figures=available_figures(tables, experiments),
        records=records,
        folder=results.as_posix(),
        is_imported=results.parent == IMPORTED,
    )


def _is_empty(comparison: Path) -> bool:
    """Asked before anything is imported that draws."""
    from gpu_report.tables.schema import COMPARISON

    return not COMPARISON.read_rows(comparison)


def _read_comparison(path: Path) -> "pd.DataFrame":
    from gpu_report.tables.schema import COMPARISON

    return COMPARISON.read_csv(path)


def compile_report(arguments: Namespace) -> None:
    """Compile the report; it is dated by its newest measurement, so that the same records give the same bytes."""
    from gpu_report.writing.latex import compile_report as compile_folder
    from gpu_report.writing.latex import newest_measurement

    dated = newest_measurement(map(read_record, arguments.records))
    compiled = compile_folder(arguments.folder, dated=dated, pdf=arguments.pdf)
    for problem in compiled.problems:
        say(f"{compiled.pdf}: {problem}")


def show_headline(_: Namespace) -> None:
    """Print where the report is and the three lines that sum it up."""
    from gpu_report.writing.layout import HEADLINE_FILE

    pdf, headline = REPORT / "gpu_report.pdf", REPORT / HEADLINE_FILE
    if not pdf.exists() or not headline.exists():
        raise GpuReportError(f"there is no {pdf} yet; make it with: make report")
    say(f"{pdf.resolve()}\n{headline.read_text('utf-8').rstrip()}")
