"""A time budget: further processes where a claim is still open, and what a study takes."""

import math
import tempfile
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from gpu_report.bundles.manifest import TABLES_FOLDER
from gpu_report.commands.measuring import LineForEachRun, outcome
from gpu_report.commands.results import write_trace_tables
from gpu_report.commands.results_folder import ResultsFolder
from gpu_report.commands.watching import shown_to_watchers
from gpu_report.measure.run import OnProgress
from gpu_report.measure.variant_run import measure_variant
from gpu_report.printing.number_format import in_minutes
from gpu_report.printing.terminal import say
from gpu_report.records.batch_sizes import SearchRecord
from gpu_report.records.record import RECORD_FILE, TRACE_FOLDER, Record
from gpu_report.storage.files import take_own_temporary_folder
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.machine import require_machine
from gpu_report.study.study import Measurement, Study
from gpu_report.tables.claims import (
    asked_processes,
    further_process_s,
    open_claims,
    seconds_to_complete,
    spent_s,
    wanting,
)
from gpu_report.tables.marks import is_same_code
from gpu_report.tables.processes import other_software
from gpu_report.words import listed

_NAMED: Final = 5


def measure_further(arguments: Namespace) -> None:
    """Measure further processes of variants that have fewer than the study asks for: with a time
    budget those that an open claim needs, while there is time, else all of them.

    What the study's records took counts as spent, whenever that was. A record stays as it is where
    other code or software would measure now.
    """
    results = ResultsFolder.of(arguments.study)
    require_machine(results.resolved.machine)
    study, searches = results.study, results.read_searches()
    records = {
        variant.slug: RECORD_FILE.read(results.record_file(variant.slug))
        for variant in study.variants
    }
    today = results.resolved.today
    kept = {slug for slug, record in records.items() if not is_same_code(record, today)}
    with machine_to_itself(), shown_to_watchers(results.machine_folder, host=0) as shown:
        take_own_temporary_folder()
        while waiting := [slug for slug in _waiting(study, records, searches) if slug not in kept]:
            for slug in waiting:
                if not _is_time_for(records[slug], study, [*records.values(), *searches]):
                    continue
                before, line = records[slug], shown(slug, LineForEachRun(slug))
                # Without a budget all at once, so that a model is compiled once.
                count = 1 if study.minutes else asked_processes(before) - len(before.repetitions)
                records[slug] = _with_further(
                    before, study.measurement(slug), count=count, on_progress=line
                )
                if records[slug] is before:
                    kept.add(slug)
                    continue
                _write(records[slug], results.record_file(slug))
                say(f"{slug}: {outcome(records[slug])}")
    say(state_of_budget(study, records, searches))


def _write(record: Record, file: Path) -> None:
    """Write a record that has grown, and anew the tables of its trace, in which shares are of the
    timed step.
    """
    RECORD_FILE.write(record, file)
    if (tables := file.with_name(TABLES_FOLDER)).exists():
        write_trace_tables(record, file.with_name(TRACE_FOLDER), tables)


def _waiting(
    study: Study, records: Mapping[str, Record], searches: Iterable[SearchRecord]
) -> list[str]:
    """The variants whose next process is measured now."""
    counts = {slug: len(record.repetitions) for slug, record in records.items()}
    if study.minutes is None:
        slugs = [
            slug
            for slug, record in records.items()
            if record.status == "ok" and counts[slug] < asked_processes(record)
        ]
    else:
        slugs = wanting(open_claims(study.experiments_with_variants, records), counts)
    measured: list[Record | SearchRecord] = [*records.values(), *searches]
    return [slug for slug in slugs if _is_time_for(records[slug], study, measured)]


def _is_time_for(record: Record, study: Study, measured: Iterable[Record | SearchRecord]) -> bool:
    """Whether one more process ends within the budget, as far as can be said."""
    budget_s = math.inf if study.minutes is None else 60 * study.minutes
    return spent_s(measured) + further_process_s(record) <= budget_s


def _with_further(
    record: Record, measurement: Measurement, *, count: int, on_progress: OnProgress
) -> Record:
    """The record with further processes, of which one that does not finish decides the status; the
    same record where other software than its own measures now.
    """
    first = len(record.repetitions)
    with tempfile.TemporaryDirectory(prefix="gpu-report-traces-") as folder:
        further = measure_variant(
            measurement,
            machine=record.machine,
            trace_folder=Path(folder),
            on_progress=on_progress,
            is_profiled=False,
            processes=range(first, first + count),
            pieces_of_stages=record.workload.pieces_of_stages if record.workload else (),
        )
    if changed := [*other_software(record, further)]:
        say(
            f"{record.variant}: stays at {first} processes, so that {listed(changed)} are not mixed"
        )
        return record
    took_s = spent_s([record, further])
    return record.model_copy(
        update={
            "repetitions": [*record.repetitions, *further.repetitions],
            "status": further.status,
            "reason": further.reason or record.reason,
            "out_of_memory": further.out_of_memory,
            "provenance": record.provenance.model_copy(update={"measuring_s": took_s}),
        }
    )


def state_of_budget(
    study: Study, records: Mapping[str, Record], searches: Iterable[SearchRecord]
) -> str:
    """What was spent, and which claims are open for lack of time, in a line."""
    spent = f"{in_minutes(spent_s([*records.values(), *searches]))} spent"
    if study.minutes is not None:
        spent += f" of {study.minutes:g}"
    left = open_claims(study.experiments_with_variants, records)
    if not left:
        return f"{spent}; no claim is open for lack of time"
    named = ", ".join(f"{claim.variant} over {claim.reference}" for claim in left[:_NAMED])
    further = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return (
        f"{spent}; open for lack of time, where about "
        f"{in_minutes(seconds_to_complete(left, records))} more would decide: {named}{further}"
    )
