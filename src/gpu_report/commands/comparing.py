"""Commands that compare two sets of results, bundles or folders, that were measured before: for a
gate, for the report.

records of both sides -> why they cannot be compared -> Comparison -> terminal and files, or table
and findings
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpu_report.bundles.results import records_in, results_at
from gpu_report.bundles.shown_machines import ShownMachine
from gpu_report.bundles.sides import KEY, Sides
from gpu_report.commands.comparison import Comparison, as_json, as_markdown, show
from gpu_report.errors import BundleError, ConfigError, RecordError, TableError
from gpu_report.glossary import TIME_TOLERANCE, Row
from gpu_report.printing.number_format import counted
from gpu_report.printing.terminal import new_console
from gpu_report.records.provenance import code_digest
from gpu_report.records.record import Record, differences
from gpu_report.storage.files import write_text_atomically
from gpu_report.tables.before_after import (
    BEFORE_AFTER,
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
    sides = Sides(before=arguments.before, after=arguments.after)
    with results_at(sides.before) as before_folder, results_at(sides.after) as after_folder:
        before, after = records_in(before_folder), records_in(after_folder)
        differing = mismatches(before, after)
        if differing and not arguments.across:
            raise ConfigError(
                f"the sides differ: {'; '.join(differing)}; use --across to compare them anyway"
            )
        found = _compared(sides, before, after, tolerance=tolerance)
        comparison = replace(
            found,
            notes=[*(f"compared despite a difference: {text}" for text in differing), *found.notes],
            changes=_changes(found.rows, before_folder, after_folder),
        )
    write_comparison(comparison, arguments)
    return comparison.status


def compare_sides(arguments: Namespace) -> None:
    """Write the table of the report's two sides, and beside it what follows from it.

    Raises:
        ConfigError: they are not of the same machine, protocol and configurations, or one of them
            cannot be read.
    """
    from gpu_report.findings.before_after import derive_before_after
    from gpu_report.findings.finding import write_findings

    sides = Sides(before=arguments.before, after=arguments.after)
    before, after = (_records_of(sides, name) for name in sides.by_name)
    _refuse_what_differs(before, after)
    found = _compared(sides, before, after)
    alone = {"before": found.missing, "after": found.new}
    findings = derive_before_after(
        found.rows,
        machine=next(iter(before.values())).machine,
        sides=f"Before: {found.before}. After: {found.after}",
        remarks=[*filter(None, (found.mean, found.resolution))],
        differences=[
            *(
                f"{counted(len(names), 'configuration')} {when} alone"
                for when, names in alone.items()
                if names
            ),
            *found.notes,
        ],
    )
    write_text_atomically(arguments.table, BEFORE_AFTER.rows_to_csv(found.rows))
    write_findings(findings, arguments.table.parent)


def check_sides(sides: Sides, measured: Sequence[ShownMachine]) -> None:
    """Refuse sides that cannot be compared, before anything is measured.

    What is about to be measured is known but for its numbers: the machine, what is asked for and
    the code.

    Raises:
        ConfigError: they are not of the same machine, protocol and configurations, or one of them
            cannot be read.
    """
    by_folder = {machine.results: machine for machine in measured}
    read = {
        name: _records_of(sides, name)
        for name, path in sides.by_name.items()
        if path not in by_folder
    }
    if len(read) == 1:
        (like,) = read.values()
        read = {
            name: read.get(name) or _planned(by_folder[path], like=like)
            for name, path in sides.by_name.items()
        }
    if read:
        _refuse_what_differs(read["before"], read["after"])


def _planned(machine: ShownMachine, *, like: Mapping[str, Record]) -> dict[str, Record]:
    """The records that the machine will have; those that are to be measured have the numbers of
    others.
    """
    stored, slugs = (
        records_in(machine.results),
        [variant.slug for variant in machine.study.variants],
    )
    asked = {slug: machine.study.measurement(slug) for slug in slugs if slug in like}
    measured = {
        slug: like[slug].model_copy(
            update={
                "machine": machine.id,
                "measurement": measurement.as_dict(),
                "provenance": like[slug].provenance.model_copy(
                    update={"code_digest": code_digest()}
                ),
            }
        )
        for slug, measurement in asked.items()
        if slug not in stored or differences(stored[slug].measurement, measurement.as_dict())
    }
    if not {**stored, **measured}:
        raise ConfigError(
            f"{KEY}: the study measures none of the configurations of the other side, such as "
            f"{next(iter(like))}"
        )
    return {**stored, **measured}


def _refuse_what_differs(before: Mapping[str, Record], after: Mapping[str, Record]) -> None:
    if differing := mismatches(before, after):
        raise ConfigError(f"{KEY}: the sides differ: {'; '.join(differing)}")


def _records_of(sides: Sides, name: str) -> dict[str, Record]:
    try:
        with results_at(sides.by_name[name]) as folder:
            return records_in(folder)
    except (BundleError, RecordError) as error:
        raise ConfigError(f"{KEY}.{name}: {error}") from error


def _compared(
    sides: Sides,
    before: Mapping[str, Record],
    after: Mapping[str, Record],
    *,
    tolerance: float = TIME_TOLERANCE,
) -> Comparison:
    """What both sides have, without what changed in their traces."""
    common = [
        record.variant for record in in_reading_order(before.values()) if record.variant in after
    ]
    return Comparison(
        before=_in_words(sides.before, before),
        after=_in_words(sides.after, after),
        how=(
            "both sides are the same records"
            if before == after
            else "measured in two sessions; the intervals do not include differences between "
            "sessions; gpu-report guard measures both sides alternately"
        ),
        rows=tabulate_before_after(
            {name: (side_of(before[name]), side_of(after[name])) for name in common},
            in_turns=False,
            tolerance=tolerance,
        ),
        notes=environment_differences(before, after),
        missing=[name for name in before if name not in after],
        new=[name for name in after if name not in before],
    )


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
