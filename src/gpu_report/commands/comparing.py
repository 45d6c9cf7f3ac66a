"""`gpu-report compare`: compare two sets of results, bundles or folders, that were measured before.

records of both sides -> why they cannot be compared -> Comparison -> terminal and files
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_report.bundles.results import records_in, results_at
from gpu_report.commands.comparison import (
    Comparison,
    require_two_files,
    tolerance_of,
    write_comparison,
)
from gpu_report.errors import ConfigError, TableError
from gpu_report.glossary import Row
from gpu_report.printing.number_format import counted
from gpu_report.records.record import Record
from gpu_report.tables.variants import in_reading_order
from gpu_report.tables.verdicts import (
    SLOWER,
    environment_differences,
    mismatches,
    side_of,
    tabulate_verdicts,
)
from gpu_report.traces.analysis import change_rows
from gpu_report.traces.tables import read_trace_tables


def compare(arguments: Namespace) -> int:
    """Compare two bundles, or folders of results, and return the exit status of `Comparison`.

    Raises:
        ConfigError: they are not of the same machine, protocol and configurations, and `--across`
            is not given; or the tolerance is no share.
        BundleError: one of them cannot be read.
    """
    tolerance = tolerance_of(arguments)
    require_two_files(arguments)
    with (
        results_at(arguments.before) as before_folder,
        results_at(arguments.after) as after_folder,
    ):
        before, after = records_in(before_folder), records_in(after_folder)
        differing = mismatches(before, after)
        if differing and not arguments.across:
            raise ConfigError(
                f"the sides differ: {'; '.join(differing)}; use --across to compare them anyway"
            )
        rows = tabulate_verdicts(
            {
                record.variant: (side_of(record), side_of(after[record.variant]))
                for record in in_reading_order(before.values())
                if record.variant in after
            },
            in_turns=False,
            tolerance=tolerance,
        )
        comparison = Comparison(
            before=_in_words(arguments.before, before),
            after=_in_words(arguments.after, after),
            how=(
                "both sides are the same records"
                if before == after
                else "measured in two sessions; the intervals do not include differences between "
                "sessions; gpu-report guard measures both sides alternately"
            ),
            rows=rows,
            notes=[
                *(f"compared despite a difference: {text}" for text in differing),
                *environment_differences(before, after),
            ],
            missing=[name for name in before if name not in after],
            new=[name for name in after if name not in before],
            changes=_changes(rows, before_folder, after_folder),
        )
    write_comparison(comparison, arguments)
    return comparison.status


def _in_words(path: Path, records: Mapping[str, Record]) -> str:
    dates = sorted({record.provenance.measured_at[:10] for record in records.values()})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{path}, measured {when}, {counted(len(records), 'configuration')}"


def _changes(rows: Sequence[Row], before: Path, after: Path) -> dict[str, Sequence[Row]]:
    """What changed in the traces of the configurations that are slower, as far as both sides have
    their tables.
    """
    found: dict[str, Sequence[Row]] = {}
    for name in (row["configuration"] for row in rows if row["verdict"] == SLOWER):
        folders = [folder / "runs" / name / "trace_tables" for folder in (before, after)]
        try:
            tables = [read_trace_tables(folder) for folder in folders]
        except (
            TableError
        ):  # a folder of results whose traces were not tabulated, or by another version
            continue
        if changed := change_rows(*tables):
            found[name] = changed
    return found
