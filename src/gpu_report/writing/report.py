"""The report as LaTeX text: every file that the templates, tables, findings and figures make, by its path.

tables, findings, figures, records -> StudyView -> templates -> {"gpu_report.tex": ..., "sections/device.tex": ..., ...}
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gpu_report.findings.finding import Finding
from gpu_report.number_format import Quantity
from gpu_report.records import Record
from gpu_report.study import Experiment
from gpu_report.tables.bundle import Tables
from gpu_report.writing.environment import TEMPLATE_SUFFIX, TemplateError, render
from gpu_report.writing.listing import SourceFile
from gpu_report.writing.numbers import numbers, numbers_tex
from gpu_report.writing.pictures import FigureSpec
from gpu_report.writing.study_view import StudyView

SECTIONS_BEFORE: Final = ("summary", "machine", "workloads")
SECTIONS_AFTER: Final = ("convergence", "operations", "implementation", "recommendations", "appendix")
"""Sections before and after those of the experiments."""

HEADLINE_FILE: Final = "headline.txt"
LISTED_SOURCE: Final = "measure/training.py"
"""The file that the implementation section lists, inside the package."""


def section_names(experiments: Sequence[str]) -> list[str]:
    """The sections in reading order: `sections/<name>.tex` is made from the template `sections/<name>.tex.j2`."""
    return [*SECTIONS_BEFORE, *experiments, *SECTIONS_AFTER]


def written_files(experiments: Sequence[str]) -> list[str]:
    """The paths, inside the report's folder, of every file that `render_report` gives."""
    sections = [f"sections/{name}.tex" for name in section_names(experiments)]
    return ["gpu_report.tex", "gpu_analysis_sections.tex", "numbers.tex", HEADLINE_FILE, *sections]


def render_report(
    *,
    title: str,
    experiments: Sequence[Experiment],
    tables: Tables,
    findings: Sequence[Finding],
    figures: Sequence[FigureSpec],
    records: Sequence[Record],
    templates: Path,
    source: SourceFile,
) -> dict[str, str]:
    """The text of every file of the report, by its path inside the report's folder.

    Args:
        title: Title of the study.
        experiments: In the order of the configuration; each needs a template `sections/<name>.tex.j2`.
        tables: The study's tables.
        findings: What follows from them.
        figures: The figures that were drawn, each as `figures/<name>.pdf` in the report's folder.
        records: The records of all variants, at least one.
        templates: The folder that holds the templates.
        source: The file of the training loop, which the implementation section lists.

    Raises:
        TemplateError: a template is missing or cannot be filled in.
        ListingError: the training loop's file lacks a function that a template lists.
    """
    if not records:
        raise TemplateError("there is no record to report on; measure a variant with: gpu-report run <variant>")
    study = StudyView(
        title=title,
        experiment_list=tuple(experiments),
        tables=tables,
        all_findings=tuple(findings),
        figure_specs=tuple(figures),
        records=tuple(records),
        source=source,
    )
    names = section_names([experiment.name for experiment in experiments])
    values: dict[str, Any] = {"study": study, "sections": names}
    return {
        "gpu_report.tex": render(templates, f"gpu_report{TEMPLATE_SUFFIX}", values),
        "gpu_analysis_sections.tex": render(templates, f"gpu_analysis_sections{TEMPLATE_SUFFIX}", values),
        "numbers.tex": numbers_tex(_numbers(study)),
        HEADLINE_FILE: "".join(f"{line}\n" for line in study.headline),
        **{f"sections/{name}.tex": _render_section(name, study, values, templates) for name in names},
    }


def _numbers(study: StudyView) -> dict[str, Quantity]:
    return numbers(
        study.variants,
        {view.name: view.rows for view in study.experiments},
        {view.name: view.experiment.axis for view in study.experiments},
    )


def _render_section(name: str, study: StudyView, values: dict[str, Any], templates: Path) -> str:
    experiment = {view.name: view for view in study.experiments}.get(name)
    mend = (
        f"write it for the experiment {name!r}: copy sections/batch_size{TEMPLATE_SUFFIX}, "
        "change its title and say in it what the experiment compares and how"
    )
    return render(
        templates,
        f"sections/{name}{TEMPLATE_SUFFIX}",
        {**values, "experiment": experiment} if experiment else values,
        mend_missing=mend if experiment else "",
    )
