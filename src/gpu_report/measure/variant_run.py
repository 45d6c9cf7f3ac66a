"""Measuring one variant: repetitions in fresh processes, then one profiled run, gathered into a
record.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpu_report.errors import FileWriteError
from gpu_report.measure.environment import host_environment
from gpu_report.measure.hosts import ONE_HOST, Hosts
from gpu_report.measure.probe import require_pytorch
from gpu_report.measure.processes import Outcome, carry_out_in_fresh_process
from gpu_report.measure.run import (
    PATIENCE_S,
    OnProgress,
    ProfiledRun,
    Progress,
    Run,
    Stopped,
    TimedRun,
    unfinished_trace,
)
from gpu_report.measure.threads import training_threads
from gpu_report.records.provenance import find_provenance
from gpu_report.records.record import (
    SCHEMA_VERSION,
    Base,
    Provenance,
    Record,
    Repetition,
    Status,
    timed_part,
    timed_step_ms,
)
from gpu_report.study.strategies import SINGLE
from gpu_report.study.study import Measurement


def ignore_progress(_progress: Progress) -> None:
    """For callers that show none."""


def measure_variant(
    measurement: Measurement,
    *,
    machine: str,
    trace_folder: Path,
    rich_trace_folder: Path | None = None,
    memory_folder: Path | None = None,
    on_progress: OnProgress = ignore_progress,
    patience_s: float = PATIENCE_S,
    hosts: Hosts = ONE_HOST,
    is_profiled: bool = True,
    processes: range | None = None,
    pieces_of_stages: Sequence[int] = (),
) -> Record:
    """Train the variant in fresh processes, profile it in one more unless `is_profiled` is switched
    off, and return the record, which is not written.

    `processes` are the indices of those to train, all that the protocol asks for unless given; then
    `pieces_of_stages` divides a model as the processes before them did.
    Of several processes one waits for the others for at most `patience_s`; then the run has failed.
    Of several hosts every one does this, and each has the whole record.

    The folders are emptied first. Afterwards that for traces holds one, the optional one for rich
    traces one too, and the optional one for memory a snapshot where the device is CUDA; they are
    empty where the record has no profile. A missing device, memory that runs out and a workload
    that raises are results: the first run that did not finish decides the status, no further one is
    started, and what was finished before stays in the record. Memory that runs out in the profiled
    run alone, which takes more of it, costs the profile and not the status. A profiled run that
    crashes is tried once more.

    Raises:
        MeasurementInterruptedError: a training was killed from outside.
        MachineError: PyTorch is not installed, or does not know the device's name; the thread count
            is not valid; or the hosts cannot share the variant, or measure different things.
        WorkloadError: the workload cannot be built from the configuration.
        FileWriteError: the trace or the memory snapshot cannot be written.
    """
    require_pytorch()
    hosts.check(measurement.variant)
    _empty(trace_folder, rich_trace_folder, memory_folder)
    provenance, began_s = find_provenance(measurement.workload.class_path), time.monotonic()
    with tempfile.TemporaryDirectory(
        prefix="gpu-report-compiled-", ignore_cleanup_errors=True
    ) as cache_folder:
        first_run = Run(
            measurement=measurement,
            machine=machine,
            index=0,
            threads=training_threads(
                measurement.variant.device_type, sharing=measurement.variant.devices // hosts.count
            ),
            trace_folder=trace_folder,
            rich_trace_folder=rich_trace_folder,
            memory_folder=memory_folder,
            cache_folder=Path(cache_folder),
            patience_s=patience_s,
            hosts=hosts,
            pieces_of_stages=tuple(pieces_of_stages),
        )
        asked = measurement.protocol.repetitions
        indices = processes or range(asked)
        runs = [replace(first_run, index=index, first_index=indices[0]) for index in indices]
        if is_profiled:
            runs.append(replace(first_run, index=asked, is_profiled=True))
        outcomes = _carry_out_runs(runs, on_progress)
    measuring_s = round(time.monotonic() - began_s, 1)
    record = _record(runs, outcomes, provenance.model_copy(update={"measuring_s": measuring_s}))
    if record.profile is None:
        _empty(trace_folder, rich_trace_folder, memory_folder)
    return record


def _record(runs: Sequence[Run], outcomes: Sequence[Outcome], provenance: Provenance) -> Record:
    """What came of the runs, of which no more were carried out than there are outcomes."""
    last, measurement = outcomes[-1], runs[0].measurement
    status, reason = _status(runs[len(outcomes) - 1], last)
    return Record(
        schema_version=SCHEMA_VERSION,
        variant=measurement.variant.slug,
        machine=runs[0].machine,
        status=status,
        reason=reason,
        measurement=measurement.as_dict(),
        workload=outcomes[0].facts,
        repetitions=_repetitions(outcomes),
        profile=last.end.profile if isinstance(last.end, ProfiledRun) else None,
        out_of_memory=last.end.out_of_memory
        if status == "oom" and isinstance(last.end, Stopped)
        else None,
        environment={**host_environment(), **outcomes[0].environment},
        provenance=provenance,
    )


def _repetitions(outcomes: Sequence[Outcome]) -> list[Repetition]:
    return [outcome.end.repetition for outcome in outcomes if isinstance(outcome.end, TimedRun)]


def _carry_out_runs(runs: Sequence[Run], on_progress: OnProgress) -> list[Outcome]:
    outcomes: list[Outcome] = []
    measurement = runs[0].measurement
    try:
        for run in runs:
            # In turns, each as often first, so that what changes from one process to the next is in
            # neither alone.
            base_first = run.index % 2 == 1
            base = _base(run) if base_first else None
            facts = outcomes[0].facts if outcomes else None
            run = replace(  # noqa: PLW2901
                run,
                timed_step_ms=timed_step_ms(_repetitions(outcomes)) if run.is_profiled else None,
                pieces_of_stages=tuple(facts.pieces_of_stages) if facts else run.pieces_of_stages,
            )
            outcomes.append(carry_out_in_fresh_process(run, on_progress))
            end = outcomes[-1].end
            if run.is_profiled and isinstance(end, Stopped) and end.crashed:
                # PyTorch's profiler can crash where it stops beside threads of several ranks; all
                # else is measured.
                outcomes[-1] = carry_out_in_fresh_process(run, on_progress)
            if isinstance(outcomes[-1].end, TimedRun):
                repetition = outcomes[-1].end.repetition.model_copy(
                    update={"base": base if base_first else _base(run)}
                )
                outcomes[-1].end = replace(outcomes[-1].end, repetition=repetition)
            if isinstance(outcomes[-1].end, Stopped):
                break
    finally:
        for folder in filter(None, (runs[0].trace_folder, runs[0].rich_trace_folder)):
            for rank in range(measurement.variant.devices):
                unfinished_trace(folder, rank).unlink(missing_ok=True)
    return outcomes


def _base(run: Run) -> Base | None:
    """One plain process with the samples that one device has and the threads of a rank; None where
    it is no use.

    What a setting of DistributedDataParallel changes shows against its defaults, which have this
    base.
    """
    measurement = run.measurement
    variant, base = measurement.variant, measurement.variant.base
    if run.is_profiled or variant.strategy == SINGLE or variant.options != base.options:
        return None
    alone = replace(measurement, variant=replace(base, epochs=1))
    cache_folder = (
        run.cache_folder / "base"
    )  # what it compiles is not found by what it is compared with
    outcome = carry_out_in_fresh_process(
        replace(run, measurement=alone, cache_folder=cache_folder), ignore_progress
    )
    if not isinstance(outcome.end, TimedRun):
        why = outcome.end.reason if isinstance(outcome.end, Stopped) else ""
        print(
            f"{alone.variant.slug}, the plain process beside {run.title}: {why}",
            file=sys.stderr,
            flush=True,
        )
        return None
    repetition = outcome.end.repetition
    epochs = [timed_part(each) for each in repetition.all_epochs]
    return Base(threads=run.threads, epochs=epochs, warm_up_epochs=repetition.warm_up_epochs)


def _status(last_run: Run, outcome: Outcome) -> tuple[Status, str]:
    end = outcome.end
    if not isinstance(end, Stopped):
        return "ok", ""
    if end.status == "skipped":
        return end.status, end.reason
    # Every repetition was timed by then, and what memory that has no room for a profile can train
    # is measured.
    status = "ok" if end.status == "oom" and last_run.is_profiled else end.status
    return status, f"{last_run.title}: {end.reason}"


def _empty(*folders: Path | None) -> None:
    for folder in filter(None, folders):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():
                path.unlink()
        except OSError as error:
            raise FileWriteError(
                f"cannot empty {folder}: {error.strerror}; remove it and run the same command again"
            ) from error
