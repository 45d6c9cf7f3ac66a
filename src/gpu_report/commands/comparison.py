"""What `compare` and `guard` find, their exit status, how a person, a pull request and a program
read it, and `compare` itself, of two bundles or folders that were measured before.

rows of VERDICTS, what else differs, where the time went -> Comparison -> terminal, Markdown, JSON
"""

import json
import re
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.text import Text

from gpu_report.bundles.unpacking import records_in, results_at
from gpu_report.errors import ConfigError, GpuReportError
from gpu_report.glossary import Row
from gpu_report.printing.number_format import counted, share, signed
from gpu_report.printing.terminal import clean, new_console
from gpu_report.records.record import Record
from gpu_report.storage.files import write_text_atomically
from gpu_report.tables.bundle import grouped
from gpu_report.tables.reproduction import REPRODUCED, TOO_CLOSE
from gpu_report.tables.variants import in_reading_order
from gpu_report.tables.verdicts import (
    NO_CHANGE,
    NO_VERDICT,
    POWER,
    REGRESSIONS,
    SLOWER,
    STATUS,
    TIME,
    environment_differences,
    in_words,
    milliseconds,
    mismatches,
    side_of,
    tabulate_verdicts,
)
from gpu_report.traces.analysis import CATEGORY, KERNEL, OPERATION, STEP, change_rows
from gpu_report.traces.card import fitted, text_table
from gpu_report.traces.tables import TraceTables, read_trace_tables

SCHEMA_VERSION: Final = 2
MOST_CHARACTERS: Final = 65_000
"""A comment on a pull request holds 65,536."""
_NAMED_IN_HEADLINE: Final = 5
_SHOWN: Final = {STEP: 1, CATEGORY: 5, OPERATION: 5, KERNEL: 5}
_LEAST_SHOWN: Final = 0.01
"""Share of the step's growth below which a change is left out."""
_ESCAPED: Final = str.maketrans(
    {each: f"\\{each}" for each in "\\`*_~|[]#"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", "$": "&dollar;"}
)
_LIVE_COLON: Final = re.compile(r":(?=//|[\w+\\-]+:)")
"""A colon that GitHub would interpret: in an address, as a link; around a name, as an emoji."""
_OF_TRACES: Final = (
    "per profiled step (with a custom training loop per training), in one profiled run of each side"
)
_HEADER_OF_TRACES: Final = ("", "on", "before", "after", "change", "calls before", "calls after")
_STYLES: Final = {
    **dict.fromkeys((NO_CHANGE, REPRODUCED), ""),
    **dict.fromkeys((NO_VERDICT, TOO_CLOSE), "yellow"),
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`before` and `after` say what each side is, `how` how they were measured, `repeat` is the
    command line.

    `notes` are a sentence each. `changes` has the rows of TRACE_CHANGES of each configuration that
    is slower. `sides` are what a reader calls both sides, `header` the columns of `sections`.
    """

    sides: ClassVar[Sequence[str]] = ("before", "after")
    header: ClassVar[Sequence[str]] = ("configuration", "before", "after", "change", "verdict")

    before: str
    after: str
    how: str
    rows: Sequence[Row]
    repeat: str = ""
    notes: Sequence[str] = ()
    missing: Sequence[str] = ()
    new: Sequence[str] = ()
    changes: Mapping[str, Sequence[Row]] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """The exit status: 0 without a regression, 1 with one, 2 where a change has no verdict, a
        side is missing or nothing was measured.
        """
        verdicts = {row["verdict"] for row in self.rows}
        if verdicts & REGRESSIONS:
            return 1
        was_measured = any(row["compared"] != STATUS for row in self.rows)
        return 2 if NO_VERDICT in verdicts or self.missing or not was_measured else 0

    @property
    def headline(self) -> str:
        """The verdict on all rows in a line."""
        worse = _names(self.rows, REGRESSIONS, say="verdict")
        if worse:
            return f"regression in {counted(len(worse), 'configuration')}: {the_first(worse)}"
        unclear = _names(self.rows, {NO_VERDICT}, say="compared")
        if unclear or self.missing:
            return (
                "no verdict on "
                f"{the_first([*unclear, *(f'{name} (only before)' for name in self.missing)])}"
            )
        return "no verdict: nothing was measured" if self.status else "no regression"

    def sections(self) -> Iterator[tuple[str, list[list[str]], list[str]]]:
        """For each thing compared its title, its rows and the reasons of their verdicts.

        Of all but times only what changed, or has no verdict.
        """
        for what in dict.fromkeys(row["compared"] for row in self.rows):
            of_it = [row for row in self.rows if row["compared"] == what]
            shown = of_it if what == TIME else [row for row in of_it if row["verdict"] != NO_CHANGE]
            unchanged = len(of_it) - len(shown)
            title = what + (
                f" ({NO_CHANGE} in {counted(unchanged, 'configuration')})" if unchanged else ""
            )
            cells = [
                [row["configuration"], *in_words(row).values(), row["verdict"]] for row in shown
            ]
            yield title, cells, reasons_of(shown)

    @property
    def endings(self) -> list[str]:
        """Sentences behind the tables, what could have been seen first."""
        times = [row for row in self.rows if row["compared"] == TIME]
        seen = [row["detectable"] for row in times if row["detectable"] > 0]
        found = []
        if seen:
            least, most = (share(each).plain() for each in (min(seen), max(seen)))
            range_of = f"{least} to {most}, depending on the configuration,"
            found.append(
                f"a slowdown of {least if least == most else range_of} is found with a probability "
                f"of {share(POWER).plain()}"
            )
        return [
            *found,
            *([f"only before: {the_first(self.missing)}"] if self.missing else []),
            *([f"only after: {the_first(self.new)}"] if self.new else []),
            *self.notes,
        ]


def reasons_of(
    rows: Iterable[Row], listed: Callable[[Sequence[str]], str] = ", ".join
) -> list[str]:
    """The reasons of verdicts, a line each with the rows that have it, as `listed` writes them."""
    reasons = grouped(
        [row for row in rows if row["why"]], lambda row: f"{row['verdict']}: {row['why']}"
    )
    return [
        f"{why}: {listed([row['configuration'] for row in each])}" for why, each in reasons.items()
    ]


def tolerance_of(arguments: Namespace) -> float:
    """That of times, as a share.

    Raises:
        ConfigError: it is none between 0 and 1.
    """
    if not 0 < arguments.tolerance < 100:
        raise ConfigError(
            f"--tolerance: it is {arguments.tolerance:g}; expected percent above 0 and "
            "below 100, for instance 3"
        )
    return float(arguments.tolerance) / 100


def write_comparison(comparison: Comparison, arguments: Namespace) -> None:
    """Write the files that are asked for, and print it, which may fail where nobody reads on."""
    for file, text_of in ((arguments.json, as_json), (arguments.markdown, as_markdown)):
        if file is not None:
            write_text_atomically(file, text_of(comparison))
    show(comparison, new_console(unwrapped_when_piped=True))


def show(comparison: Comparison, console: Console) -> None:
    """Print tables, where the time went, what else differs, and the verdict last."""
    width = max(map(len, comparison.sides))
    for side, words in zip(comparison.sides, (comparison.before, comparison.after), strict=True):
        console.print(f"{side:{width}}  {words}", soft_wrap=True)
    console.print(comparison.how, soft_wrap=True)
    for title, rows, reasons in comparison.sections():
        console.print()
        console.print(Text(title, style="bold"))
        if rows:
            cells: list[list[Text | str]] = [
                [Text(name, overflow="fold"), *numbers, Text(verdict, _STYLES.get(verdict, "bold"))]
                for name, *numbers, verdict in rows
            ]
            console.print(text_table(*comparison.header, rows=cells))
        for reason in reasons:
            console.print(reason, soft_wrap=True)
    for name, rows in _where(comparison):
        console.print()
        console.print(Text(f"where {name} spends more time, {_OF_TRACES}", style="bold"))
        of_traces: list[list[Text | str]] = [[fitted(first), *others] for first, *others in rows]
        console.print(text_table(*_HEADER_OF_TRACES, rows=of_traces))
    console.print()
    for line in comparison.endings:
        console.print(line, soft_wrap=True)
    console.print(Text(comparison.headline, style="bold"), soft_wrap=True)


def as_markdown(comparison: Comparison) -> str:
    """For a comment on a pull request, cut at a line where it would be too long for one."""
    lines = [
        f"### {_plain(comparison.headline)}",
        "",
        f"{comparison.sides[0]}: {_plain(comparison.before)}  ",
        f"{comparison.sides[1]}: {_plain(comparison.after)}  ",
        _plain(comparison.how),
    ]
    for title, rows, reasons in comparison.sections():
        lines += ["", f"**{_plain(title)}**", *_markdown_table(comparison.header, rows)]
        lines += ["", *(f"- {_plain(reason)}" for reason in reasons)] if reasons else []
    for name, rows in _where(comparison):
        lines += ["", f"**where {_plain(name)} spends more time, {_OF_TRACES}**"]
        lines += _markdown_table(_HEADER_OF_TRACES, rows)
    lines += ["", *(f"- {_plain(line)}" for line in comparison.endings)]
    if comparison.repeat:
        lines += ["", "To repeat:", "```", comparison.repeat.replace("`", "'"), "```"]
    text = "\n".join(map(clean, lines)) + "\n"
    if len(text) <= MOST_CHARACTERS:
        return text
    ending = f"\n\n(cut at {MOST_CHARACTERS:,} characters; --json writes everything)\n"
    return text[: MOST_CHARACTERS - len(ending)].rpartition("\n")[0] + ending


def as_json(comparison: Comparison) -> str:
    """Every number with all its digits; one that was not measured is null."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "status": comparison.status,
        "headline": comparison.headline,
        "before": comparison.before,
        "after": comparison.after,
        "how": comparison.how,
        "rows": comparison.rows,
        "missing": comparison.missing,
        "new": comparison.new,
        "notes": comparison.notes,
        "changes": comparison.changes,
    }
    # What is no UTF-8, as in a name of a file, is escaped like all that is not ASCII.
    plain = to_jsonable_python(document, inf_nan_mode="null")
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def _names(rows: Sequence[Row], verdicts: Collection[str], *, say: str) -> list[str]:
    """The configurations with one of the verdicts, and in parentheses what that column says of
    them.
    """
    found = [row for row in rows if row["verdict"] in verdicts]
    return [
        f"{name} ({', '.join(row[say] for row in of_it)})"
        for name, of_it in grouped(found, lambda row: row["configuration"]).items()
    ]


def the_first(names: Sequence[str]) -> str:
    """The first few of these names, and how many further ones there are."""
    further = len(names) - _NAMED_IN_HEADLINE
    return ", ".join(names[:_NAMED_IN_HEADLINE]) + (f" and {further} more" if further > 0 else "")


def _where(comparison: Comparison) -> Iterator[tuple[str, list[list[str]]]]:
    """Of each configuration that is slower: what grew most in each level of its traces."""
    for name, rows in comparison.changes.items():
        cells = []
        least_ms = _LEAST_SHOWN * max(
            [0.0, *(row["change_ms"] or 0.0 for row in rows if row["level"] == STEP)]
        )
        for level, most in _SHOWN.items():
            grown = [
                row
                for row in rows
                if row["level"] == level and (row["change_ms"] or 0.0) > least_ms
            ]
            cells += [
                [
                    f"{level} {row['name']}",
                    row["device"],
                    *(milliseconds(row[side]).plain() for side in ("a_ms", "b_ms")),
                    signed(milliseconds(row["change_ms"])).plain(),
                    *(f"{row[side]:.4g}" for side in ("a_calls", "b_calls")),
                ]
                for row in grown[:most]
            ]
        if cells:
            yield name, cells


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    return [
        "",
        f"| {' | '.join(header)} |",
        f"|{'---|' * len(header)}",
        *(f"| {' | '.join(_plain(cell) for cell in row)} |" for row in rows),
    ]


def _plain(text: str) -> str:
    """Text that Markdown takes as it is, and that mentions nobody."""
    return _LIVE_COLON.sub("&colon;", " ".join(text.split()).translate(_ESCAPED))


def compare(arguments: Namespace) -> int:
    """Compare two bundles, or folders of results, and return the exit status of `Comparison`.

    Raises:
        ConfigError: they are not of the same machine, protocol and configurations, and `--across`
            is not given; or the tolerance is no share.
        BundleError: one of them cannot be read.
    """
    tolerance = tolerance_of(arguments)
    with results_at(arguments.before) as in_before, results_at(arguments.after) as in_after:
        before, after = records_in(in_before), records_in(in_after)
        differing = mismatches(before, after)
        if differing and not arguments.across:
            advice = (
                "use --across to compare them anyway"
                if before.keys() & after.keys()
                else "nothing can be compared; gpu-report machines --html FILE shows published "
                "machines side by side"
            )
            raise ConfigError(f"the sides differ: {'; '.join(differing)}; {advice}")
        rows = tabulate_verdicts(
            {
                record.variant: (side_of(record), side_of(after[record.variant]))
                for record in in_reading_order(before.values())
                if record.variant in after
            },
            in_turns=False,
            tolerance=tolerance,
        )
        changes, notes = changes_where_slower(
            rows,
            lambda name: [
                read_trace_tables(folder / "runs" / name / "trace_tables")
                for folder in (in_before, in_after)
            ],
        )
        comparison = Comparison(
            before=bundle_in_words(arguments.before, before),
            after=bundle_in_words(arguments.after, after),
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
                *notes,
            ],
            missing=[name for name in before if name not in after],
            new=[name for name in after if name not in before],
            changes=changes,
        )
    write_comparison(comparison, arguments)
    return comparison.status


def bundle_in_words(path: Path, records: Mapping[str, Record]) -> str:
    """What a bundle or a folder is, when it was measured, and how many configurations it has."""
    dates = sorted({record.provenance.measured_at[:10] for record in records.values()})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{path}, measured {when}, {counted(len(records), 'configuration')}"


def changes_where_slower(
    rows: Sequence[Row], tables_of: Callable[[str], Iterable[TraceTables]]
) -> tuple[dict[str, Sequence[Row]], list[str]]:
    """What changed in the traces of the configurations that are slower, and in a sentence each
    those whose traces show nothing, or no longer step; `tables_of` gives a configuration's tables
    of both sides.
    """
    found: dict[str, Sequence[Row]] = {}
    notes = []
    for name in (row["configuration"] for row in rows if row["verdict"] == SLOWER):
        try:
            changed = change_rows(*tables_of(name))
        except (GpuReportError, OSError) as error:
            notes.append(f"{name}: its traces show nothing: {error}")
            continue
        steps = [row for row in changed if row["level"] == STEP and row["change_ms"] is not None]
        if steps and steps[0]["change_ms"] <= 0:
            before, after = (milliseconds(steps[0][side]).plain() for side in ("a_ms", "b_ms"))
            notes.append(
                f"{name}: its traces do not show what takes longer: a profiled step took {before} "
                f"before and {after} after"
            )
        elif changed:
            found[name] = changed
        else:
            notes.append(
                f"{name}: no trace shows what takes longer: a profiled run failed, or its steps "
                "took too long"
            )
    return found, notes
