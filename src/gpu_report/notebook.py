"""What the notebooks work with: the results of this machine, or of a bundle, and rows with numbers
as the report prints them. What was not measured is shown as such.

results of the last report, or a bundle -> MachineResults, as the report and the page get it
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from gpu_report.answers.summary import answer_word, answered
from gpu_report.bundles.shown_machines import BUNDLE_SUFFIX, PUBLISHED
from gpu_report.commands.document import results_of
from gpu_report.commands.published import read_bundle as read_bundle
from gpu_report.commands.results_folder import ResultsFolder
from gpu_report.errors import GpuReportError
from gpu_report.figures import labels
from gpu_report.figures.declaration import FigureSpec
from gpu_report.glossary import Metric
from gpu_report.printing.terminal import say
from gpu_report.study.config import DEFAULT_CONFIGFILE
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.experiments import EXPERIMENT
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.table import metric


def read_results(
    project: Path | str = "..", *, workload: str = "", otherwise: str
) -> MachineResults:
    """The results in a checkout that were tabulated last, as by `make report` or `make html`; or,
    where there are none, those of a published machine.

    A folder whose results cannot be read is passed over, and a printed line says why: while its
    tables are made again, they are not whole.

    Args:
        project: The checkout; the folder above by default, which is right for its notebooks.
        workload: Only results in which this workload was trained; any unless given.
        otherwise: The id of the published machine, for instance `h200-140gb-x1-xeon-16c`.

    Raises:
        GpuReportError: nothing was tabulated, and the published results cannot be read.
    """
    tabulated = Path(project).glob("results/machines/*/findings.json")
    for file in sorted(tabulated, key=lambda file: file.stat().st_mtime, reverse=True):
        try:
            machine = results_of(ResultsFolder.tabulated(file.parent))
        except GpuReportError as error:
            say(f"passed over {file.parent}: {error}")
            continue
        if not workload or any(each.as_variant().workload == workload for each in machine.records):
            return machine
    return read_bundle(
        Path(project, PUBLISHED, f"{otherwise}{BUNDLE_SUFFIX}"),
        study=Path(project, DEFAULT_CONFIGFILE),
    )


def rows_of_workload(machine: MachineResults, experiment: str, workload: str) -> pd.DataFrame:
    """The rows of an experiment that are of one workload; none where it was not measured."""
    rows = machine.tables.experiments.get(experiment, EXPERIMENT.from_rows([]))
    return rows[rows["workload"] == workload]


def figure(machine: MachineResults, name: str) -> FigureSpec | str:
    """A figure of the report, which Jupyter draws, or a sentence that there is none."""
    figures = {each.name: each for each in machine.figures}
    return figures.get(name, f"{name}: not measured on {machine.name}")


def answers(machine: MachineResults, experiment: str) -> str:
    """Each question about an experiment that was answered, with the answer and its reason."""
    found = [
        "\n  ".join(filter(None, (each.question, answer_word(each), each.statement)))
        for each in answered(machine.findings, experiment, [])
    ]
    return "\n\n".join(found) or f"{experiment}: no answers on {machine.name}"


def readable(table: pd.DataFrame, columns: Sequence[str | Metric]) -> pd.DataFrame:
    """Rows of `variants`, or of an experiment, by their names in the report, with numbers as the
    report prints them.

    Args:
        table: The rows to show; without any, one row says that nothing was measured.
        columns: Keys or columns of the glossary's metrics, such as `step_time`; of any other column
            of numbers what `gpu_report.writing.table.metric` makes of it.

    Raises:
        ReportError: the glossary has no such metric.
    """
    metrics = [column if isinstance(column, Metric) else metric(column) for column in columns]
    if table.empty:
        headers = [column.header for column in metrics]
        return pd.DataFrame("–", index=["not measured on this machine"], columns=headers)
    rows = rows_of(table)
    named = labels.full_names(labels.with_labels(labels.with_titles(table, table)))
    shown = {
        column.header: [
            each.plain() if each.is_measured else "–" for each in column.quantities(rows)
        ]
        for column in metrics
    }
    return pd.DataFrame(shown, index=pd.Index(named, name="configuration"))
