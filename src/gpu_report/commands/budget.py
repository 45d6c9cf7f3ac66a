"""A time budget: further processes for the configurations of open claims, into records that have
the first ones.

records -> claims -> open ones -> a process of each side that has fewer, while there is time -> the
same records, longer
"""

import math
from argparse import Namespace
from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from gpu_report.bundles.manifest import TABLES_FOLDER
from gpu_report.commands.comparison import the_first
from gpu_report.commands.measuring import (
    LineForEachRun,
    measure_due_sentinels,
    measure_unprofiled,
    measure_whole,
    outcome,
)
from gpu_report.commands.results import write_trace_tables
from gpu_report.commands.results_folder import ResultsFolder
from gpu_report.measure.hosts import ONE_HOST
from gpu_report.measure.run import OnProgress
from gpu_report.printing.number_format import counted, in_minutes
from gpu_report.printing.terminal import say
from gpu_report.records.batch_sizes import SEARCH_FILE
from gpu_report.records.record import RECORD_FILE, TRACE_FOLDER, Record, read_points
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.machine import boot, require_machine
from gpu_report.study.study import Measurement
from gpu_report.tables.claims import (
    Claim,
    asked_processes,
    further_process_s,
    is_short,
    open_claims,
    seconds_to_complete,
    spent_s,
    wanting,
)
from gpu_report.tables.marks import is_same_code
from gpu_report.tables.processes import other_software, same_threads
from gpu_report.tables.sessions import LONGEST_GAP, sessions_of

Records = dict[str, Record]
"""Those of a study by the names of its variants."""


def measure_further(arguments: Namespace) -> None:
    """Measure further processes of variants that have fewer than the study asks for: with a time
    budget those that an open claim needs, while there is time, else all of them.

    A process joins its record in the session that measured it, by the same code and software.
    Other records stay as they are within a budget, and are measured anew without one.
    """
    results = ResultsFolder.of(arguments.study, experiment=arguments.experiment)
    require_machine(results.resolved.machine)
    study, records = results.study, read_records(results)
    kept = _of_other_sessions_or_code(results, records)
    budget_s = math.inf if study.minutes is None else 60 * study.minutes
    limit_s = budget_s - spent(results, {})
    with machine_to_itself():
        for slug in kept if study.minutes is None else ():
            if is_short(records[slug]):
                line = LineForEachRun(slug)
                records[slug] = measure_whole(results, slug, on_progress=line, hosts=ONE_HOST)
                say(f"{slug}, measured again from the start: {outcome(records[slug])}")
        while waiting := _waiting(results, records, kept, limit_s):
            for slug in waiting:
                if not _is_time_for(records, slug, limit_s):
                    continue
                measure_due_sentinels(results)
                before, line = records[slug], LineForEachRun(slug)
                # Without a budget all at once, so that a model is compiled once.
                count = 1 if study.minutes else asked_processes(before) - len(before.repetitions)
                grown = _grown(before, study.measurement(slug), count=count, on_progress=line)
                if grown is None:
                    kept.add(slug)
                    continue
                records[slug], file = grown, results.record_file(slug)
                RECORD_FILE.write(grown, file)
                # The shares in the tables of its trace are of the timed step.
                if (tables := file.with_name(TABLES_FOLDER)).exists():
                    write_trace_tables(grown, file.with_name(TRACE_FOLDER), tables)
                say(f"{slug}: {outcome(grown)}")
    say(budget_in_words(results, records, kept))


def read_records(results: ResultsFolder) -> Records:
    """The records as they are written."""
    return {
        variant.slug: RECORD_FILE.read(results.record_file(variant.slug))
        for variant in results.study.variants
    }


def _of_other_sessions_or_code(results: ResultsFolder, records: Records) -> set[str]:
    """The variants that were measured in another session, or by another version of the code."""
    points = read_points(results.machine_folder)
    numbers = sessions_of([*records.values(), *results.read_searches()], points).numbers
    newest = max(records.values(), key=lambda record: record.ended)
    goes_on = newest.provenance.boot == boot() and datetime.now(UTC) - newest.ended <= LONGEST_GAP
    now = numbers[newest.provenance.measured_at] if goes_on else None
    return {
        slug
        for slug, record in records.items()
        if numbers[record.provenance.measured_at] != now
        or not is_same_code(record, results.resolved.today)
    }


def _waiting(
    results: ResultsFolder, records: Records, kept: Collection[str], limit_s: float
) -> list[str]:
    """The variants whose next process is measured now; all records may take `limit_s` together."""
    if results.study.minutes is None:
        slugs = [slug for slug, record in records.items() if is_short(record)]
    else:
        counts = {slug: len(record.repetitions) for slug, record in records.items()}
        slugs = wanting(_open_claims(results, records, kept), counts)
    return [slug for slug in slugs if slug not in kept and _is_time_for(records, slug, limit_s)]


def _open_claims(results: ResultsFolder, records: Records, kept: Collection[str]) -> list[Claim]:
    """Those of which no side has to stay with too few processes."""
    points = read_points(results.machine_folder)
    sessions = sessions_of([*records.values(), *results.read_searches()], points)
    found = open_claims(results.study.experiments_with_variants, records, sessions)
    short = {slug for slug in kept if is_short(records[slug])}
    return [claim for claim in found if not claim.sides & short]


def spent(results: ResultsFolder, records: Mapping[str, Record]) -> float:
    """Seconds that count as spent of a budget: those of records and searches, whenever they were
    measured.
    """
    searches = [each for each in results.study.searches if results.search_file(each.slug).exists()]
    return spent_s(
        [
            *records.values(),
            *(SEARCH_FILE.read(results.search_file(each.slug)) for each in searches),
        ]
    )


def _is_time_for(records: Records, slug: str, limit_s: float) -> bool:
    """Whether one more process ends within the budget, as far as can be said."""
    return spent_s(records.values()) + further_process_s(records[slug]) <= limit_s


def _grown(
    record: Record, measurement: Measurement, *, count: int, on_progress: OnProgress
) -> Record | None:
    """The record with further processes, of which one that does not finish decides the status; None
    where other software than its own measures now, or its device is gone.
    """
    further = measure_unprofiled(
        measurement,
        machine=record.machine,
        on_progress=on_progress,
        processes=count,
        after=record,
    )
    changed = [
        *other_software(record, further),
        *([] if same_threads(record, further) else ["a different thread setting"]),
        *([further.reason] if further.status == "skipped" else []),
    ]
    if changed:
        differing = "; ".join(changed)
        kept = len(record.repetitions)
        say(f"{record.variant}: kept at {kept} processes because of a difference: {differing}")
        return None
    here, now = record.provenance, further.provenance
    dirty = now if now.git_dirty else here
    return record.model_copy(
        update={
            "repetitions": [*record.repetitions, *further.repetitions],
            "status": further.status,
            "reason": further.reason or record.reason,
            "out_of_memory": further.out_of_memory,
            "provenance": here.model_copy(
                update={
                    "measuring_s": spent_s([record, further]),
                    "git_dirty": dirty.git_dirty,
                    "changed_files": dirty.changed_files,
                }
            ),
        }
    )


def budget_in_words(results: ResultsFolder, records: Records, kept: Collection[str] = ()) -> str:
    """What was spent, and which comparisons of throughput are open for lack of time, in a line."""
    minutes = results.study.minutes
    said = f"{in_minutes(spent(results, records))} spent" + (
        f" of {minutes:g} minutes" if minutes else ""
    )
    left = [each for each in _open_claims(results, records, kept) if not each.is_significant]
    named = [f"{each.variant} over {each.reference}" for each in left]
    if minutes:
        said += f"; {counted(len(left), 'throughput comparison')} left open for lack of time"
    if left:
        more = in_minutes(seconds_to_complete(left, records))
        said += f": {the_first(named)}; their remaining processes would take about {more}"
    if short := [slug for slug in kept if is_short(records[slug])]:
        said += (
            f"; {the_first(sorted(short))} have too few processes, and come from another session, "
            "software or code version; measure them again with gpu-report run"
        )
    return said
