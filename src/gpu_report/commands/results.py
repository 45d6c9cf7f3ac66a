"""Commands that turn records and traces into tables, findings and TensorBoard logs; each imports only what it needs."""

import json
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpu_report.calibration import CALIBRATION_FILE
from gpu_report.commands.places import measured_variants, read_records, read_tables, read_trace_tables_of, record_file
from gpu_report.files import write_text_atomically
from gpu_report.study import Experiment, Prices
from gpu_report.tables import MADE_BY, Measured
from gpu_report.tables.ceilings import PEAKS, TRANSFERS, tabulate_peaks, tabulate_transfers
from gpu_report.tables.comparison import COMPARISON, tabulate_comparison
from gpu_report.tables.experiments import EXPERIMENT, tabulate_experiment
from gpu_report.tables.marks import Today

if TYPE_CHECKING:
    from gpu_report.findings.finding import Finding


def tabulate_trace(arguments: Namespace) -> None:
    """Write the tables of one variant's trace; a variant without a trace gets tables without rows."""
    from gpu_report.bundles.manifest import RICH_TRACE_FOLDER
    from gpu_report.records import read_record
    from gpu_report.traces.record_traces import tabulate_trace_of
    from gpu_report.traces.tables import as_csv

    rich_folder = arguments.trace.with_name(RICH_TRACE_FOLDER)
    rows = tabulate_trace_of(read_record(arguments.record), arguments.trace, rich_folder)
    for name, text in as_csv(rows).items():
        write_text_atomically(arguments.tables / name, text)


def tabulate_calibration(arguments: Namespace) -> None:
    """Write the tables that the calibration alone decides."""
    calibration = CALIBRATION_FILE.read(arguments.calibration)
    for table, rows in ((PEAKS, tabulate_peaks(calibration)), (TRANSFERS, tabulate_transfers(calibration))):
        write_text_atomically(arguments.tables / f"{table.name}.csv", table.rows_to_csv(rows))


def tabulate_study(arguments: Namespace) -> None:
    """Write the tables of every experiment, and those that hold every variant of the study."""
    measured = Measured(
        experiments=[Experiment.from_dict(values) for values in json.loads(arguments.experiments)],
        records=read_records(arguments.runs, arguments.variants),
        calibration=CALIBRATION_FILE.read(arguments.calibration),
        traces=read_trace_tables_of(arguments.runs, arguments.variants),
        today=_today(arguments),
        prices=_prices(arguments),
    )
    for experiment in measured.experiments:
        rows = tabulate_experiment(
            experiment, measured.records, measured.traces, today=measured.today, prices=measured.prices
        )
        write_text_atomically(arguments.tables / f"{experiment.name}.csv", EXPERIMENT.rows_to_csv(rows))
    for table, rows_of in MADE_BY.items():
        if table not in (PEAKS, TRANSFERS):
            write_text_atomically(arguments.tables / f"{table.name}.csv", table.rows_to_csv(rows_of(measured)))


def compare_machines(arguments: Namespace) -> None:
    """Write the table of the variants that two of the machines measured; one machine alone has nothing to compare."""
    if len(arguments.machines) == 1:
        write_text_atomically(arguments.comparison, COMPARISON.rows_to_csv([]))
        return
    records = {folder.name: read_records(folder / "runs", measured_variants(folder)) for folder in arguments.machines}
    rows = tabulate_comparison(records, today=_today(arguments))
    write_text_atomically(arguments.comparison, COMPARISON.rows_to_csv(rows))


def derive_findings(arguments: Namespace) -> None:
    """Write the findings that follow from the tables."""
    from gpu_report.findings.derive import derive_findings as derive

    experiments = [Experiment.from_dict(values) for values in json.loads(arguments.experiments)]
    _write_findings(derive(read_tables(arguments.results, experiments), experiments), arguments)


def derive_comparison(arguments: Namespace) -> None:
    """Write the findings that follow from the comparison of machines."""
    if not COMPARISON.read_rows(arguments.comparison):
        _write_findings([], arguments)
        return
    from gpu_report.findings.machines import derive_comparison as derive_from

    _write_findings(derive_from(COMPARISON.read_csv(arguments.comparison)), arguments)


def _write_findings(findings: "Sequence[Finding]", arguments: Namespace) -> None:
    from gpu_report.findings.finding import write_findings, write_findings_table

    write_findings(findings, arguments.findings)
    write_findings_table(findings, arguments.evidence)


def write_tensorboard_logs(arguments: Namespace) -> None:
    """Write the TensorBoard log directory of these variants."""
    from gpu_report.tensorboard_logs import write_tensorboard_logs as write_logs

    records = read_records(arguments.runs, arguments.variants)
    traces = {
        record.variant: record_file(arguments.runs, record.variant).parent / "trace" / record.profile.trace_file
        for record in records
        if record.profile is not None
    }
    write_logs(records, traces, arguments.logs)


def _today(arguments: Namespace) -> Today:
    return Today.from_dict(json.loads(arguments.today))


def _prices(arguments: Namespace) -> Prices:
    return Prices(**json.loads(arguments.prices))
