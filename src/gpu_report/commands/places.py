"""Where everything lies inside one machine's folder of results, written down once for the commands that share it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_report.records import Record, read_record
from gpu_report.study import Experiment
from gpu_report.tables.bundle import Tables

if TYPE_CHECKING:
    from gpu_report.traces.tables import TraceTables


def record_file(runs: Path, slug: str) -> Path:
    """The record of a variant, inside the folder of all variants."""
    return runs / slug / "record.json"


def read_records(runs: Path, slugs: Sequence[str]) -> list[Record]:
    """The records of these variants, in this order."""
    return [read_record(record_file(runs, slug)) for slug in slugs]


def measured_variants(results: Path) -> list[str]:
    """Names of the study's variants on a machine, from its table of them."""
    from gpu_report.tables.variants import VARIANTS

    return list(VARIANTS.read_csv(results / "tables" / "variants.csv")["variant"])


def read_trace_tables_of(runs: Path, slugs: Sequence[str]) -> "dict[str, TraceTables]":
    """The trace tables of these variants by name."""
    from gpu_report.traces.tables import read_trace_tables

    return {slug: read_trace_tables(runs / slug / "trace_tables") for slug in slugs}


def read_tables(results: Path, experiments: Sequence[Experiment]) -> Tables:
    """Every table of the study, from one machine's results."""
    from gpu_report.tables import STUDY_TABLES
    from gpu_report.tables.experiments import EXPERIMENT

    folder = results / "tables"
    return Tables(
        **{table.name: table.read_csv(folder / f"{table.name}.csv") for table in STUDY_TABLES},
        experiments={each.name: EXPERIMENT.read_csv(folder / f"{each.name}.csv") for each in experiments},
    )
