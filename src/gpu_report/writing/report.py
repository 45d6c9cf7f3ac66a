"""The report as LaTeX text: every file that the templates, tables, findings and figures make, by its path.

results of the machine -> StudyView -> templates -> {"gpu_report.tex": ..., "sections/device.tex": ..., ...}
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_report.findings.finding import Finding
from gpu_report.study import Experiment
from gpu_report.terminal import clean
from gpu_report.writing.environment import TEMPLATE_SUFFIX, TemplateError, Templates, render
from gpu_report.writing.layout import FLOATS_FOLDER, HEADLINE_FILE, NUMBERS_CSV, appendix_sections, body_sections
from gpu_report.writing.listing import SourceFile
from gpu_report.writing.machine_view import MachineResults, MachineView
from gpu_report.writing.method_numbers import method_numbers
from gpu_report.writing.numbers import (
    KeyedNumber,
    numbers_csv,
    numbers_of,
    numbers_of_tables,
    numbers_tex,
)
from gpu_report.writing.pictures import comparison_pictures, study_pictures
from gpu_report.writing.study_view import StudyView
from gpu_report.writing.table_block import TableBlock

if TYPE_CHECKING:
    import pandas as pd

    from gpu_report.figures.declaration import FigureSpec

DEFAULT_SECTION: Final = f"default_section{TEMPLATE_SUFFIX}"
"""Of an experiment that has no template of its own."""


def render_report(
    *,
    title: str,
    experiments: Sequence[Experiment],
    machine: MachineResults,
    comparison: "pd.DataFrame",
    comparison_findings: Sequence[Finding],
    comparison_figures: "Sequence[FigureSpec]",
    study_figures: "Sequence[FigureSpec]" = (),
    templates: Path,
    source: SourceFile,
    alone: bool = False,
) -> dict[str, str]:
    """The text of every file of the report, by its path inside the report's folder.

    Args:
        title: Title of the study.
        experiments: All of the configuration, in its order; one without a template `sections/<name>.tex.j2` gets the
            section that suits every experiment.
        machine: What the machine measured that the report is about, at least one record.
        comparison: The table COMPARISON, with the machines beside it; without rows where there is none.
        comparison_findings: What follows from it.
        comparison_figures: The figures drawn from it, each as `figures/machines/<name>.pdf` in the report's folder.
        study_figures: The figures of networks, each as `figures/study/<name>.pdf`.
        templates: The folder that holds the templates.
        source: The file of the training loop, which the implementation section lists.
        alone: Whether the document has the experiments and the machine, and none of the other sections.

    Raises:
        TemplateError: a template is missing or cannot be filled in.
        ListingError: the training loop's file lacks a function that a template lists.
    """
    if not machine.records:
        raise TemplateError("there is no record to report on; measure a variant with: gpu-report run <variant>")
    shown = MachineView(results=machine)
    study = StudyView(
        title=title,
        machine=shown,
        experiment_list=tuple(experiments),
        comparison=comparison,
        all_comparison_findings=tuple(comparison_findings),
        comparison_pictures=comparison_pictures(comparison_figures),
        own_pictures=study_pictures(study_figures, csv_path=shown.csv_path),
        source=source,
    )
    return _texts(study, Templates(templates), alone=alone)


def _texts(study: StudyView, page: Templates, *, alone: bool) -> dict[str, str]:
    experiments = [experiment.name for experiment in study.experiment_list]
    body, appendix = body_sections(experiments, alone=alone), appendix_sections(experiments, alone=alone)
    names = [*body, *appendix]
    values: dict[str, Any] = {"study": study, "machine": study.machine, "body": body, "appendix": appendix}
    texts = {
        "gpu_report.tex": render(page, f"{'experiment' if alone else 'gpu_report'}{TEMPLATE_SUFFIX}", values),
        **{f"sections/{name}.tex": _render_section(name, study, values, page) for name in names},
    }
    if not alone:
        texts["gpu_analysis_sections.tex"] = render(page, f"gpu_analysis_sections{TEMPLATE_SUFFIX}", values)
        texts[HEADLINE_FILE] = "".join(f"{clean(line, keep='')}\n" for line in study.machine.headline)
    numbers = _numbers(study, page)
    return {
        **texts,
        **{f"{FLOATS_FOLDER}/{key}.tex": text for key, text in page.floats.items()},
        "numbers.tex": numbers_tex(numbers, machine=study.machine.id),
        NUMBERS_CSV: numbers_csv(numbers),
    }


def _numbers(study: StudyView, page: Templates) -> list[KeyedNumber]:
    printed = [block for block in page.subjects if isinstance(block, TableBlock)]
    known = [f"{study.machine.id}/{name}" for name in study.machine.tables_with_keys]
    return [*method_numbers(study.machine), *numbers_of(study.machine), *numbers_of_tables(printed, known=known)]


def _render_section(name: str, study: StudyView, values: dict[str, Any], page: Templates) -> str:
    experiment = {view.name: view for view in study.experiments}.get(name)
    template = f"sections/{name}{TEMPLATE_SUFFIX}"
    if experiment:
        values = {**values, "experiment": experiment}
        template = template if (page.folder / template).exists() else DEFAULT_SECTION
    return f"\\begin{{gpureptext}}\n{render(page, template, values)}\\end{{gpureptext}}\n"
