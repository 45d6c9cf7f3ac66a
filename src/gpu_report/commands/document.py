"""Commands that draw the figures, write the sections and compile the report."""

import json
import shutil
import tempfile
from argparse import Namespace
from importlib import resources
from pathlib import Path

from gpu_report.commands.places import read_records, read_tables
from gpu_report.errors import GpuReportError
from gpu_report.files import write_bytes_atomically, write_text_atomically
from gpu_report.records import read_record
from gpu_report.study import Experiment

REPORT = Path("report")


def draw_figures(arguments: Namespace) -> None:
    """Replace the folder of figures by one that holds every figure that there is data for."""
    from gpu_report.figures.registry import available_figures, draw
    from gpu_report.figures.style import figure_bytes

    experiments = [Experiment.from_dict(values) for values in json.loads(arguments.experiments)]
    tables = read_tables(arguments.results, experiments)
    folder: Path = arguments.figures
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as unfinished:
        drawn = Path(unfinished) / folder.name
        for spec in available_figures(tables, experiments):
            write_bytes_atomically(drawn / f"{spec.name}.pdf", figure_bytes(draw(spec, tables)))
        shutil.rmtree(folder, ignore_errors=True)
        drawn.replace(folder)


def write_sections(arguments: Namespace) -> None:
    """Write every LaTeX file of the report from the templates beside it."""
    from gpu_report.figures.registry import available_figures
    from gpu_report.findings.finding import read_findings
    from gpu_report.writing.listing import SourceFile
    from gpu_report.writing.report import LISTED_SOURCE, render_report

    study = json.loads(arguments.study)
    experiments = [Experiment.from_dict(values) for values in study["experiments"]]
    tables = read_tables(arguments.results, experiments)
    files = render_report(
        title=study["title"],
        experiments=experiments,
        tables=tables,
        findings=read_findings(arguments.results / "findings.json"),
        figures=available_figures(tables, experiments),
        records=read_records(arguments.results / "runs", list(tables.variants["variant"])),
        templates=arguments.folder,
        source=SourceFile(
            name=f"src/gpu_report/{LISTED_SOURCE}",
            text=resources.files("gpu_report").joinpath(LISTED_SOURCE).read_text("utf-8"),
        ),
    )
    for name, text in files.items():
        write_text_atomically(arguments.folder / name, text)


def compile_report(arguments: Namespace) -> None:
    """Compile the report; it is dated by its newest measurement, so that the same records give the same bytes."""
    from gpu_report.writing.latex import compile_report as compile_folder
    from gpu_report.writing.latex import newest_measurement

    dated = newest_measurement(map(read_record, arguments.records))
    compiled = compile_folder(arguments.folder, dated=dated)
    for problem in compiled.problems:
        print(f"{compiled.pdf}: {problem}", flush=True)


def show_headline(_: Namespace) -> None:
    """Print where the report is and the three lines that sum it up."""
    from gpu_report.writing.report import HEADLINE_FILE

    pdf, headline = REPORT / "gpu_report.pdf", REPORT / HEADLINE_FILE
    if not pdf.exists() or not headline.exists():
        raise GpuReportError(f"there is no {pdf} yet; make it with: make report")
    print(f"{pdf.resolve()}\n{headline.read_text('utf-8').rstrip()}")
