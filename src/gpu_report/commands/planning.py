"""`gpu-report plan`: what a study is about to measure, how long that takes, and what a time budget
leaves out.
"""

import math
import statistics
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpu_report.bundles.shown_machines import ShownMachine, choose_machines
from gpu_report.commands.budget import state_of_budget
from gpu_report.commands.overview import results_of, waiting
from gpu_report.commands.results_folder import ResultsFolder
from gpu_report.errors import ConfigError, GpuReportError, RecordError
from gpu_report.measure.variant_run import measure_variant
from gpu_report.printing.number_format import count, counted, in_minutes
from gpu_report.printing.terminal import say
from gpu_report.records.provenance import why_no_commit
from gpu_report.records.record import RECORD_FILE, Record
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.config import read_config
from gpu_report.study.options import NO_OPTIONS, option_names
from gpu_report.study.strategies import SINGLE
from gpu_report.study.study import Measurement, Protocol, Study
from gpu_report.study.variant import Variant
from gpu_report.tables.claims import FIRST_PROCESSES, process_s, spent_s

_COMPILING_S: Final = 20.0
"""A guess, since a probe compiles nothing; the first process takes more and the others less."""


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
    published = [machine.id for machine in shown.machines if machine.bundle]
    if published and shown.measured:
        say(f"compared with, as published: {', '.join(published)}")
    elif published:
        say(f"nothing is measured: the report is about {published[0]}")


def _show_plan_of(machine: ShownMachine) -> None:
    study, request = machine.study, machine.request
    results = results_of(machine.id, study)
    measuring, searching = waiting(results, study.variants), waiting(results, study.searches)
    say(
        f"{study.title}: {len(study.variants)} variants on {machine.id} "
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
        processes = study.protocol.repetitions + 1
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
        say("all measured")
        if study.minutes is not None:
            records = {each.variant: each for each in results.read_records()}
            say(state_of_budget(study, records, results.read_searches()))


def time_in_words(results: ResultsFolder, missing: Sequence[str]) -> str:
    """How long measuring these variants takes, and with a time budget what it leaves out.

    Raises:
        ConfigError: the budget is too short for the first processes of every variant.
    """
    study, each_s = results.study, _estimated_process_s(results, missing)
    measured = [
        RECORD_FILE.read(results.record_file(variant.slug))
        for variant in study.variants
        if variant.slug not in missing
    ]
    asked, spent = study.protocol.repetitions, spent_s(measured)
    whole = (
        f"about {in_minutes((asked + 1) * sum(each_s.values()))} for {asked} processes of each "
        "and a profiled one, without calibration and searches"
    )
    if study.minutes is None:
        return whole
    first_s = (FIRST_PROCESSES + 1) * sum(each_s.values())
    left_s = 60 * study.minutes - spent - first_s
    if left_s < 0:
        raise ConfigError(
            f"minutes: {study.minutes:g} are too few for {FIRST_PROCESSES} processes of each "
            f"configuration, which take about {in_minutes(spent + first_s)}; "
            f"{_fitting(study, each_s, 60 * study.minutes - spent)}"
        )
    most = (asked - FIRST_PROCESSES) * len(missing)
    further = min(most, math.floor(left_s * len(missing) / sum(each_s.values())))
    further_ones = f" and about {further} of the {most} further ones, where claims are open"
    return (
        f"{whole}; {study.minutes:g} minutes are enough for {FIRST_PROCESSES} of each"
        f"{further_ones if most else ''}"
    )


def _fitting(study: Study, each_s: Mapping[str, float], left_s: float) -> str:
    """Which experiments fit, each without the others."""
    fitting = [
        each.name
        for each in study.experiments_with_variants
        if (FIRST_PROCESSES + 1) * sum(each_s.get(variant.slug, 0.0) for variant in each.variants)
        <= left_s
    ]
    if not fitting:
        return "no experiment fits alone either"
    return f"each of these experiments fits alone: {', '.join(fitting)}"


def _estimated_process_s(results: ResultsFolder, slugs: Sequence[str]) -> dict[str, float]:
    """Seconds of one process of each variant, from a record of the same model on the same device,
    and without one from a probe, which trains it for a few steps.
    """
    study = results.study
    measured: dict[tuple[str, ...], Record | None] = {}
    for variant in study.variants:
        with suppress(RecordError):  # missing, or of another version
            record = RECORD_FILE.read(results.record_file(variant.slug))
            if record.status == "ok":
                measured.setdefault(_model(variant), record)
    variants = [study.variant(slug) for slug in slugs]
    unknown = {_model(variant): variant for variant in variants if _model(variant) not in measured}
    if unknown:
        say(f"to estimate the time, {counted(len(unknown), 'model')} train for a few steps")
    with machine_to_itself():
        for model, variant in unknown.items():
            measured[model] = None
            with suppress(GpuReportError):  # measuring it will say what is wrong
                measured[model] = _probe(study.measurement(variant.slug), results)
    return {
        variant.slug: _process_s(variant, study.protocol, measured[_model(variant)])
        for variant in variants
    }


def _model(variant: Variant) -> tuple[str, ...]:
    return variant.workload, variant.size, variant.device_type


def _probe(measurement: Measurement, results: ResultsFolder) -> Record:
    """One process of one device that trains two epochs of two steps, plainly."""
    short = replace(
        measurement.variant,
        epochs=2,
        steps_per_epoch=2,
        options=NO_OPTIONS,
        strategy=SINGLE,
        devices=1,
        workers=0,
    )
    protocol = replace(measurement.protocol, repetitions=1, timed_epochs=1, timed_seconds=0.0)
    with tempfile.TemporaryDirectory(prefix="gpu-report-traces-") as folder:
        return measure_variant(
            replace(measurement, variant=short, protocol=protocol),
            machine=results.resolved.machine,
            trace_folder=Path(folder),
            is_profiled=False,
        )


def _process_s(variant: Variant, protocol: Protocol, like: Record | None) -> float:
    """An estimate of one process from a record of the same model, whatever else differs; without
    numbers that of its timed epochs alone.
    """
    compiling_s = _COMPILING_S if "compile" in option_names(variant.options) else 0.0
    if like is None or like.workload is None or not like.repetitions:
        return compiling_s + 2 * protocol.timed_seconds
    start_s = process_s(like) - statistics.fmean(each.training_wall_s for each in like.repetitions)
    per_s = statistics.fmean(each.throughput_per_s for each in like.repetitions)
    steps = variant.steps_per_epoch
    samples = steps * variant.batch_size if steps else like.workload.train_samples
    epoch_s = samples / per_s
    timed = min(
        protocol.most_timed_epochs,
        max(protocol.timed_epochs, math.ceil(protocol.timed_seconds / epoch_s)),
    )
    return compiling_s + max(start_s, 0.0) + max(1 + timed, variant.epochs) * epoch_s
