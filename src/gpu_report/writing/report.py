"""The report as LaTeX text: every file that the templates, tables, findings and figures make, by
its path.

results of the machine -> what templates may use -> templates -> {"gpu_report.tex": ...,
"sections/device.tex": ...}
"""

import ast
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu_report import words
from gpu_report.answers.finding import Finding
from gpu_report.answers.summary import across_experiments, answer_word, answered
from gpu_report.errors import ReportError
from gpu_report.figures.labels import with_labels_across_machines
from gpu_report.glossary import machine_words
from gpu_report.printing.terminal import clean
from gpu_report.study.study import Experiment
from gpu_report.tables.bundle import rows_of
from gpu_report.writing import cards, rows
from gpu_report.writing.citation import measurements_entry
from gpu_report.writing.environment import TEMPLATE_SUFFIX, Templates, render
from gpu_report.writing.experiment import ExperimentResults, distinguishing_columns
from gpu_report.writing.layout import (
    COMPARISON_CSV,
    COMPARISON_FOLDER,
    FLOATS_FOLDER,
    HEADLINE_FILE,
    NUMBERS_CSV,
    STUDY_FOLDER,
    Layout,
    placed,
)
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.numbers import (
    SHORT_KERNEL,
    method_numbers,
    numbers_csv,
    numbers_of,
    numbers_tex,
)
from gpu_report.writing.rows import generated, networks, trained_models
from gpu_report.writing.table import TableBlock, Text, metric, table
from gpu_report.writing.tex import Tex, breakable

if TYPE_CHECKING:
    import pandas as pd

    from gpu_report.figures.declaration import FigureSpec


def excerpt(source: str, function: str) -> list[dict[str, object]]:
    """The lines of a function of this source code, with decorators and docstring: the number of
    each in the file, by how many characters it is indented, and the rest as TeX.

    Raises:
        ReportError: the code has no such function at its top level.
    """
    nodes = ast.parse(source).body
    places = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    if function not in places:
        raise ReportError(
            f"there is no function {function!r}, which the report lists; name another one in the "
            "template"
        )
    node = places[function]
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = source.splitlines()[first - 1 : node.end_lineno]
    return [
        {
            "number": number,
            "indent": len(line) - len(line.lstrip()),
            # with straight quotes, and blanks that TeX keeps
            "text": Tex(
                str(breakable(line.lstrip()))
                .replace("'", r"\textquotesingle{}")
                .replace(" ", r"\ ")
            ),
        }
        for number, line in enumerate(lines, start=first)
    ]


_TITLED: Final = re.compile(
    r"\\(?:gpurep(?:sub)?section(?:\[.*?\])?\{|caption\[)(?P<title>.*?)"
    r"(?:\}\{|\]\{.*\\gpureplabel\{)(?P<label>(?:sec|tab|fig):[^}]*)\}"
)
"""What `\\gpurepref` may refer to: the heading of a section, or the short caption of a float."""

DEFAULT_SECTION: Final = f"default_section{TEMPLATE_SUFFIX}"
"""Of an experiment that has no template of its own."""
SEARCH_SECTION: Final = f"search_section{TEMPLATE_SUFFIX}"
"""Of one that searches batch sizes and has none."""


def render_report(
    *,
    title: str,
    layout: Layout,
    experiments: Sequence[Experiment],
    machine: MachineResults,
    comparison: "pd.DataFrame",
    comparison_findings: Sequence[Finding],
    comparison_figures: "Sequence[FigureSpec]",
    study_figures: "Sequence[FigureSpec]" = (),
    rebuilt_by: str = "",
    templates: Sequence[Path],
    code: Mapping[str, str],
) -> dict[str, str]:
    """The text of every file of the report, by its path inside the report's folder.

    Args:
        title: Title of the study.
        layout: The sections, and the template of the document.
        experiments: All of the configuration, in its order; one without a template
            `sections/<name>.tex.j2` gets the section that suits every experiment.
        machine: What the machine measured that the report is about, at least one record.
        comparison: The table COMPARISON, with the machines beside it; without rows where there is
            none.
        comparison_findings: What follows from it.
        comparison_figures: The figures drawn from it, each as `figures/machines/<name>.pdf` in the
            report's folder.
        study_figures: The figures of networks, each as `figures/study/<name>.pdf`.
        rebuilt_by: The command that makes the report again; without one the report names none.
        templates: Folders of a study's own templates, which take the place of the package's.
        code: The text of the files of which the implementation section lists functions, by their
            paths.

    Raises:
        ReportError: a template is missing or cannot be filled in.
        ReportError: a file lacks a function that a template lists.
    """
    if not machine.records:
        raise ReportError(
            "there is no record to report on; measure a configuration with: gpu-report run VARIANT"
        )
    axes = {experiment.name: experiment.axis for experiment in experiments}
    models = trained_models(machine.records)
    compared = placed(
        comparison_figures, folder=COMPARISON_FOLDER, csv_path=lambda _: COMPARISON_CSV
    )
    drawn = placed(study_figures, folder=STUDY_FOLDER, csv_path=machine.csv_path)
    shown = {one.name: ExperimentResults(experiment=one, machine=machine) for one in experiments}
    # The sections that have nothing to show on this machine, which the document lists.
    questions = {name: each.question for name, each in shown.items() if not each.rows}
    if not machine.pictures("transfer"):
        questions["transfer"] = "How fast are copies to the GPU?"
    if not machine.watched:
        questions["energy"] = "How much power and energy does the GPU take?"
    left_out = {name: asks for name, asks in questions.items() if name in layout.sections}
    values: dict[str, Any] = {
        "title": title,
        "layout": layout,
        "left_out": left_out,
        "machine": machine,
        "models": models,
        "networks": networks(models),
        "generated": generated(models),
        "network_pictures": lambda workload: [each for each in drawn if each.subject == workload],
        "across_experiments": across_experiments(
            machine.findings, axes, has_gpu=machine.has_accelerator, left_out=left_out
        ),
        "compared": rows_of(with_labels_across_machines(comparison)),
        "comparison_csv": COMPARISON_CSV,
        "comparison_pictures": compared,
        "comparison_findings": comparison_findings,
        "rebuilt_by": rebuilt_by,
        "cited": measurements_entry(
            machine.records, title=title, bundle=machine.bundle
        ).splitlines(),
        "short_kernel": SHORT_KERNEL.plain(),
        "code": code,
        "listed": excerpt,
    }
    page = Templates(templates)
    page.environment.globals.update(
        rows=rows,
        cards=cards,
        words=words,
        text=Text,
        metric=metric,
        distinguishing_columns=distinguishing_columns,
        answer_word=answer_word,
        machine_words=machine_words,
        table=partial(_table, machine),
        figure=machine.pictures,
        finding=lambda subject, *names: answered(machine.findings, subject, names),
    )
    texts = {
        "gpu_report.tex": render(page, f"{layout.template}{TEMPLATE_SUFFIX}", values),
        **{
            f"sections/{name}.tex": _section(page, name, values, shown.get(name))
            for name in layout.sections
        },
    }
    for name in layout.others:
        texts[name] = (
            "".join(f"{clean(line, keep='')}\n" for line in machine.headline)
            if name == HEADLINE_FILE
            else render(page, f"{name}.j2", values)
        )
    known = [
        f"{machine.id}/{name}"
        for name in [*(each.name for each in machine.experiments), "variants"]
    ]
    blocks = [
        block
        for block in page.subjects
        if isinstance(block, TableBlock) and block.name not in known
    ]
    numbers = [
        *method_numbers(),
        *numbers_of(machine),
        *(number for block in blocks for number in block.numbers),
    ]
    texts |= {f"{FLOATS_FOLDER}/{key}.tex": text for key, text in page.floats.items()}
    titles = (
        f"\\gpureptitle{{{found['label']}}}{{{found['title']}}}\n"
        for found in _TITLED.finditer("\n".join(texts.values()))
    )
    return {
        **texts,
        "numbers.tex": numbers_tex(numbers, machine=machine.id) + "".join(titles),
        NUMBERS_CSV: numbers_csv(numbers),
    }


def _table(
    machine: MachineResults,
    name: str,
    rows: Any,
    *,
    source: str | None = None,
    of_study: bool = False,
    **spec: Any,
) -> list[TableBlock]:
    """A table of the machine, labelled with its id unless it is `of_study`; its source is the CSV
    of its name.
    """
    return table(
        rows,
        name=name if of_study else f"{machine.id}/{name}",
        source=machine.csv_path(name) if source is None else source,
        **spec,
    )


def _section(
    page: Templates, name: str, values: Mapping[str, Any], experiment: ExperimentResults | None
) -> str:
    default = ""
    if experiment:
        values = {**values, "experiment": experiment}
        default = SEARCH_SECTION if experiment.experiment.is_search else DEFAULT_SECTION
    text = render(page, f"sections/{name}{TEMPLATE_SUFFIX}", values, default=default)
    return f"\\begin{{gpureptext}}\n{text}\\end{{gpureptext}}\n"
