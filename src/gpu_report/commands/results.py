"""Commands that turn records and traces into tables, findings and TensorBoard logs; each imports only what it needs."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_report.calibration import read_calibration
from gpu_report.columns import Table
from gpu_report.commands.results_folder import ResultsFolder
from gpu_report.files import write_text_atomically
from gpu_report.tables import (
    Today,
    tabulate_comparison,
    tabulate_consistency,
    tabulate_convergence,
    tabulate_crossovers,
    tabulate_efficiency,
    tabulate_epochs,
    tabulate_experiment,
    tabulate_losses,
    tabulate_machine,
    tabulate_own_loops,
    tabulate_peaks,
    tabulate_sources,
    tabulate_telemetry,
    tabulate_traces,
    tabulate_transfers,
    tabulate_variants,
)
from gpu_report.tables.processes import brings_loop
from gpu_report.tables.schema import COMPARISON, EXPERIMENT, STUDY_TABLES

if TYPE_CHECKING:
    import pandas as pd

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
    calibration = read_calibration(arguments.calibration)
    frames = {"peaks": tabulate_peaks(calibration), "transfers": tabulate_transfers(calibration)}
    _write_tables(frames, arguments.tables)


def tabulate_study(arguments: Namespace) -> None:
    """Write the tables of every experiment, and those that hold every variant of the study."""
    results = ResultsFolder.of(arguments.study, experiment=arguments.experiment)
    today, prices, tables = results.resolved.today, results.study.prices, results.folder / "tables"
    records, traces = results.read_records(), results.read_trace_tables()
    # Those that the machine has no variants of have tables without rows.
    for experiment in results.study.experiments:
        frame = tabulate_experiment(experiment, records, traces, today=today, prices=prices)
        write_text_atomically(tables / f"{experiment.name}.csv", EXPERIMENT.to_csv(frame))
    calibration = read_calibration(results.calibration_file)
    frames = {
        "variants": tabulate_variants(records, today=today, prices=prices),
        "convergence": tabulate_convergence(records),
        "losses": tabulate_losses(records),
        "epochs": tabulate_epochs(records),
        "consistency": tabulate_consistency(records),
        "efficiency": tabulate_efficiency(records, calibration),
        "own_loops": tabulate_own_loops(records, calibration, traces),
        "crossovers": tabulate_crossovers(results.study.experiments, records),
        "telemetry": tabulate_telemetry(records),
        "machine": tabulate_machine(records),
        "sources": tabulate_sources(records, today=today),
        **tabulate_traces(traces, loops={record.variant for record in records if brings_loop(record)}),
    }
    _write_tables(frames, tables)


def compare_machines(arguments: Namespace) -> None:
    """Write the table of the variants that two of the machines measured; one machine alone has nothing to compare."""
    if len(arguments.studies) == 1:
        write_text_atomically(arguments.comparison, COMPARISON.rows_to_csv([]))
        return
    machines = [ResultsFolder.of(path) for path in arguments.studies]
    frame = tabulate_comparison(
        {each.machine_folder.name: each.read_records() for each in machines},
        today=_today_of_all([each.resolved.today for each in machines]),
    )
    write_text_atomically(arguments.comparison, COMPARISON.to_csv(frame))


def _today_of_all(each: Sequence[Today]) -> Today:
    """For every variant of any machine; all of them are asked for a workload with the same settings."""
    workloads = {name: workload for today in each for name, workload in today.workloads.items()}
    digests = {path: digest for today in each for path, digest in today.workload_digests.items()}
    return replace(each[0], workloads=workloads, workload_digests=digests)


def _write_tables(frames: "Mapping[str, pd.DataFrame]", folder: Path) -> None:
    tables: dict[str, Table] = {table.name: table for table in STUDY_TABLES}
    for name, frame in frames.items():
        write_text_atomically(folder / f"{name}.csv", tables[name].to_csv(frame))


def derive_findings(arguments: Namespace) -> None:
    """Write the findings that follow from the tables."""
    from gpu_report.findings.derive import derive_findings as derive

    results = ResultsFolder.of(arguments.study, experiment=arguments.experiment)
    _write_findings(derive(results.read_tables(), results.study.experiments_with_variants), results.folder)


def derive_comparison(arguments: Namespace) -> None:
    """Write the findings that follow from the comparison of machines, beside it."""
    folder = arguments.comparison.parent
    if not COMPARISON.read_rows(arguments.comparison):
        _write_findings([], folder)
        return
    from gpu_report.findings.machines import derive_comparison as derive_from

    _write_findings(derive_from(COMPARISON.read_csv(arguments.comparison)), folder)


def _write_findings(findings: "Sequence[Finding]", folder: Path) -> None:
    from gpu_report.findings.finding import write_findings, write_findings_table

    write_findings(findings, folder / "findings.json")
    write_findings_table(findings, folder / "findings.csv")


def write_tensorboard_logs(arguments: Namespace) -> None:
    """Write the TensorBoard log directory of the study's variants."""
    from gpu_report.tensorboard_logs import write_tensorboard_logs as write_logs

    results = ResultsFolder.of(arguments.study)
    records = results.read_records()
    traces = {
        record.variant: results.record_file(record.variant).parent / "trace" / record.profile.trace_file
        for record in records
        if record.profile is not None
    }
    write_logs(records, traces, arguments.logs)
