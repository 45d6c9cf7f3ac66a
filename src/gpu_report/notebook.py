"""What the notebooks work with: a machine's results out of a bundle, and rows with numbers as the
report prints them.

bundle + study -> the commands that tabulate, in a temporary folder -> MachineResults, as the report
and the page get it
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from gpu_report.bundles.shown_machines import study_of
from gpu_report.bundles.unpacking import unpack
from gpu_report.commands.document import results_of
from gpu_report.commands.results import derive_findings, tabulate_calibration, tabulate_study
from gpu_report.commands.results_folder import ResolvedStudy, ResultsFolder
from gpu_report.figures import labels
from gpu_report.glossary import Metric
from gpu_report.study.config import read_config
from gpu_report.tables.bundle import rows_of
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.table import metric


def read_bundle(bundle: Path | str, *, study: Path | str) -> MachineResults:
    """The results of a machine that `gpu-report pack` wrote, with its tables, figures and findings;
    leaves no files.

    Args:
        bundle: The file, for instance one of `results/published`.
        study: The study's YAML file, for instance `config/study.yaml`. What the bundle has no
            record of is left out.

    Raises:
        BundleError: the bundle cannot be trusted, or there is none.
        ConfigError: the study cannot be read.
    """
    with TemporaryDirectory() as folder:
        unpacked = unpack(Path(bundle), Path(folder))
        resolved = ResolvedStudy.of(
            unpacked.manifest.machine, study_of(read_config(Path(study)), unpacked.manifest)
        )
        resolved.write(unpacked.folder)
        results = ResultsFolder.of(unpacked.folder / "study.json")
        arguments = Namespace(
            study=unpacked.folder / "study.json",
            experiment="",
            calibration=results.calibration_file,
            tables=results.folder / "tables",
        )
        for write in (tabulate_calibration, tabulate_study, derive_findings):
            write(arguments)
        return replace(results_of(results), folder=str(bundle), bundle=Path(bundle))


def readable(table: pd.DataFrame, columns: Sequence[str | Metric]) -> pd.DataFrame:
    """Rows of `variants`, or of an experiment, by their names in the report, with numbers as the
    report prints them.

    Args:
        table: The rows to show; at least one.
        columns: Keys or columns of the glossary's metrics, such as `step_time`; of any other column
            of numbers what `gpu_report.writing.table.metric` makes of it.

    Raises:
        ReportError: the glossary has no such metric.
    """
    rows = rows_of(table)
    named = labels.full_names(labels.with_labels(labels.with_titles(table, table)))
    metrics = [column if isinstance(column, Metric) else metric(column) for column in columns]
    shown = {
        column.header: [
            each.plain() if each.is_measured else "–" for each in column.quantities(rows)
        ]
        for column in metrics
    }
    return pd.DataFrame(shown, index=pd.Index(named, name="configuration"))
