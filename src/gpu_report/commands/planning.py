"""`gpu-report plan`: what a study is about to measure, how long that takes, and what a time budget
leaves out.
"""

import math
import statistics
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from gpu_report.bundles.shown_machines import ShownMachine, choose_machines
from gpu_report.commands.budget import budget_in_words, read_records, spent
from gpu_report.commands.measuring import measure_unprofiled
from gpu_report.commands.overview import results_of, waiting
from gpu_report.commands.results_folder import ResultsFolder
from gpu_report.errors import ConfigError, GpuReportError, RecordError
from gpu_report.printing.number_format import count, counted, in_minutes
from gpu_report.printing.terminal import say
from gpu_report.records.provenance import why_no_commit
from gpu_report.records.record import RECORD_FILE, Record
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.config import read_config
from gpu_report.study.options import NO_OPTIONS, option_names
from gpu_report.study.strategies import SINGLE
from gpu_report.study.study import Protocol, Study
from gpu_report.study.variant import Variant
from gpu_report.tables.claims import FIRST_PROCESSES, is_short, process_s, spent_s
from gpu_report.tables.marks import load_in_words

_COMPILING_S: Final = 40.0
"""A guess, since a probe compiles nothing."""
_SURELY: Final = 1.5
"""Only by more than this factor does an estimate show that a budget is too short."""


def show_plan(arguments: Namespace) -> None:
    """Print what is measured first and, of a cluster's machines, what its jobs ask for."""
    config = read_config(arguments.configfile)
    if arguments.machines:
        config["machines"] = arguments.machines
    if arguments.minutes is not None:
        config["minutes"] = arguments.minutes
    shown = choose_machines(config)
    for name, request in shown.unknown.items():
        say(
            f"{name}: no job has found out yet which machine it is; the first asks for "
            f"{request.in_words}"
        )
    for machine in shown.measured:
        _show_plan_of(machine)
    if shown.measured and (why := why_no_commit()):
        say(
            "note: git names no commit of this code, and pack refuses measurements without one: "
            f"{why}"
        )
    for machine in shown.machines:
        if machine.bundle:
            say(f"{machine.id}: shown as published, nothing of it is measured")


def _show_plan_of(machine: ShownMachine) -> None:
    study, request = machine.study, machine.request
    results = results_of(machine.id, study)
    measuring, searching = waiting(results, study.variants), waiting(results, study.searches)
    say(
        f"{study.title}: {counted(len(study.variants), 'configuration')} on {machine.id} "
        f"({', '.join(study.trained_devices)})"
    )
    if request and (
        jobs := len(measuring) + len(searching) + (not results.calibration_file.exists())
    ):
        several = [
            nodes for slug in measuring if (nodes := request.nodes_for(study.variant(slug))) > 1
        ]
        hours = (jobs - len(several) + sum(several)) * request.minutes * request.gpus / 60
        at_most = (
            f"; at most {count(hours, 'hours').plain()} of the GPUs asked for" if hours else ""
        )
        on_several = "".join(
            f"; {several.count(nodes)} of them on {nodes} such nodes"
            for nodes in sorted({*several})
        )
        say(f"{counted(jobs, 'job')}, each asking for {request.in_words}{on_several}{at_most}")
    if measuring:
        most = study.protocol.repetitions + 1
        fewest = FIRST_PROCESSES + 1 if study.minutes else most
        processes = f"{fewest} to {most}" if fewest < most else f"{most}"
        say(
            f"{len(measuring)} to measure, each in {processes} fresh "
            f"processes{'' if request else ', one at a time'}:"
        )
        say("\n".join(f"  {slug}" for slug in measuring))
    if measuring and request is None:
        say(time_in_words(results, measuring))
    if searching:
        say(
            f"{len(searching)} to search for a batch size, each in a fresh process per number of "
            "samples:"
        )
        say("\n".join(f"  {slug}" for slug in searching))
    if not (measuring or searching):
        short = [slug for slug, record in _records(results).items() if is_short(record)]
        say("all measured" + "; these with fewer processes than the study asks for:" * bool(short))
        for slug in short:
            say(f"  {slug}")
        if study.minutes is not None:
            say(budget_in_words(results, read_records(results)))


Estimate = dict[int, float]
"""Seconds that measuring a variant takes, by its number of processes, of which one is profiled
besides; empty where nothing shows it.
"""


def time_in_words(results: ResultsFolder, missing: Sequence[str]) -> str:
    """How long measuring these variants takes, and with a time budget what it leaves out.

    Raises:
        ConfigError: the budget is by far too short for the first processes of every variant.
    """
    study, estimates = results.study, _estimates(results, missing)
    asked, minutes = study.protocol.repetitions, study.minutes
    all_s, first_s = (
        sum(each.get(processes, 0.0) for each in estimates.values())
        for processes in (asked, FIRST_PROCESSES)
    )
    whole = (
        f"about {in_minutes(all_s)} for {asked} processes of each and a profiled one, not "
        "counting calibration and batch-size searches"
    )
    if minutes is None:
        return whole
    measured = {slug: record for slug, record in _records(results).items() if slug not in missing}
    left_s = 60 * minutes - spent(results, measured) - first_s
    if left_s < 0:
        needed = (
            f"{FIRST_PROCESSES} processes of each configuration take about "
            f"{in_minutes(60 * minutes - left_s)}"
        )
        if 60 * minutes - left_s > _SURELY * 60 * minutes:
            fitting = _fitting(study, measured, estimates)
            raise ConfigError(f"minutes: {minutes:g} is too short: {needed}; {fitting}")
        return (
            f"{whole}; {needed}; this exceeds the budget of {minutes:g} min, but they are "
            "measured anyway"
        )
    most = (asked - FIRST_PROCESSES) * len([*filter(None, estimates.values())])
    further = min(most, math.floor(left_s / (all_s - first_s) * most)) if most else 0
    further_ones = (
        f" and for about {further} of the {most} further processes, which go to open comparisons"
    )
    return (
        f"{whole}; a budget of {minutes:g} min is enough for {FIRST_PROCESSES} processes of each"
        f"{further_ones if most else ''}"
    )


def _fitting(
    study: Study, measured: Mapping[str, Record], estimates: Mapping[str, Estimate]
) -> str:
    """Which experiments fit, each without the others; not one with a variant whose time nothing
    shows.
    """
    took_s = {slug: spent_s([record]) for slug, record in measured.items()}
    took_s |= {slug: each.get(FIRST_PROCESSES, math.inf) for slug, each in estimates.items()}
    fitting = [
        each.name
        for each in study.experiments_with_variants
        if sum(took_s.get(variant.slug, 0.0) for variant in each.variants)
        <= 60 * (study.minutes or 0)
    ]
    if not fitting:
        return "no single experiment fits either"
    return (
        "each of these experiments fits if it alone is the target of snakemake: "
        f"{', '.join(fitting)}"
    )


def _records(results: ResultsFolder) -> dict[str, Record]:
    """Those that can be read, of a variant that trained."""
    found = {}
    for variant in results.study.variants:
        with suppress(RecordError):  # missing, or of another version
            found[variant.slug] = RECORD_FILE.read(results.record_file(variant.slug))
    return {slug: record for slug, record in found.items() if record.status == "ok"}


def _estimates(results: ResultsFolder, slugs: Sequence[str]) -> dict[str, Estimate]:
    """From a record of the same model on the same device, and without one from a probe, which
    trains it for a few steps.
    """
    variants = [results.study.variant(slug) for slug in slugs]
    known = {_model(record.as_variant()): record for record in _records(results).values()}
    unknown = {_model(variant): variant for variant in variants if _model(variant) not in known}
    if unknown:
        for note in results.study.foreign_code:
            say(note, to_stderr=True)
        say("each model trains for a few steps to estimate the time")
        with machine_to_itself():
            _probe(next(iter(unknown.values())), results)  # imports PyTorch for those after it
            probes = {model: _probe(variant, results) for model, variant in unknown.items()}
        trained = {model: record for model, record in probes.items() if record is not None}
        known |= trained
        loads = [
            repetition.load for record in trained.values() for repetition in record.repetitions
        ]
        if load := load_in_words(loads):
            say(f"while the models trained for this estimate, {load}: it may be too long")
        if failed := [each.slug for each in variants if _model(each) not in known]:
            say(f"not in the estimate because they cannot train yet: {', '.join(failed)}")
    return {
        variant.slug: _estimate(variant, results.study.protocol, known.get(_model(variant)))
        for variant in variants
    }


def _model(variant: Variant) -> tuple[str, ...]:
    return variant.workload, variant.size, variant.device_type


def _probe(variant: Variant, results: ResultsFolder) -> Record | None:
    """One process of one device that trains two epochs of two steps, plainly; None where it does
    not come to its end, which measuring will explain.
    """
    measurement = results.study.measurement(variant.slug)
    short = replace(
        variant,
        epochs=2,
        steps_per_epoch=2,
        options=NO_OPTIONS,
        strategy=SINGLE,
        devices=1,
        workers=0,
    )
    protocol = replace(measurement.protocol, repetitions=1, timed_epochs=1, timed_seconds=0.0)
    with suppress(GpuReportError):
        record = measure_unprofiled(
            replace(measurement, variant=short, protocol=protocol),
            machine=results.resolved.machine,
        )
        return record if record.status == "ok" else None
    return None


def _estimate(variant: Variant, protocol: Protocol, like: Record | None) -> Estimate:
    """From a record of the same model, whatever else differs; nothing where it has no numbers."""
    if like is None or like.workload is None:
        return {}
    start_s = process_s(like) - statistics.fmean(each.training_wall_s for each in like.repetitions)
    per_s = statistics.fmean(each.throughput_per_s for each in like.repetitions)
    steps = variant.steps_per_epoch
    epoch_s = (steps * variant.batch_size if steps else like.workload.train_samples) / per_s
    timed = min(
        protocol.most_timed_epochs,
        max(protocol.timed_epochs, math.ceil(protocol.timed_seconds / epoch_s)),
    )
    once_s = _COMPILING_S * ("compile" in option_names(variant.options))
    one_s = max(start_s, 0.0) + max(1 + timed, variant.epochs) * epoch_s
    return {
        processes: once_s + (processes + 1) * one_s
        for processes in (FIRST_PROCESSES, protocol.repetitions)
    }
