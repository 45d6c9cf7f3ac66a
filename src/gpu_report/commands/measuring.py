"""Commands that measure, and the one that writes the image files they need."""

import shutil
import sys
import tempfile
from argparse import Namespace
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gpu_report.commands.overview import results_here, results_of, waiting
from gpu_report.commands.results_folder import BUDGETED, ResultsFolder
from gpu_report.errors import ConfigError, GpuReportError, MachineError
from gpu_report.measure import run as messages
from gpu_report.measure.calibrate import calibrate as measure_ceilings
from gpu_report.measure.hosts import COUNT, Hosts, hosts_of_environment, nodes_to_share, start_on
from gpu_report.measure.probe import require_pytorch
from gpu_report.measure.variant_run import ignore_progress
from gpu_report.measure.variant_run import measure_variant as measure
from gpu_report.printing.number_format import throughput
from gpu_report.printing.terminal import say, stderr_to
from gpu_report.records.batch_sizes import SEARCH_FILE
from gpu_report.records.calibration import CALIBRATION_FILE
from gpu_report.records.record import (
    POINT_FILE,
    RECORD_FILE,
    RICH_TRACE_FOLDER,
    SENTINELS_FOLDER,
    Attempt,
    Record,
    SentinelPoint,
    read_points,
)
from gpu_report.storage.files import (
    list_content,
    require_space,
    unfinished_folder,
)
from gpu_report.storage.locks import machine_to_itself
from gpu_report.study.config import DEFAULT_CONFIGFILE, read_config
from gpu_report.study.machine import boot, find_machine, require_machine
from gpu_report.study.single import single_study
from gpu_report.study.study import Measurement
from gpu_report.tables.claims import FIRST_PROCESSES
from gpu_report.tables.marks import MEANINGS, WEAKENS_TIMES, marks_of_numbers
from gpu_report.tables.processes import values_of
from gpu_report.tables.statistics import summarise

_ROW: Final = (
    "batch_size", "size", "precision", "workers", "epochs", "steps_per_epoch", "device",
    "optimization", "parallelism",
)  # fmt: skip
"""Options of a run without a file that are keys of a study's row."""

_TIMES_THEIR_COST: Final = 20
"""Sentinels take a twentieth of the time that all measuring takes; a study shorter than twenty
times a point has none in its middle.
"""
_MOST_PAUSE: Final = timedelta(minutes=15)


def write_image_files(arguments: Namespace) -> None:
    """Write the image files of the loader experiment; the manifest comes last and says that all are
    there.
    """
    from gpu_report.workloads.jpeg_files import write_image_files as write

    write(
        arguments.manifest.parent,
        train_samples=arguments.train_samples,
        test_samples=arguments.test_samples,
        image_px=arguments.image_px,
    )


def calibrate(arguments: Namespace) -> None:
    """Calibrate the devices and write what was found; a line on stdout for each of them."""
    require_machine(arguments.machine)
    present = find_machine().devices if arguments.linked else ()
    # A study may ask for more devices than the machine has; its trainings on them are skipped.
    linked = [device for device in arguments.linked if device in present]
    with machine_to_itself():
        calibration = measure_ceilings(arguments.devices, linked=linked, machine=arguments.machine)
    CALIBRATION_FILE.write(calibration, arguments.calibration)
    for ceilings in calibration.ceilings:
        products = ", ".join(ceilings.peaks)
        say(
            f"{ceilings.device} ({ceilings.name}): calibrated with matrix products in {products}, "
            f"a copy of its memory and {len(ceilings.transfers)} transfers"
        )


def measure_variant(arguments: Namespace) -> None:
    """Measure a variant of the study, and before it the sentinels where that is due; a line on
    stdout for each process that has trained to its end.
    """
    results, hosts = ResultsFolder.of(arguments.study), hosts_of_environment()
    slug = arguments.variant
    if (nodes := nodes_to_share(results.study.variant(slug))) > 1:
        start_on(nodes, [sys.executable, "-m", "gpu_report", *sys.argv[1:]])
    require_machine(results.resolved.machine)
    with machine_to_itself():
        measure_due_sentinels(results)
        record = measure_whole(
            results,
            slug,
            on_progress=LineForEachRun(slug),
            hosts=hosts,
            processes=range(FIRST_PROCESSES) if results.study.minutes else None,
        )
        if results.study.minutes:
            (results.machine_folder / BUDGETED).touch()
    say(f"{record.variant}: {outcome(record)}")


def measure_sentinels(arguments: Namespace) -> None:
    """Measure the sentinels at the end, unless nothing was measured since they were."""
    results = ResultsFolder.of(arguments.study)
    require_machine(results.resolved.machine)
    newest = max(
        *(record.ended for record in results.read_records()),
        *(search.provenance.ended for search in results.read_searches()),
    )
    with machine_to_itself():
        measure_due_sentinels(results, since=newest)


def measure_due_sentinels(results: ResultsFolder, *, since: datetime | None = None) -> None:
    """Measure each sentinel, without a profile, unless that was done since; one that fails is a
    point with its reason, and one that cannot begin is named.

    Without a time each is measured again after `_TIMES_THEIR_COST` times as long as all took.
    """
    now, points = datetime.now(UTC), reversed(read_points(results.machine_folder))
    # A clock may be ahead, and another machine of this id says nothing of this one.
    past = [
        each for each in points if each.provenance.began <= now and each.provenance.boot == boot()
    ]
    last = [
        next((point.provenance for point in past if point.measurement == each.as_dict()), None)
        for each in results.study.sentinels
    ]
    took = sum((each.ended - each.began for each in last if each), timedelta())
    since = since or now - min(_TIMES_THEIR_COST * took, _MOST_PAUSE)
    for sentinel, newest in zip(results.study.sentinels, last, strict=True):
        if newest and newest.ended > since:
            continue
        try:
            record = measure_unprofiled(sentinel, machine=results.resolved.machine)
        except GpuReportError as error:
            say(f"{sentinel.variant.slug}, a sentinel, is not measured: {error}")
            continue
        point = SentinelPoint(
            **{name: getattr(record, name) for name in Attempt.model_fields},
            throughputs_per_s=values_of(record, "throughput_per_s"),
        )
        name = f"{point.provenance.began:%Y%m%dT%H%M%SZ}-{point.variant}.json"
        POINT_FILE.write(point, results.machine_folder / SENTINELS_FOLDER / name)
        say(f"{point.variant}, a sentinel: {outcome(record)}")


def run(arguments: Namespace) -> None:
    """Measure variants of the study now, with a progress bar each; PyTorch is imported once for all
    of them.

    After them come its batch-size searches, a line for each number of samples. Measured are those
    that are named, whether or not they were measured before, and with `--missing` all that are not;
    or with `--workload` what the options say, of which `--record` alone keeps something. Warnings
    and tracebacks go to the machine's logs/run.log, the bar to the terminal. Where several hosts
    share a training, each runs this, and host 0 alone writes records.

    Raises:
        ConfigError: there is no such variant, or an option does not fit the others.
        MachineError: with `--nvtx`, which records nothing, a training failed or ran out of memory;
            or several hosts cannot share one of the variants.
    """
    hosts = hosts_of_environment()
    if hosts.count > 1 and (arguments.missing or arguments.nvtx):
        raise ConfigError(
            f"several hosts ({COUNT}) measure configurations by name, without --missing and --nvtx"
        )
    if arguments.workload is not None:
        results = _results_without_file(arguments)
        slugs = [variant.slug for variant in results.study.variants]
    else:
        for name in (*_ROW, "dataset", "repetitions", "record"):
            given = getattr(arguments, name)
            if not (given is None or given is False):  # 0 workers are given
                raise ConfigError(
                    f"{_as_option(name)}: given without --workload, which it belongs to; name a "
                    "workload"
                )
        results = results_here(arguments.configfile)
        study = results.study
        missing = waiting(results, (*study.variants, *study.searches)) if arguments.missing else []
        slugs = list(dict.fromkeys([*arguments.variants, *missing]))
    if not slugs and not arguments.missing:
        raise ConfigError(
            "no configuration is named; name some, as gpu-report list shows them, or give --missing"
        )
    known = {search.slug for search in results.study.searches}
    searches = [slug for slug in slugs if slug in known]
    slugs = [slug for slug in slugs if slug not in known]
    if searches and (hosts.count > 1 or arguments.nvtx):
        raise ConfigError(f"{searches[0]} is a batch-size search, on one host and without --nvtx")
    if not (slugs or searches):
        return  # without waiting for another measurement to end
    measurements = [results.study.measurement(slug) for slug in slugs]
    for measurement in measurements:
        hosts.check(measurement.variant)
    for note in results.study.foreign_code:
        say(note, to_stderr=True)
    keeps = (
        arguments.workload is None or arguments.record or arguments.nvtx
    )  # which keeps nothing but its log
    failed = []
    with ExitStack() as stack:
        if not keeps:
            temporary = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-report-run-"))
            )
            results = replace(results, machine_folder=temporary)
        log = (
            results.machine_folder
            / "logs"
            / (f"run.host{hosts.index}.log" if hosts.index else "run.log")
        )
        stack.enter_context(machine_to_itself())
        terminal = stack.enter_context(stderr_to(log))
        for measurement in measurements:
            print(f"{measurement.variant.slug}:", file=sys.stderr, flush=True)
            provide_image_files(measurement)
            if arguments.nvtx:
                if not _train_labelled(measurement, machine=results.resolved.machine, log=log):
                    failed.append(measurement.variant.slug)
            else:
                _run_one(
                    results,
                    measurement.variant.slug,
                    log=log,
                    terminal=terminal,
                    hosts=hosts,
                    keeps=keeps,
                )
        for slug in searches:
            _search_one(results, slug)
    if failed:
        raise MachineError(
            f"not trained with NVTX ranges: {', '.join(failed)}; {log} has the tracebacks"
        )


def search_batch_size(arguments: Namespace) -> None:
    """Search the batch size of one of the study's searches; a line on stdout for each number of
    samples.
    """
    results = ResultsFolder.of(arguments.study)
    require_machine(results.resolved.machine)
    with machine_to_itself():
        _search_one(results, arguments.search)


def _search_one(results: ResultsFolder, slug: str) -> None:
    """The same in this process, which has the machine to itself.

    Raises:
        MachineError: PyTorch is not installed.
    """
    require_pytorch()
    from gpu_report.user_training.batch_size import search_batch_size

    say(f"{slug}:")
    record = search_batch_size(results.study.search(slug), machine=results.resolved.machine)
    SEARCH_FILE.write(record, results.search_file(slug))
    if record.status != "ok":
        say(f"{slug}: {record.status}: {record.reason}")


def provide_image_files(measurement: Measurement) -> None:
    """Those that a workload reads, where nobody has written them yet."""
    if not measurement.workload.reads_image_files:
        return
    from gpu_report.workloads.jpeg_files import MANIFEST, write_image_files

    settings = measurement.workload.settings
    if Path(settings["folder"], MANIFEST).exists():
        return
    sizes = {name: settings[name] for name in ("train_samples", "test_samples", "image_px")}
    write_image_files(Path(settings["folder"]), **sizes)


def _results_without_file(arguments: Namespace) -> ResultsFolder:
    """A study of what the options say, with the workload's settings, protocol and seed of the study
    that is here.

    Raises:
        ConfigError: what is given does not make a configuration; it begins with the option.
    """
    for name in ("batch_size", "epochs"):
        if getattr(arguments, name) is None:
            raise ConfigError(
                f"{_as_option(name)}: missing; --workload needs it, for instance "
                f"{_as_option(name)} 16"
            )
    if arguments.variants or arguments.missing:
        raise ConfigError("--workload: given beside names or --missing; use one or the other")
    machine, file = find_machine(), arguments.configfile
    base = read_config(file) if file.exists() or file != DEFAULT_CONFIGFILE else None
    study = single_study(
        arguments.workload,
        {name: getattr(arguments, name) for name in _ROW},
        devices=machine.devices,
        dataset=arguments.dataset,
        repetitions=arguments.repetitions,
        base=base,
        option=_as_option,
    )
    return results_of(machine.id, study)


def _as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _train_labelled(measurement: Measurement, *, machine: str, log: Path) -> bool:
    """Train with NVTX ranges and print the rate; False where the training failed or ran out of
    memory.
    """
    from gpu_report.measure.nvtx import train_labelled

    slug, end = measurement.variant.slug, train_labelled(measurement, machine=machine)
    if isinstance(end, messages.Stopped):
        say(f"{slug}: {end.status}: {end.reason} (log: {log})")
        return end.status == "skipped"
    say(
        f"{slug}: {throughput(end.repetition.throughput_per_s).plain()} with NVTX ranges; nothing "
        "was recorded"
    )
    return True


def _run_one(
    results: ResultsFolder,
    slug: str,
    *,
    log: Path,
    terminal: TextIO,
    hosts: Hosts,
    keeps: bool,
) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=terminal), redirect_stderr=False) as bar:
        task = bar.add_task("starting", total=1.0, speed="")

        def show(progress: messages.Progress) -> None:
            bar.update(task, completed=progress.share_done, description=_in_words(progress))
            if progress.samples_per_s is not None:
                bar.update(task, speed=throughput(progress.samples_per_s).plain())

        record = measure_whole(results, slug, on_progress=show, hosts=hosts)
        bar.update(
            task,
            completed=1.0,
            description="done",
            speed=_rate(record) if record.status == "ok" else "",
        )
    where = f" (log: {log})" if record.reason and keeps else ""
    say(f"{record.variant}: {outcome(record)}{where}")
    if not keeps:
        say("nothing was recorded; --record keeps the record, its traces and a log")
    elif hosts.index == 0:
        say(str(results.record_file(slug)))


def measure_unprofiled(
    measurement: Measurement,
    *,
    machine: str,
    on_progress: messages.OnProgress = ignore_progress,
    processes: int | None = None,
    after: Record | None = None,
) -> Record:
    """Measure as many processes, all that are asked for unless given, which leave no traces; they
    are those that follow the ones of `after`.
    """
    first = len(after.repetitions) if after else 0
    with tempfile.TemporaryDirectory(prefix="gpu-report-traces-") as traces:
        return measure(
            measurement,
            machine=machine,
            trace_folder=Path(traces),
            on_progress=on_progress,
            is_profiled=False,
            processes=range(first, first + processes) if processes else None,
            pieces_of_stages=after.workload.pieces_of_stages if after and after.workload else (),
        )


def measure_whole(
    results: ResultsFolder,
    slug: str,
    *,
    on_progress: messages.OnProgress,
    hosts: Hosts,
    processes: range | None = None,
) -> Record:
    """Measure beside what was measured before, and put folders and record in its place once all are
    whole.

    A host other than 0 keeps nothing of it. `processes` are as in `measure_variant`.
    """
    measure_into = partial(
        measure,
        results.study.measurement(slug),
        machine=results.resolved.machine,
        on_progress=on_progress,
        hosts=hosts,
        processes=processes,
    )
    if hosts.index:
        with tempfile.TemporaryDirectory(prefix="gpu-report-traces-") as temporary:
            folder = Path(temporary)
            return measure_into(
                trace_folder=folder / "trace", rich_trace_folder=folder / RICH_TRACE_FOLDER
            )
    record_file = results.record_file(slug)
    # A full disk is an error now and not after the training, which may take hours.
    for folder in (record_file.parent, Path(tempfile.gettempdir())):
        require_space(folder)
    with unfinished_folder(record_file) as unfinished:
        record = measure_into(
            trace_folder=unfinished / "trace",
            rich_trace_folder=unfinished / RICH_TRACE_FOLDER,
            memory_folder=unfinished / "memory",
        )
        # Should the write fail, the old record stays with its folders.
        RECORD_FILE.write(record, unfinished / "record.json")
        folders = [record_file.with_name(name) for name in ("memory", RICH_TRACE_FOLDER, "trace")]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        (unfinished / "record.json").replace(record_file)
        for folder in folders:
            (unfinished / folder.name).rename(folder)
            list_content(folder)
    return record


class LineForEachRun:
    """Prints a line when the first sign of each process arrives, so that Snakemake's output shows
    where it is.
    """

    def __init__(self, slug: str) -> None:
        self._slug = slug
        self._seen = -1

    def __call__(self, progress: messages.Progress) -> None:
        if progress.repetition != self._seen:
            self._seen = progress.repetition
            say(f"{self._slug}: {_in_words(progress)}")


def _in_words(progress: messages.Progress) -> str:
    """Where a measurement is."""
    if progress.is_profiled:
        return "profiled run"
    run_text = f"process {progress.repetition + 1} of {progress.repetitions}"
    return f"{run_text}, epoch {progress.epoch + 1} of {progress.epochs}"


def outcome(record: Record) -> str:
    """How measuring it ended, in a line: its rate and the doubts about it, or why there is none."""
    if record.status != "ok":
        return f"{record.status}: {record.reason}"
    marks = marks_of_numbers(record, summarise(values_of(record, "throughput_per_s")))
    doubts = [f"{mark}, {MEANINGS[mark]}" for mark in marks if mark in {*WEAKENS_TIMES, "diverged"}]
    return "; ".join(
        [
            f"{_rate(record)}, geometric mean of {len(record.repetitions)} processes",
            *filter(None, [record.reason]),
            *doubts,
        ]
    )


def _rate(record: Record) -> str:
    return throughput(summarise(values_of(record, "throughput_per_s")).value).plain()
