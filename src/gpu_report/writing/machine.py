"""All that one machine's records gave, and what the text states of it: facts, the three lines that
say what came out, and what the numbers do not say.
"""

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from gpu_report.answers.finding import Finding, Verdict
from gpu_report.answers.scope import experiment_scope
from gpu_report.answers.summary import decisions
from gpu_report.glossary import METRICS, SHOWN, Row, device_words
from gpu_report.printing.number_format import count, counted, in_minutes
from gpu_report.records.provenance import hardware_name
from gpu_report.records.record import Record
from gpu_report.study.study import PROTOCOL_VERSION, Experiment
from gpu_report.tables.bundle import Tables, grouped, rows_of
from gpu_report.tables.claims import (
    EARLY,
    FIRST_PROCESSES,
    is_short,
    open_claims,
    seconds_to_complete,
)
from gpu_report.tables.marks import FLAG_SIZE, MEANINGS, UNKNOWN_SPREAD
from gpu_report.tables.sessions import Sessions, number_sessions, spreads_of
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL, Spread
from gpu_report.words import (
    date_words,
    described,
    flags_of,
    listed,
    why_no_numbers,
)
from gpu_report.writing.cards import chains, in_one_line, limit_cards, scaled
from gpu_report.writing.layout import placed
from gpu_report.writing.tex import Tex, breakable, escape

if TYPE_CHECKING:
    from gpu_report.figures.declaration import FigureSpec


_ENDED: Final = {"oom": "ran out of memory", "failed": "failed", "skipped": "could not run"}


def headline(
    tables: Tables, chained: Sequence[Row], findings: Sequence[Finding], decided: Sequence[Row]
) -> tuple[str, str, str]:
    """What was measured, how much a GPU gains, and what follows; plain text without line ends.

    Args:
        tables: Of one machine.
        chained: The rows of `chains` for it.
        findings: Those of the machine.
        decided: The rows of its decision table, see `decisions`.
    """
    variants = rows_of(tables.variants)
    measured = [row for row in variants if row["status"] == "ok"]
    lost = [
        f"{number} {'more ' * bool(measured)}{ended}"
        for status, ended in _ENDED.items()
        if (number := sum(row["status"] == status for row in variants))
    ]
    devices = list(dict.fromkeys(device_words(row["device"]) for row in measured))
    dates = [str(row["measured_at"])[:10] for row in measured]
    when = f", the last on {max(dates)}" if dates else ""
    where = f" on {' and '.join(devices)}" if devices else ""
    without = f"; {listed(lost)}" if lost else ""
    counts = {
        verdict: sum(finding.verdict == verdict for finding in findings)
        for verdict in get_args(Verdict)
    }
    verdicts = (
        ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number) or "none"
    )
    gains = "; ".join(in_one_line(row) for row in chained)
    advice = f" First advice: {_first_advice(decided)}." if decided else ""
    return (
        f"Measured {counted(len(measured), 'configuration')}{where}{when}{without}.",
        f"{gains or 'Nothing was trained'}.{_over_one_gpu(tables)}",
        f"Findings: {verdicts}.{advice}",
    )


def _first_advice(decided: Sequence[Row]) -> str:
    """The first of the advice, with its gain where one was measured."""
    first = decided[0]
    gain = METRICS["speedup"].show(first["gain"], low=first["gain_low"], high=first["gain_high"])
    return " ".join(first["action"].split()) + f"; gain {gain.plain()}" * gain.is_measured


def _over_one_gpu(tables: Tables) -> str:
    """The weak scaling of each model on several GPUs, as a further sentence; empty without any."""
    fastest = [
        f"{row['model']} {METRICS['base_speedup'].quantity(row).plain()} on {row['devices']} GPUs "
        f"({METRICS['weak_efficiency'].quantity(row).plain(interval=False)} of {row['devices']}×, "
        f"{row['code']}, {SHOWN['throughput'].quantity(row).plain(interval=False)})"
        for row in scaled(tables)
    ]
    return f" Speedup over one GPU in weak scaling: {'; '.join(fastest)}." if fastest else ""


_LONGEST_REASON: Final = 300
_NAMED_OPEN: Final = 3
_OF_PROCESSES: Final = ("single", "high variance", "unsettled", "host jitter")
"""Marks of how processes and their epochs vary; the others are about the machine and its
software.
"""


def limits(rows: Sequence[Row], spreads: Sequence[Spread] = ()) -> Mapping[str, list[str]]:
    """The sentences about the limits that these rows have, by what limits them; those with names
    are TeX. The `spreads` are those between the machine's sessions.
    """
    measured = [row for row in rows if row["status"] == "ok"]
    projected = [row for row in measured if row["epoch_time_projected"]]
    return {
        "machine": [
            *_versions(measured),
            *_marked(measured, set(MEANINGS) - {*_OF_PROCESSES, "projected"}),
            *_unwatched(measured),
        ],
        "processes": [*_processes(measured), *_marked(measured, _OF_PROCESSES)],
        "sessions": [
            "The configurations were measured in different sessions, and the spread between "
            f"sessions is not known, {_ONLY_LARGE} between two. A session ends when the machine "
            "changes, reboots, or measures nothing for more than an hour."
        ]
        if not spreads and len({row["session"] for row in measured}) > 1
        else [],
        "projected": [
            f"In {_of(projected, measured)}, epochs have a fixed number of steps, whatever the "
            "size of the training set: the time of a full epoch is projected, and the quality is "
            "that after these steps."
        ]
        if projected
        else [],
        "profiler": [
            _name(row)
            + escape(" was timed but not profiled: ")
            + breakable(reason.rstrip("."))
            + "."
            for row in measured
            if (reason := textwrap.shorten(str(row["reason"]), _LONGEST_REASON, placeholder=" …"))
        ],
        "missing": [
            _name(row) + escape(" has no numbers: ") + breakable(why_no_numbers(row)) + "."
            for row in rows
            if row["status"] != "ok"
        ],
    }


def _versions(rows: Sequence[Row]) -> Iterator[str]:
    for version in sorted({int(row["protocol_version"]) for row in rows} - {PROTOCOL_VERSION}):
        measured = [row for row in rows if row["protocol_version"] == version]
        yield (
            f"Measured with protocol version {version} (current: {PROTOCOL_VERSION}): "
            f"{_of(measured, rows)}."
            if len(measured) < len(rows)
            else f"Measured with protocol version {version} (current: {PROTOCOL_VERSION})."
        )


def _processes(rows: Sequence[Row]) -> Iterator[str]:
    counts = sorted({int(row["processes"]) for row in rows})
    if not counts:
        yield "No configuration was measured."
    elif counts == [1]:
        yield "Each number comes from one process; its spread is unknown."
    else:
        number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        fewer = (
            f" Fewer than {FEWEST_FOR_INTERVAL} processes give no 95 % interval, and no "
            "difference is claimed."
            if counts[0] < FEWEST_FOR_INTERVAL
            else ""
        )
        yield f"Each number is the mean of {number} processes.{fewer}"


def _marked(rows: Sequence[Row], marks: Collection[str]) -> Iterator[str]:
    for mark in MEANINGS:
        marked = [row for row in rows if mark in marks and mark in flags_of(row)]
        if marked and not (mark == "single" and len(marked) == len(rows)):
            yield f"In {_of(marked, rows)}, {_MARK_CLAUSES[mark]}."


def _unwatched(rows: Sequence[Row]) -> Iterator[str]:
    on_accelerator = [row for row in rows if row["device"] != "cpu"]
    unwatched = [row for row in on_accelerator if not SHOWN["sm_clock"].is_in([row])]
    if unwatched:
        yield (
            f"In {_of(unwatched, on_accelerator)} on a GPU, throttling and other programs on it "
            "were not watched; either would lengthen the times unnoticed."
        )


def _of(some: Sequence[Row], rows: Sequence[Row]) -> str:
    return (
        "every configuration"
        if len(some) == len(rows)
        else f"{len(some)} of {len(rows)} configurations"
    )


def _name(row: Row) -> Tex:
    return Tex(r"\gpurepname{") + breakable(str(row["variant"])) + Tex("}")


_ONLY_LARGE: Final = f"so that only factors of more than {count(FLAG_SIZE).plain()} count"
_MARK_CLAUSES: Final = {
    "single": "there was one process, and the spread is unknown",
    "high variance": "run-to-run variation makes the interval wide, which hides small differences",
    "unsettled": f"the warm-up of a process did not settle, {_ONLY_LARGE}",
    "host jitter": "host jitter changes the time of whole epochs",
    "background load": f"background load lengthened the times, {_ONLY_LARGE}",
    "CPU steal": f"CPU steal lengthened the times, {_ONLY_LARGE}",
    "heavy load": "others used so much of the CPU that times on it support no conclusion",
    "throttled": f"heat or hardware protection lowered the clocks, {_ONLY_LARGE}",
    "power capped": "the power limit lowered the clocks, as is usual under full load",
    "clock drift": "the clocks differ between processes",
    "shared device": f"other programs used the GPU, {_ONLY_LARGE}",
    "shared node": "Slurm may have run other jobs on the node, whose load is marked where it was "
    "seen",
    "diverged": "a loss was not finite: the training failed, whatever its speed",
    "earlier code": "an earlier version of the measuring code was used than in others",
    "other protocol": "another version of the protocol was used, and nothing is compared with it",
    "other class": "the code of your class has changed since, or since the baseline was measured; "
    "two versions are not compared, and gpu-report run --missing measures those that are old again",
    "other settings": "the workload had other settings than the study asks for, and comparisons "
    "support no conclusion",
    "other software": "PyTorch, Python, NumPy, CUDA, cuDNN or the driver has a different version "
    "than in what it is compared with",
    "other threads": "the thread setting differs from that of what it is compared with, and the "
    "times support no conclusion",
    "other session": "the session differs from that of what it is compared with; the interval "
    "includes the spread between sessions",
    UNKNOWN_SPREAD: "the session differs from that of what it is compared with, and the "
    f"spread between sessions is not known, {_ONLY_LARGE}",
}
"""What each mark but `projected` means for the numbers."""


_MEMORY_KINDS: Final[Mapping[str, str]] = {
    "allocator": "device memory that PyTorch allocated to tensors, not what its allocator reserved",
    "resident set": "resident main memory of the process",
}


@dataclass(frozen=True, kw_only=True)
class MachineResults:
    """What one machine measured; templates call it `machine`. What it is asked for is made when
    asked.
    """

    id: str
    experiments: Sequence[Experiment]
    """Those that the machine has variants of, in the order of the configuration."""
    tables: Tables
    findings: Sequence[Finding]
    figures: "Sequence[FigureSpec]"
    """Each is `figures/<id>/<name>.pdf` in the report's folder."""
    records: Sequence[Record]
    """Of all variants."""
    folder: str
    """Where its results are, seen from the project: what is printed as the source of a number."""
    searching: Sequence[Experiment] = ()
    """Those that searched batch sizes on it."""
    bundle: Path | None = None
    """The one that brought them; None where they were measured here."""

    @cached_property
    def variants(self) -> Sequence[Row]:
        return rows_of(self.tables.variants)

    @cached_property
    def measured(self) -> list[Row]:
        """The variants that have numbers."""
        return [row for row in self.variants if row["status"] == "ok"]

    def rows_of(self, experiment: str) -> Sequence[Row]:
        """The table of an experiment; empty where the machine has no variants of it."""
        return self.tables.rows_of_experiments.get(experiment, ())

    @property
    def has_accelerator(self) -> bool:
        """Whether anything was measured on another device than the CPU."""
        return any(row["device"] != "cpu" for row in self.measured)

    @property
    def shares_gpus(self) -> bool:
        """Whether several GPUs shared a training."""
        return any(row["devices"] > 1 and row["device"] != "cpu" for row in self.measured)

    @property
    def is_calibrated(self) -> bool:
        """Whether its measured peaks are known."""
        return not self.tables.peaks.empty

    @property
    def has_own_loops(self) -> bool:
        """Whether a workload brought a training loop of its own."""
        return any(row["begins_anew"] for row in self.variants)

    @property
    def name(self) -> str:
        """Its hardware as readers name it; its id where no record has it."""
        return hardware_name(self.records) or self.id

    @cached_property
    def dates(self) -> tuple[str, str]:
        """First and last day of measuring."""
        days = sorted(record.provenance.measured_at[:10] for record in self.records)
        return date_words(days[0]), date_words(days[-1])

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """The machine's facts by name, as in its table."""
        return {str(row["name"]): str(row["value"]) for row in rows_of(self.tables.machine)}

    @property
    def facts_side_by_side(self) -> list[Row]:
        """The facts about hardware, software and measurement, two in a row: the second half of them
        as `other_name` and `other_value`.
        """
        rows = [row for row in rows_of(self.tables.machine) if row["topic"] != "workload"]
        half = (len(rows) + 1) // 2
        return [
            {**left, "other_name": right["name"], "other_value": right["value"]}
            for left, right in zip_longest(
                rows[:half], rows[half:], fillvalue={"name": "", "value": ""}
            )
        ]

    @cached_property
    def decisions(self) -> list[Row]:
        """The rows of its decision table."""
        return decisions(
            self.findings,
            {each.name: experiment_scope(self.tables, each).about for each in self.experiments},
            workloads={row["variant"]: row["workload"] for row in self.variants},
            has_gpu=self.has_accelerator,
        )

    @cached_property
    def chains(self) -> list[Row]:
        """A row for each of its models: the eager baseline and the fastest, with factors."""
        return chains(self.tables)

    @cached_property
    def limit_cards(self) -> list[Row]:
        """What limits each of its models, eager and at its fastest."""
        return limit_cards(self.tables, self.chains)

    @cached_property
    def headline(self) -> tuple[str, str, str]:
        return headline(self.tables, self.chains, self.findings, self.decisions)

    @cached_property
    def limits(self) -> Mapping[str, list[str]]:
        """What its numbers do not say, by what limits them."""
        found = limits(self.variants, spreads_of(rows_of(self.tables.sentinels)))
        return {**found, "processes": [*found["processes"], *self.left_open]}

    @cached_property
    def left_open(self) -> list[str]:
        """What a time budget left out, first what it left open; empty where all processes ran."""
        measured = [record for record in self.records if record.status == "ok"]
        fewer = [*filter(is_short, measured)]
        if not fewer:
            return []
        records = {record.variant: record for record in self.records}
        spreads = spreads_of(rows_of(self.tables.sentinels))
        sessions = Sessions(numbers=number_sessions(self.records), spreads=spreads)
        claims = [
            claim
            for claim in open_claims(self.experiments, records, sessions)
            if not claim.is_significant
        ]
        rows = {row["variant"]: row for row in self.measured}
        pairs = [
            f"{described(rows[claim.variant])} over {described(rows[claim.reference])}"
            for claim in claims[:_NAMED_OPEN]
        ]
        still_open = [
            f"The time budget left {counted(len(claims), 'throughput comparison')} open; their "
            "remaining processes would take about "
            f"{in_minutes(seconds_to_complete(claims, records))}.",
            f"Closest to a decision: {'; '.join(pairs)}.",
        ]
        return [
            *(
                still_open
                if claims
                else ["Further processes would decide no more throughput comparisons."]
            ),
            f"{len(fewer)} of {len(measured)} configurations trained in fewer processes than the "
            f"study requests. Each first trained in {FIRST_PROCESSES}; further processes went only "
            f"to comparisons with an adjusted p of {EARLY} or more that further processes could "
            "still decide.",
        ]

    @property
    def flagged(self) -> Mapping[str, int]:
        """How many of its variants have each quality flag."""
        return {mark: sum(mark in flags_of(row) for row in self.measured) for mark in MEANINGS}

    @property
    def doubts(self) -> list[str]:
        """The limits in the few sentences that the summary has room for: how many variants have no
        numbers, or a mark, and how many comparisons are between two sessions.
        """
        compared = [
            flags_of(row)
            for rows in self.tables.rows_of_experiments.values()
            for row in rows
            if not row["is_baseline"] and row["speedup"] > 0
        ]
        of_two_sessions = {
            "other session": "their intervals include the spread between sessions",
            UNKNOWN_SPREAD: f"the spread between sessions is not known, {_ONLY_LARGE}",
        }
        # A projected epoch time is no doubt about a throughput.
        marked = ", ".join(
            f"{mark} ({number})"
            for mark, number in self.flagged.items()
            if number and mark != "projected"
        )
        return [
            *_versions(self.measured),
            *_processes(self.measured),
            *self.left_open[:1],
            *(
                [
                    f"Quality flags, by number of configurations: {marked}; the notes under the "
                    "tables name them."
                ]
                if marked
                else []
            ),
            *(
                f"Of {counted(len(compared), 'speedup')} over a baseline, {apart} compare two "
                f"sessions; {ending}."
                for mark, ending in of_two_sessions.items()
                if (apart := sum(mark in flags for flags in compared))
            ),
            *_unwatched(self.measured),
        ]

    @property
    def processes(self) -> str:
        """How many processes measured a variant: a number, or two with a range between."""
        return range_words(int(row["processes"]) for row in self.measured)

    @property
    def protocols(self) -> list[Mapping[str, Any]]:
        """By which each record was measured."""
        return [record.measurement["protocol"] for record in self.records]

    @property
    def profile_steps(self) -> str:
        """How many steps a profiled run recorded of each rank, or was asked for where no trace is
        left.

        That of a custom training loop has one, a whole training.
        """
        own_loops = set(self.tables.own_loops["variant"])
        recorded = [
            row["steps"]
            for row in rows_of(self.tables.step_shares)
            if row["variant"] not in own_loops
        ]
        return range_words(
            recorded or (int(protocol["profile_steps"]) for protocol in self.protocols)
        )

    @property
    def timing(self) -> str:
        """How much each process timed at least; empty where the protocol did not ask for it."""
        epochs = [each["timed_epochs"] for each in self.protocols if each.get("timed_epochs")]
        seconds = [each["timed_seconds"] for each in self.protocols if each.get("timed_seconds")]
        if not (epochs and seconds):
            return ""
        least, most = min(seconds), max(seconds)
        return (
            f"{range_words(epochs)} epochs and "
            f"{least:g}{'' if least == most else f' to {most:g}'} s"
        )

    @property
    def memory_kinds(self) -> str:
        """What kind of memory was measured on which devices, in words."""
        kinds = grouped(self.measured, lambda row: str(row["memory_kind"]))
        return "; ".join(
            f"{_MEMORY_KINDS.get(kind, kind)} "
            f"({', '.join(dict.fromkeys(device_words(row['device']) for row in rows))})"
            for kind, rows in kinds.items()
        )

    @cached_property
    def profiled(self) -> set[str]:
        """The variants whose steps a trace shows."""
        return set(self.tables.step_shares["variant"])

    @property
    def watched(self) -> list[Row]:
        """The variants whose accelerator's driver reported its power."""
        return [row for row in self.measured if SHOWN["power"].is_in([row])]

    def csv_path(self, table: str) -> str:
        """Where the CSV of a table is, seen from the project."""
        return f"{self.folder}/tables/{table}.csv"

    @property
    def findings_path(self) -> str:
        """With the question, threshold and evidence of each."""
        return f"{self.folder}/findings.csv"

    def log_of(self, variant: str) -> str:
        """Where the traceback of a variant that failed is; empty where a bundle brought its
        record.
        """
        folder = self.folder.partition("/experiments/")[0]
        return "" if self.bundle else f"{folder}/logs/measure_variant/{variant}.log"

    @cached_property
    def drawn(self) -> "list[FigureSpec]":
        """Its figures as a document has them, in the folder of the machine."""
        return placed(self.figures, folder=self.id, csv_path=self.csv_path)

    def pictures(self, *kinds: str, first: bool = False) -> "list[FigureSpec]":
        """The figures of these kinds that there is data for.

        `first` leaves of each kind those of the first experiment that has one: those of others
        would repeat them.
        """
        found = [figure for figure in self.drawn if figure.kind in kinds]
        subjects = {figure.kind: figure.subject for figure in reversed(found)}
        return [figure for figure in found if not first or figure.subject == subjects[figure.kind]]


def range_words(numbers: Iterable[int]) -> str:
    """The number that all are, or the least and the greatest."""
    found = [count(number).plain() for number in sorted(set(numbers)) or [0]]
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"
