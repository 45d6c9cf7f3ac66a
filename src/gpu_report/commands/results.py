"""Commands that turn records and traces into tables, findings and TensorBoard logs."""

import json
from argparse import Namespace
from pathlib import Path

from gpu_report.columns import Table
from gpu_report.commands.places import read_records, read_tables, read_trace_tables_of, record_file
from gpu_report.files import write_text_atomically
from gpu_report.findings.derive import derive_findings as derive
from gpu_report.findings.finding import write_findings
from gpu_report.records import read_record
from gpu_report.study import Experiment
from gpu_report.tables import (
    Today,
    tabulate_category_shares,
    tabulate_consistency,
    tabulate_convergence,
    tabulate_epochs,
    tabulate_losses,
    tabulate_machine,
    tabulate_top_operations,
    tabulate_variants,
)
from gpu_report.tables import tabulate_experiment as experiment_table
from gpu_report.tables.schema import EXPERIMENT, STUDY_TABLES
from gpu_report.tensorboard_logs import write_tensorboard_logs as write_logs
from gpu_report.traces import TraceError, TraceTables, empty_trace_tables, read_trace
from gpu_report.traces import tabulate_trace as trace_tables


def tabulate_trace(arguments: Namespace) -> None:
    """Write the tables of one variant's trace; a variant without a trace gets tables without rows."""
    record = read_record(arguments.record)
    if record.profile is None:
        tables = empty_trace_tables()
    else:
        tables = _tables_of(arguments.trace / record.profile.trace_file, record.variant)
    for name, text in tables.as_csv().items():
        write_text_atomically(arguments.tables / name, text)


def _tables_of(trace_file: Path, variant: str) -> TraceTables:
    try:
        return trace_tables(read_trace(trace_file))
    except TraceError as error:
        raise TraceError(f"{error}; measure the variant again with: gpu-report run {variant}") from error


def tabulate_experiment(arguments: Namespace) -> None:
    """Write the table of one experiment."""
    experiment = Experiment.from_dict(json.loads(arguments.experiment))
    records = read_records(arguments.runs, [variant.slug for variant in experiment.variants])
    frame = experiment_table(experiment, records, today=_today(arguments))
    write_text_atomically(arguments.table, EXPERIMENT.to_csv(frame))


def tabulate_study(arguments: Namespace) -> None:
    """Write the tables that hold every variant of the study."""
    records = read_records(arguments.runs, arguments.variants)
    traces = read_trace_tables_of(arguments.runs, arguments.variants)
    frames = {
        "variants": tabulate_variants(records, today=_today(arguments)),
        "convergence": tabulate_convergence(records),
        "losses": tabulate_losses(records),
        "epochs": tabulate_epochs(records),
        "consistency": tabulate_consistency(records),
        "top_operations": tabulate_top_operations({slug: tables.operations for slug, tables in traces.items()}),
        "category_shares": tabulate_category_shares({slug: tables.categories for slug, tables in traces.items()}),
        "machine": tabulate_machine(records),
    }
    tables: dict[str, Table] = {table.name: table for table in STUDY_TABLES}
    for name, frame in frames.items():
        write_text_atomically(arguments.tables / f"{name}.csv", tables[name].to_csv(frame))


def derive_findings(arguments: Namespace) -> None:
    """Write the findings that follow from the tables."""
    experiments = [Experiment.from_dict(values) for values in json.loads(arguments.experiments)]
    write_findings(derive(read_tables(arguments.results, experiments), experiments), arguments.findings)


def write_tensorboard_logs(arguments: Namespace) -> None:
    """Write the TensorBoard log directory of these variants."""
    records = read_records(arguments.runs, arguments.variants)
    traces = {
        record.variant: record_file(arguments.runs, record.variant).parent / "trace" / record.profile.trace_file
        for record in records
        if record.profile is not None
    }
    write_logs(records, traces, arguments.logs)


def _today(arguments: Namespace) -> Today:
    return Today.from_dict(json.loads(arguments.today))
