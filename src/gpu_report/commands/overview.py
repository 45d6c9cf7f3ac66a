"""Commands that look at the study and the machine without measuring."""

from argparse import Namespace
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from gpu_report.bundles.manifest import why_no_trace
from gpu_report.bundles.shown_machines import MACHINES
from gpu_report.commands.results_folder import ResolvedStudy, ResultsFolder
from gpu_report.errors import RecordError
from gpu_report.measure.threads import training_threads
from gpu_report.printing.number_format import counted
from gpu_report.printing.terminal import new_console, print_table, say
from gpu_report.records.batch_sizes import SEARCH_FILE, SearchRecord
from gpu_report.records.record import RECORD_FILE, SINCE_MEASURED, differing
from gpu_report.study import cluster
from gpu_report.study.config import read_config
from gpu_report.study.control_groups import cpu_quota
from gpu_report.study.machine import cpu_has_bf16, find_machine, usable_cores
from gpu_report.study.search import BatchSearch
from gpu_report.study.study import Study, load_study
from gpu_report.study.variant import Variant
from gpu_report.tables.claims import asked_processes
from gpu_report.tables.marks import is_same_class, is_same_code
from gpu_report.tables.processes import class_of

Asked = Variant | BatchSearch


_WAITING: Final = ("missing", "out of date")


def show_machine(_: Namespace) -> None:
    """Print the machine's id, hardware and devices."""
    machine = find_machine()
    console = new_console()
    console.print(f"machine   {machine.id}")
    console.print(
        f"cpu       {machine.cpu_model}, {counted(machine.cores, 'core')}, {machine.memory_gib} GiB"
    )
    if (quota := cpu_quota()) is not None:
        console.print(
            f"quota     CPU time of {quota:.3g} of {counted(len(usable_cores()), 'core')}, set by "
            "the control group"
        )
    for accelerator in machine.accelerators:
        console.print(
            f"{accelerator.backend:9} {accelerator.name}, {accelerator.memory_gib:.0f} GiB"
        )
    if not machine.accelerators:
        console.print(f"no accelerator: {machine.accelerator_reason}")


def describe_machine(arguments: Namespace) -> None:
    """Write down which machine this is, for a name of the cluster's."""
    machine = cluster.describe_machine(arguments.name, requests=cluster.read_requests())
    say(f"{arguments.name} is {machine.id}")


def list_variants(arguments: Namespace) -> None:
    """Print every variant, and every batch-size search, with its state."""
    results = results_here(arguments.configfile)
    asked: tuple[Asked, ...] = (*results.study.variants, *results.study.searches)
    rows = [(each.slug, *state_of(results, each)) for each in asked]
    say(f"{results.study.name} on {results.resolved.machine}")
    print_table("configuration", "state", "why", rows=rows)


def results_here(config_file: Path) -> ResultsFolder:
    """The study of a configuration, and the folder of this machine's results."""
    machine = find_machine()
    study = load_study(read_config(config_file), devices=machine.devices, has_bf16=cpu_has_bf16())
    return results_of(machine.id, study)


def results_of(machine: str, study: Study) -> ResultsFolder:
    """A study, and the folder of the results of the machine with this id."""
    return ResultsFolder(
        resolved=ResolvedStudy.of(machine, study), machine_folder=MACHINES / machine
    )


def waiting(results: ResultsFolder, asked: Iterable[Asked]) -> list[str]:
    """Those of these variants or searches that are not measured, or not as the study asks for them
    today.
    """
    return [each.slug for each in asked if state_of(results, each)[0] in _WAITING]


def state_of(results: ResultsFolder, asked: Asked) -> tuple[str, str]:
    """Compare the record of a variant or a batch-size search, if there is one, with what the study
    asks for today: `measured`, `missing`, `out of date`, `oom`, `failed` or `skipped`, and why.
    """
    is_search = isinstance(asked, BatchSearch)
    path = results.search_file(asked.slug) if is_search else results.record_file(asked.slug)
    if not path.exists():
        return "missing", "not measured yet"
    try:
        record = SEARCH_FILE.read(path) if is_search else RECORD_FILE.read(path)
    except RecordError as error:
        return "out of date", str(error)
    if isinstance(record, SearchRecord):
        changed = differing(asdict(record.search), asdict(asked), words=SINCE_MEASURED)
    else:
        changed = differing(
            record.measurement,
            results.study.measurement(asked.slug).as_dict(),
            words=SINCE_MEASURED,
        )
        if not is_same_class(record, results.resolved.today):
            changed.append(
                f"your class {class_of(record)[0]} has changed since; measure it again with "
                f"gpu-report run {asked.slug}"
            )
    if changed:
        return "out of date", "; ".join(changed)
    if record.status != "ok":
        return record.status, record.reason
    measured_at = record.provenance.measured_at
    if isinstance(record, SearchRecord):
        return "measured", measured_at
    if why := why_no_trace(path.parent, record):
        return "out of date", why
    variant, cores = record.as_variant(), int(record.environment.get("cpu_cores") or 0)
    now = training_threads(
        variant.device_type, sharing=variant.devices // record.hosts, cores=cores
    )
    if (threads := record.environment.get("torch_threads", now)) != now:
        return (
            "out of date",
            f"threads: measured with {threads}, now {now}; measure it again with gpu-report run "
            f"{asked.slug}",
        )
    by_other_code = (
        ""
        if is_same_code(record, results.resolved.today)
        else ", by another version of the measuring code"
    )
    processes, wanted = len(record.repetitions), asked_processes(record)
    fewer = f", {processes} of {wanted} processes" if processes < wanted else ""
    return "measured", measured_at + by_other_code + fewer
