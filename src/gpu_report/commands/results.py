"""Commands that turn records and traces into tables, findings and TensorBoard logs, and the
report's text into its PDF; each imports only what it needs.
"""

from argparse import Namespace
from dataclasses import replace
from itertools import chain
from pathlib import Path

from gpu_report.answers.finding import write_findings
from gpu_report.commands.results_folder import ResultsFolder
from gpu_report.records.calibration import CALIBRATION_FILE
from gpu_report.records.record import (
    RECORD_FILE,
    RICH_TRACE_FOLDER,
    TRACE_FOLDER,
    Record,
    read_points,
)
from gpu_report.storage.files import write_text_atomically
from gpu_report.tables import MADE_BY, Measured
from gpu_report.tables.ceilings import MADE_BY_CALIBRATION
from gpu_report.tables.experiments import EXPERIMENT, tabulate_experiment
from gpu_report.tables.traces import STEP_SHARES
from gpu_report.tables.variants import COMPARISON, VARIANTS, tabulate_comparison
from gpu_report.writing import latex


def tabulate_trace(arguments: Namespace) -> None:
    """Write the tables of one variant's trace; a variant without a trace gets tables
    without rows.
    """
    write_trace_tables(RECORD_FILE.read(arguments.record), arguments.trace, arguments.tables)


def write_trace_tables(record: Record, trace: Path, tables: Path) -> None:
    """The same of a record and the folder of its light trace."""
    from gpu_report.traces.tables import as_csv, tabulate_trace_of

    rows = tabulate_trace_of(record, trace, trace.with_name(RICH_TRACE_FOLDER))
    for name, text in as_csv(rows).items():
        write_text_atomically(tables / name, text)


def tabulate_calibration(arguments: Namespace) -> None:
    """Write the tables that the calibration alone decides."""
    calibration = CALIBRATION_FILE.read(arguments.calibration)
    for table, rows_of in MADE_BY_CALIBRATION.items():
        text = table.rows_to_csv(rows_of(calibration))
        write_text_atomically(arguments.tables / f"{table.name}.csv", text)


def tabulate_study(arguments: Namespace) -> None:
    """Write the tables of every experiment, and those that hold every variant of the study."""
    results = ResultsFolder.of(arguments.study, experiment=arguments.experiment)
    records = results.read_records()
    measured = Measured(
        experiments=results.study.experiments,
        records=records,
        calibration=CALIBRATION_FILE.read(results.calibration_file),
        traces=results.read_trace_tables(),
        today=results.resolved.today.or_newest(records),
        prices=results.study.prices,
        searches=results.read_searches(),
        points=read_points(results.machine_folder),
    )
    tables = results.folder / "tables"
    results.resolved.write(tables)
    # Those that the machine has no variants of have tables without rows.
    for experiment in measured.experiments:
        rows = tabulate_experiment(
            experiment,
            measured.records,
            measured.traces,
            today=measured.today,
            prices=measured.prices,
            sessions=measured.sessions,
        )
        write_text_atomically(tables / f"{experiment.name}.csv", EXPERIMENT.rows_to_csv(rows))
    for table, rows_of in MADE_BY.items():
        write_text_atomically(tables / f"{table.name}.csv", table.rows_to_csv(rows_of(measured)))


def compare_machines(arguments: Namespace) -> None:
    """Write the table of the variants that two of the machines measured, and beside it what follows
    from that.
    """
    from gpu_report.answers.machines import derive_comparison

    machines = [ResultsFolder.of(path) for path in arguments.studies]
    todays = [each.resolved.today for each in machines]
    # All machines are asked for a workload with the same settings.
    workloads = {name: workload for today in todays for name, workload in today.workloads.items()}
    digests = {path: digest for today in todays for path, digest in today.workload_digests.items()}
    records = {each.machine_folder.name: each.read_records() for each in machines}
    today = replace(todays[0], workloads=workloads, workload_digests=digests)
    busy_shares = {}
    for each in machines:
        steps = STEP_SHARES.read_csv(each.folder / "tables" / f"{STEP_SHARES.name}.csv")
        shares = zip(steps["variant"], steps["device_busy_share"], strict=True)
        busy_shares[each.machine_folder.name] = dict(shares)
    newest = today.or_newest(chain(*records.values()))
    rows = tabulate_comparison(records, today=newest, busy_shares=busy_shares)
    write_text_atomically(arguments.comparison, COMPARISON.rows_to_csv(rows))
    findings = derive_comparison(COMPARISON.read_csv(arguments.comparison))
    write_findings(findings, arguments.comparison.parent)


def derive_findings(arguments: Namespace) -> None:
    """Write the findings that follow from the study's tables, beside these."""
    from gpu_report.answers.questions import derive_findings as derive

    results = ResultsFolder.of(arguments.study, experiment=arguments.experiment)
    write_findings(derive(results.read_tables(), results.study.experiments), results.folder)


def compile_report(arguments: Namespace) -> None:
    """Compile the report; it is dated by its newest measurement, so that the same records give the
    same bytes.
    """
    results = ResultsFolder.of(arguments.study, experiment=arguments.experiment)
    dated = latex.newest_measurement(
        VARIANTS.read_rows(results.folder / f"tables/{VARIANTS.name}.csv")
    )
    latex.compile_report(arguments.folder, dated=dated, pdf=arguments.pdf)


def write_tensorboard_logs(arguments: Namespace) -> None:
    """Write the TensorBoard log directory of the study's variants."""
    from gpu_report.commands.tensorboard_logs import write_tensorboard_logs as write_logs

    results = ResultsFolder.of(arguments.study)
    records = results.read_records()
    traces: dict[str, dict[str, Path]] = {}
    for record in records:
        if record.profile is not None:
            run = results.record_file(record.variant).parent
            light, rich = record.profile.trace_file, record.profile.rich_trace_file
            traces[record.variant] = {light: run / TRACE_FOLDER / light} | (
                {f"rich_{rich}": run / RICH_TRACE_FOLDER / rich} if rich else {}
            )
    write_logs(records, traces, arguments.logs)
