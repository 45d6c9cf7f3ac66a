"""How fast a configuration trained from session to session, and at which sessions that changed.

records of many bundles -> Session each -> series (what may be compared) -> segments between change
points -> rows

A session is one measurement of a configuration, whichever bundles hold it. Change points are
between sessions, since these differ by more than the processes of one. A new series begins where
protocol or workload settings change.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records.provenance import MEASURES_ALIKE
from gpu_report.records.record import Record
from gpu_report.storage.columns import Table, flag, number, text, whole
from gpu_report.tables.change_points import Changes, find_changes
from gpu_report.tables.column_kinds import VARIANT, summary_of
from gpu_report.tables.marks import INVALIDATES_TIMES, SEPARATOR, marks_of_numbers
from gpu_report.tables.pairs import SOFTWARE
from gpu_report.tables.processes import protocol_version, values_of
from gpu_report.tables.statistics import NOT_MEASURED, Summary, ratio, summarise

HISTORY: Final = Table(
    name="history",
    meaning="One session of one configuration on one machine, by date, with the change points of "
    "its series.",
    columns=(
        text("machine", "Id of the machine."),
        VARIANT,
        text("workload_title", "What is trained, in words."),
        text("measured_at", "When the session was measured, UTC."),
        text("status", "ok, oom, failed or skipped."),
        text("marks", f"Quality flags of the session, separated by {SEPARATOR!r}."),
        *summary_of("throughput_per_s"),
        flag(
            "is_used",
            "Whether change points are looked for with it: measured, and no quality flag "
            "invalidates times.",
        ),
        whole(
            "series",
            "1",
            "Number of the series, from 1. Its protocol, threads and workload settings are the "
            "same.",
        ),
        text("verdict", "Whether the throughput of the series changed."),
        whole("sessions_needed", "1", "Sessions that a series needs to show a change point."),
        whole(
            "segment",
            "1",
            "Number of the segment in its series, from 1; a change point begins a segment.",
        ),
        flag(
            "is_change_point", "Whether the throughput changed from the session before to this one."
        ),
        number(
            "change_p",
            "1",
            "p-value of the change point, corrected for the configurations; elsewhere missing.",
        ),
        number(
            "change_ratio",
            "1",
            "Throughput of the segment that begins over the one before, means over sessions.",
        ),
        number(
            "change_ratio_low",
            "1",
            "Lower end of its 95 % interval; of 3 sessions the least, of fewer missing.",
        ),
        number(
            "change_ratio_high",
            "1",
            "Upper end of its 95 % interval; of 3 sessions the greatest, of fewer missing.",
        ),
        whole(
            "change_ratio_count",
            "1",
            "Sessions of the shorter segment; 0 where there is no change point.",
        ),
        text(
            "differences",
            f"What changed since the last session that is used, separated by {SEPARATOR!r}.",
        ),
    ),
)
_NOTED: Final = (*SOFTWARE.values(), "workload code", "measuring code")
"""Facts that may change within a series; any other begins a series anew."""
_WITHOUT_VALUES: Final = ("workload code", "measuring code")
"""Facts that are digests, which say nothing to a reader."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """One measurement of a configuration without its steps, so that hundreds of bundles fit into
    memory.

    `facts` are what else may explain a change, by name.
    """

    machine: str
    variant: str
    workload_title: str
    measured_at: str
    status: str
    throughput: Summary
    marks: tuple[str, ...]
    facts: Mapping[str, str]

    @property
    def moment(self) -> datetime:
        """When it was measured."""
        return datetime.fromisoformat(self.measured_at)

    @property
    def is_used(self) -> bool:
        """Whether its throughput supports a conclusion."""
        return math.isfinite(self.throughput.value) and INVALIDATES_TIMES.keys().isdisjoint(
            self.marks
        )

    def differences(self, before: "Session") -> dict[str, str]:
        """The facts that are others than before, each in words."""
        names = [
            name
            for name in {**before.facts, **self.facts}
            if before.facts.get(name) != self.facts.get(name)
        ]
        return {
            name: f"{name} changed"
            if name in _WITHOUT_VALUES
            else f"{name} {before.facts.get(name) or 'none'} to {self.facts.get(name) or 'none'}"
            for name in names
        }


def session_of(record: Record) -> Session:
    """What a history keeps of a record."""
    throughput = summarise(values_of(record, "throughput_per_s"))
    workload, provenance = record.measurement["workload"], record.provenance
    return Session(
        machine=record.machine,
        variant=record.variant,
        workload_title=record.workload.title if record.workload else record.as_variant().workload,
        measured_at=provenance.measured_at,
        status=record.status,
        throughput=throughput,
        marks=tuple(marks_of_numbers(record, throughput)),
        facts={
            "protocol version": str(protocol_version(record)),
            "workload class": workload["class_path"],
            **{f"workload {name}": str(value) for name, value in workload["settings"].items()},
            **{name: str(record.environment.get(key) or "") for key, name in SOFTWARE.items()},
            "threads": str(record.environment.get("torch_threads") or ""),
            "workload code": provenance.workload_digest,
            "measuring code": ""
            if provenance.code_digest in MEASURES_ALIKE
            else provenance.code_digest,
        },
    )


def tabulate_history(sessions: Iterable[Session]) -> list[Row]:
    """The rows of HISTORY by machine, configuration and date; a measurement that several bundles
    hold counts once.
    """
    once = {(each.machine, each.variant, each.moment): each for each in sessions}
    in_order = [once[key] for key in sorted(once)]
    rows: list[Row] = []
    for _, of_machine in groupby(in_order, key=lambda each: each.machine):
        series = [
            part
            for _, of_variant in groupby(of_machine, key=lambda each: each.variant)
            for part in _series(of_variant)
        ]
        found = find_changes(
            [[each.throughput.value for each, _ in part if each.is_used] for _, part in series]
        )
        for (position, part), changes in zip(series, found, strict=True):
            rows += _rows(position, part, changes)
    return rows


_Series = list[tuple[Session, str]]
"""Sessions that may be compared, each with what is different since the last one that is used."""


def _series(sessions: Iterable[Session]) -> list[tuple[int, _Series]]:
    """Those of one configuration, each with its number."""
    parts: list[_Series] = []
    last: Session | None = None
    for each in sessions:
        differences = each.differences(last) if last else {}
        begins = not parts or not differences.keys() <= {*_NOTED}
        if begins:
            parts.append([])
        parts[-1].append((each, SEPARATOR.join(differences.values())))
        if begins or each.is_used:
            last = each
    return list(enumerate(parts, start=1))


def _rows(position: int, series: _Series, changes: Changes) -> Iterator[Row]:
    used = [each.throughput.value for each, _ in series if each.is_used]
    edges = [0, *changes.places, len(used)]
    segments = [dict(enumerate(used[begin:end])) for begin, end in pairwise(edges)]
    seen, segment = 0, 1
    for each, differences in series:
        is_change = each.is_used and seen in changes.places
        segment += is_change
        change = (
            ratio(segments[segment - 1], segments[segment - 2], paired=False)
            if is_change
            else NOT_MEASURED
        )
        yield {
            "machine": each.machine,
            "variant": each.variant,
            "workload_title": each.workload_title,
            "measured_at": each.measured_at,
            "status": each.status,
            "marks": SEPARATOR.join(each.marks),
            **each.throughput.as_columns("throughput_per_s"),
            "is_used": each.is_used,
            "series": position,
            "verdict": changes.verdict,
            "sessions_needed": changes.sessions_needed,
            "segment": segment,
            "is_change_point": is_change,
            "change_p": changes.places[seen] if is_change else math.nan,
            **change.as_columns("change_ratio"),
            "differences": differences,
        }
        seen += each.is_used
