# What the rules share: the machines shown, the study expanded for each, and the arguments handed to the commands.

import json
import re
from dataclasses import asdict
from pathlib import Path

from snakemake.exceptions import WorkflowError

from gpu_report.errors import ConfigError, GpuReportError
from gpu_report.run_registry import release_stale_lock

try:
    # Before anything else is imported: a run that is killed earlier leaves its temporary folder for good.
    release_stale_lock(temporary_folder=str(workflow.snakemake_tmp_dir))
except GpuReportError as error:
    raise WorkflowError(str(error))

from gpu_report.shown_machines import choose_machines
from gpu_report.tables import STUDY_TABLES as TABLES_OF_STUDY
from gpu_report.tables.ceilings import PEAKS, TRANSFERS
from gpu_report.tables.marks import Today
from gpu_report.terminal import clean, say
from gpu_report.traces import tables as of_traces

try:
    SHOWN = choose_machines(config)
except GpuReportError as error:
    where = f"{', '.join(map(str, workflow.configfiles))}: " if isinstance(error, ConfigError) else ""
    raise WorkflowError(clean(f"{where}{error}"))

if workflow.is_main_process:
    for note in SHOWN.notes:
        say(note, to_stderr=True)

# The machine in hand, if the report shows it; nothing else is measured.
MACHINE = SHOWN.here
HERE = str(MACHINE.results) if MACHINE else ""
STUDY = MACHINE.study if MACHINE else None

# Every machine by the folder of its results: the report is about the first, the others are compared with it.
MACHINES = {str(machine.results): machine for machine in SHOWN.machines}
ABOUT = next(iter(MACHINES))
BUNDLES = {machine.id: str(machine.bundle) for machine in SHOWN.machines if machine.bundle}
EXPERIMENTS = list(config["experiments"])
TEMPLATES = sorted(["report/gpu_report.sty", "report/references.bib", *map(str, Path("report").rglob("*.j2"))])
CALIBRATION_TABLES = [PEAKS.name, TRANSFERS.name]
STUDY_TABLES = [table.name for table in TABLES_OF_STUDY]
TABLES_OF_RECORDS = [table for table in STUDY_TABLES if table not in CALIBRATION_TABLES]
TRACE_TABLES = [table.name for table in of_traces.TRACE_TABLES]


wildcard_constraints:
    variant=r"[a-z0-9_+-]+",
    experiment="|".join(EXPERIMENTS),
    results="|".join(map(re.escape, MACHINES)),
    machine="|".join(machine.id for machine in SHOWN.machines),


def as_json(value):
    return json.dumps(value, sort_keys=True)


# Modules that any stage after the measuring may use; such a stage is cheap, so it runs again once too often at worst.
SHARED = [
    "calibration",
    "catalogue",
    "columns",
    "commands",
    "glossary",
    "json_files",
    "modules",
    "number_format",
    "options",
    "provenance",
    "records",
    "reserved_names",
    "study",
    "study_devices",
    "terminal",
    "variant",
]


def sources(*packages):
    """The files of these parts of the package, code and data: an edit to them makes a cheap stage run again."""
    folder = Path("src/gpu_report")
    files = [
        file
        for package in [*packages, *SHARED]
        for pattern in (f"{package}.py", f"{package}/**/*.py", f"{package}/**/*.yaml")
        for file in folder.glob(pattern)
    ]
    return sorted(map(str, files))


def slugs(variants):
    return [variant.slug for variant in variants]


def results_of(wildcards):
    """The folder of the machine that a job is about; where its files do not name one, it is the report's."""
    named = {machine.id: results for results, machine in MACHINES.items()}
    return wildcards.get("results") or named[wildcards.get("machine", MACHINES[ABOUT].id)]


def study_of(wildcards):
    """The study that a job is about: the machine's, or where its files name an experiment, that experiment alone."""
    study = MACHINES[results_of(wildcards)].study
    return study.alone(wildcards.experiment) if "experiment" in wildcards.keys() else study


def folder_of(wildcards):
    """Where tables and findings of that study lie; those of an experiment alone are apart from the machine's."""
    results = results_of(wildcards)
    return f"{results}/experiments/{wildcards.experiment}" if "experiment" in wildcards.keys() else results


def today(study):
    """What would measure its variants today, so that a record made otherwise is marked."""
    return as_json(asdict(Today.of(study, slugs(study.variants))))


def today_everywhere():
    """The same for every variant of any machine; a workload is asked for alike on all of them."""
    each = [asdict(Today.of(machine.study, slugs(machine.study.variants))) for machine in SHOWN.machines]
    merged = {key: {name: value for values in each for name, value in values[key].items()} for key in MERGED_OF_TODAY}
    return as_json({**each[0], **merged})


MERGED_OF_TODAY = ("workloads", "workload_digests")
PRICES = as_json(asdict(SHOWN.machines[0].study.prices))


def measurement(wildcards):
    return as_json(STUDY.measurement(wildcards.variant).as_dict())


def experiments_json(experiments):
    return as_json([entry.as_dict() for entry in experiments])


def record_files(results, variants):
    return [f"{results}/runs/{variant}/record.json" for variant in variants]


def records(results, variants):
    """Where to read records from: the files where they are measured, the whole folder where they are imported."""
    return [f"{results}/runs"] if MACHINES[results].bundle else record_files(results, variants)


def trace_tables(results, variants):
    """Imported ones come in the folder of the records."""
    measured = [] if MACHINES[results].bundle else variants
    return [f"{results}/runs/{variant}/trace_tables/{table}.csv" for variant in measured for table in TRACE_TABLES]


def tables(wildcards):
    """Those of the study that a job is about, and of its experiments."""
    experiments = [entry.name for entry in study_of(wildcards).experiments_with_variants]
    return [f"{folder_of(wildcards)}/tables/{table}.csv" for table in [*STUDY_TABLES, *experiments]]


def every_record(function):
    """What a function of a machine's results and variants gives, of all machines."""
    return [item for results, machine in MACHINES.items() for item in function(results, slugs(machine.study.variants))]


def image_manifest(wildcards):
    workload = STUDY.measurement(wildcards.variant).workload
    return f"{workload.settings['folder']}/manifest.json" if workload.reads_image_files else []
