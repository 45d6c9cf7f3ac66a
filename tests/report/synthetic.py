"""A whole report made from synthetic records, for tests that look at its text or its PDF."""

import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from gpu_report.figures.registry import FigureSpec, available_figures
from gpu_report.figures.style import figure_bytes
from gpu_report.findings.derive import derive_findings
from gpu_report.records import Record
from gpu_report.study import Study
from gpu_report.tables.bundle import Tables
from gpu_report.writing.listing import SourceFile
from gpu_report.writing.report import LISTED_SOURCE, render_report
from tests.factories import make_records, make_study, make_tables

PROJECT: Final = Path(__file__).parents[2]
TEMPLATES: Final = PROJECT / "report"
SOURCE: Final = SourceFile(
    name=f"src/gpu_report/{LISTED_SOURCE}",
    text=(PROJECT / "src" / "gpu_report" / LISTED_SOURCE).read_text("utf-8"),
)


def render_study(
    study: Study,
    *,
    records: Sequence[Record] | None = None,
    tables: Tables | None = None,
    templates: Path = TEMPLATES,
    **changes: Any,
) -> dict[str, str]:
    """The text of every file of the report on a study."""
    records = make_records(study) if records is None else records
    tables = tables or make_tables(study, records)
    values: dict[str, Any] = {
        "title": study.title,
        "experiments": study.experiments,
        "tables": tables,
        "findings": derive_findings(tables, study.experiments),
        "figures": available_figures(tables, study.experiments),
        "records": records,
        "templates": templates,
        "source": SOURCE,
    }
    return render_report(**{**values, **changes})


@cache
def tables_of(*devices: str) -> Tables:
    """The tables of the default study, measured on these devices."""
    return make_tables(make_study(devices=devices))


@cache
def render_devices(*devices: str) -> dict[str, str]:
    """The text of the report on the default study, measured on these devices."""
    return render_study(make_study(devices=devices), tables=tables_of(*devices))


def write_report(folder: Path, files: dict[str, str], figures: Sequence[FigureSpec]) -> Path:
    """Lay out a report's folder ready to be compiled; every figure is the same small picture."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copy(TEMPLATES / "gpu_report.sty", folder)
    (folder / "figures").mkdir()
    for figure in figures:
        (folder / "figures" / f"{figure.name}.pdf").write_bytes(_small_picture())
    return folder


@cache
def _small_picture() -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.3, 2.0))
    figure.subplots().plot([0, 1])
    return figure_bytes(figure)
