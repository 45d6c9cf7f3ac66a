"""`gpu-report compare`: compare two sets of results, bundles or folders, that were measured before.

records of both sides -> why they cannot be compared -> Comparison -> terminal and files
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_report.bundles.results import records_in, results_at
from gpu_report.commands.comparison import Comparison, as_json, as_markdown, show
from gpu_report.errors import ConfigError, TableError
from gpu_report.glossary import Row
from gpu_report.printing.number_format import counted
from gpu_report.printing.terminal import new_console
from gpu_report.records.record import Record
from gpu_report.storage.files import write_text_atomically
from gpu_report.tables.before_after import (
    SLOWER,
    environment_differences,
    mismatches,
    side_of,
    tabulate_before_after,
)
from gpu_report.tables.variants import in_reading_order
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
        rows = tabulate_before_after(
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


def tolerance_of(arguments: Namespace) -> float:
    """That of times, as a share.

    Raises:
        ConfigError: it is none between 0 and 1.
    """
    if not 0 < arguments.tolerance < 100:
        raise ConfigError(
            f"--tolerance: it is {arguments.tolerance:g}; expected percent between 0 and 100, for "
            "instance 3"
        )
    return float(arguments.tolerance) / 100


def require_two_files(arguments: Namespace) -> None:
    """Refuse to write JSON and Markdown into one file.

    Raises:
        ConfigError: they are one.
    """
    if (
        None not in (arguments.json, arguments.markdown)
        and arguments.json.resolve() == arguments.markdown.resolve()
    ):
        raise ConfigError(f"--markdown: it is {arguments.markdown}, as --json is; use another file")


def write_comparison(comparison: Comparison, arguments: Namespace) -> None:
    """Write the files that are asked for, and print it, which may fail where nobody reads on."""
    for file, text_of in ((arguments.json, as_json), (arguments.markdown, as_markdown)):
        if file is not None:
            write_text_atomically(file, text_of(comparison))
    show(comparison, new_console(unwrapped_when_piped=True))


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
