# What the rules share: the machines shown, the study resolved for each, and the files and code that
# a stage reads.

import hashlib
import os
import re
import shlex
from dataclasses import asdict
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

import gpu_report
from gpu_report.commands.measuring_job import SNAKEMAKE
from gpu_report.errors import ConfigError, GpuReportError
from gpu_report.storage.locks import release_stale_lock

if workflow.is_main_process:  # not in its jobs, which read this file too
    os.environ[SNAKEMAKE] = str(os.getpid())
    try:
        # Before the other imports: a run that is killed before this line leaves its temporary
        # folder for good.
        release_stale_lock(temporary_folder=str(workflow.snakemake_tmp_dir))
    except GpuReportError as error:
        raise WorkflowError(str(error))

from gpu_report.commands.results_folder import (
    BUDGETED,
    ResolvedStudy,
    keep_document_of_another,
)
from gpu_report.bundles.shown_machines import choose_machines
from gpu_report.study.cluster import description_file
from gpu_report.study.config import read_config
from gpu_report.tables import STUDY_TABLES as TABLES_OF_STUDY
from gpu_report.tables.ceilings import MADE_BY_CALIBRATION
from gpu_report.printing.terminal import clean, say
from gpu_report.storage.files import is_whole
from gpu_report.traces import tables as of_traces
from gpu_report.workflow import import_also_from

for folder in FOLDERS[1:]:
    import_also_from(folder)

try:
    for path in map(Path, workflow.configfiles):
        if path.suffix != ".json":  # YAML cannot read JSON that is indented with tabs
            read_config(path)  # Snakemake would silently use the last of two equal keys
except GpuReportError as error:
    raise WorkflowError(clean(str(error)))

try:
    SHOWN = choose_machines(config)
except GpuReportError as error:
    where = (
        f"{', '.join(map(str, workflow.configfiles))}: " if isinstance(error, ConfigError) else ""
    )
    raise WorkflowError(clean(f"{where}{error}"))

if workflow.is_main_process:
    for note in SHOWN.notes:
        say(note, to_stderr=True)

# Every machine by the folder of its results: the report is about the first, the others are compared
# with it.
MACHINES = {str(machine.results): machine for machine in SHOWN.machines}
ABOUT = next(iter(MACHINES), "")
BUNDLES = {machine.id: str(machine.bundle) for machine in SHOWN.machines if machine.bundle}
EXPERIMENTS = list(config["experiments"])
# Snakemake formats this path, so braces in it are doubled.
ENVIRONMENT = str(Path(workflow.basedir, "environment.yml")).replace("{", "{{").replace("}", "}}")
# In a checkout as seen from there, so that a checkout that is moved makes nothing again.
PACKAGE = Path(gpu_report.__file__).parent
if PACKAGE.is_relative_to(Path.cwd()):
    PACKAGE = PACKAGE.relative_to(Path.cwd())
OWN_TEMPLATES = [folder / "templates" for folder in FOLDERS if (folder / "templates").is_dir()]
TEMPLATES = sorted(
    str(file)
    for folder in [*OWN_TEMPLATES, PACKAGE / "writing/templates"]
    for file in folder.rglob("*.*")
)
if stray := [*Path("report").rglob("*.j2")]:
    raise WorkflowError(
        f"{stray[0]}: templates of your own are in templates/ now, and report/ has only what is "
        f"made; move it to templates/{stray[0].relative_to('report')}"
    )
CALIBRATION_TABLES = [table.name for table in MADE_BY_CALIBRATION]
STUDY_TABLES = [table.name for table in TABLES_OF_STUDY]
TABLES_OF_RECORDS = [table for table in STUDY_TABLES if table not in CALIBRATION_TABLES]
TRACE_TABLES = [table.name for table in of_traces.TRACE_TABLES]


# What to ask the cluster for, by the machine's id, or by its name where that is all that is known.
REQUESTED = {**{machine.id: machine.request for machine in SHOWN.measured}, **SHOWN.unknown}


def cores_of(wildcards):
    request = REQUESTED[wildcards.measured]
    return request.cpus if request else workflow.cores


def asked_for(resource):
    def of_job(wildcards):
        request, variant = REQUESTED[wildcards.measured], wildcards.get("variant")
        nodes = request.nodes_for(study_of(wildcards).variant(variant)) if variant else 1
        return request.resources(nodes=nodes)[resource]

    return of_job


# Of a job on a cluster's machine; none where this machine is measured.
OF_CLUSTER = {
    resource: asked_for(resource)
    for request in REQUESTED.values()
    if request
    for resource in request.resources()
}


wildcard_constraints:
    variant=r"[a-z0-9_+-]+",
    search=r"[a-z0-9_+-]+",
    experiment="|".join(EXPERIMENTS),
    results="|".join(map(re.escape, MACHINES)),
    machine="|".join(machine.id for machine in SHOWN.machines),
    measured="|".join(REQUESTED),


# Stages read `study.json` in the folder of a machine's results. It is written as soon as this run
# holds Snakemake's lock, not while the workflow is read, so that a dry run of another study leaves
# it alone; and by no rule: where a job makes a file that others take as `ancient`, Snakemake 9
# overlooks that their params changed, and if it is missing runs them again, which here means to
# train. A rule carries what it asks of the study as params.
onstart:
    try:
        for results in MACHINES:
            resolved_study(results).write(Path(results))
        for file in documents_to_make():
            keep_document_of_another(file, f"{config['name']}-{MACHINES[ABOUT].id}")
    except GpuReportError as error:
        raise WorkflowError(clean(str(error)))


@cache
def resolved_study(results, experiment=""):
    """What a machine is asked for, or of an experiment alone."""
    machine = MACHINES[results]
    return ResolvedStudy.of(
        machine.id, machine.study.alone(experiment) if experiment else machine.study
    )


# Modules that any stage after the measuring may use; such a stage is cheap, so it runs again once
# too often at worst.
SHARED = [
    "commands",
    "glossary",
    "printing",
    "records",
    "storage",
    "study",
]


@cache
def sources(*packages):
    """SHA-256 over these parts of the package, code and data, which the stages after the measuring
    have as a parameter: an edit makes them run again.

    As input files they took longer: Snakemake computes the checksums of all inputs of a job once
    for each of its outputs.
    """
    files = {
        file
        for package in [*packages, *SHARED]
        for pattern in (
            f"{package}.py",
            f"{package}/**/*.py",
            f"{package}/**/*.yaml",
            f"{package}/*.j2",
            f"{package}/*.css",
            f"{package}/*.js",
        )
        for file in PACKAGE.glob(pattern)
    }
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(PACKAGE)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def made_again_if_absent(rule):
    """An input function that adds no file: a job runs again if a file that it makes or reads is
    gone.

    Snakemake by itself makes an absent file only if the job runs for another reason. A job that has
    made nothing yet is left to Snakemake. A folder has a list of its files, so it counts as absent
    if one of them is absent.
    """
    seen = set()

    def no_file(wildcards):
        values = dict(wildcards.items())
        if (job := tuple(values.items())) not in seen:
            seen.add(job)  # `expand_input` calls this function, too
            made = rule.expand_output(values)[0]
            read = [file for file in rule.expand_input(values)[0] if not file.is_ancient]
            if any(Path(file).exists() for file in made) and not all(
                is_whole(Path(file)) for file in [*made, *read]
            ):
                workflow.dag.forcefiles.update(made)
        return []

    return no_file


def quoted(word):
    """For a shell; in double quotes where these will do, since TeX does not keep single ones
    straight.
    """
    return (
        shlex.quote(word) if shlex.quote(word) == word or set(word) & set('"$`\\!') else f'"{word}"'
    )


def slugs(study):
    return [variant.slug for variant in study.variants]


def turn_of_workload(wildcards):
    """Priority from 10 to 11: the variants of a workload follow each other, so that few comparisons
    are between two sessions.
    """
    study = study_of(wildcards)
    workloads = [*dict.fromkeys(variant.workload for variant in study.variants)]
    return 11 - workloads.index(study.variant(wildcards.variant).workload) / len(workloads)


def results_of(wildcards):
    """The folder of the machine that a job is about; where its files do not name one, it is the
    report's.
    """
    named = {machine.id: results for results, machine in MACHINES.items()}
    of_job = wildcards.get("measured") or wildcards.get("machine") or MACHINES[ABOUT].id
    return wildcards.get("results") or named[of_job]


def asked_of(wildcards):
    """What a job is about: the machine's study, or where its files name an experiment, that
    experiment alone.
    """
    return resolved_study(results_of(wildcards), wildcards.get("experiment", ""))


def study_of(wildcards):
    return asked_of(wildcards).study


def study_arguments(wildcards):
    """The same for the command."""
    experiment = wildcards.get("experiment", "")
    return f"--study {results_of(wildcards)}/study.json" + (
        f" --experiment {experiment}" if experiment else ""
    )


def asked_digest(wildcards):
    """Changes with anything that is asked, and with the code that would measure it."""
    return asked_of(wildcards).digest


def folder_of(wildcards):
    """Where tables and findings of that study are; those of an experiment alone are apart from the
    machine's.
    """
    results = results_of(wildcards)
    return (
        f"{results}/experiments/{wildcards.experiment}"
        if "experiment" in wildcards.keys()
        else results
    )


def records(results, study):
    """Where to read records, searches and sentinels from: files where they are measured, whole
    folders where they are imported.
    """
    if MACHINES[results].bundle:
        return [f"{results}/{name}" for name in ("runs", "batch_sizes", "sentinels")]
    last_point = [f"{results}/sentinels.measured"] if study.sentinels else []
    return [*measured(results, study), *further(results, study), *last_point]


def further(results, study):
    """The mark of further processes, where a time budget asks for them or has left some out; they
    need every record of the study, or of the experiment alone.
    """
    is_budgeted = study.minutes is not None or Path(results, BUDGETED).exists()
    if MACHINES[results].bundle or not is_budgeted:
        return []
    is_whole = study == MACHINES[results].study
    folder = results if is_whole else f"{results}/experiments/{study.experiments[0].name}"
    return [f"{folder}/further.measured"]


def measured(results, study):
    """Records and searches alone."""
    searches = [f"{results}/batch_sizes/{search.slug}.json" for search in study.searches]
    return [*(f"{results}/runs/{slug}/record.json" for slug in slugs(study)), *searches]


def trace_tables(results, study):
    """Imported ones come in the folder of the records."""
    measured = [] if MACHINES[results].bundle else slugs(study)
    return [
        f"{results}/runs/{slug}/trace_tables/{table}.csv"
        for slug in measured
        for table in TRACE_TABLES
    ]


def tables(wildcards):
    """Those of the study that a job is about, and of its experiments."""
    experiments = [entry.name for entry in study_of(wildcards).experiments_with_variants]
    return [f"{folder_of(wildcards)}/tables/{table}.csv" for table in [*STUDY_TABLES, *experiments]]


def tables_of_experiment(name):
    """Tables of an experiment on the report's machine; an experiment with nothing to measure there
    is refused.
    """
    experiment = MACHINES[ABOUT].study.alone(name).experiments[0]
    tables = [
        *([name] if experiment.variants else []),
        *(["batch_sizes"] if experiment.searches else []),
    ]
    return [f"{ABOUT}/experiments/{name}/tables/{table}.csv" for table in tables]


def documents_to_make():
    """The reports, as PDF and HTML, that this run writes."""
    made = (Path(file) for job in workflow.dag.needrun_jobs() for file in job.output)
    return [
        file for file in made if file.parent == Path("report") and file.suffix in {".pdf", ".html"}
    ]


def every_record():
    return [
        file for results, machine in MACHINES.items() for file in records(results, machine.study)
    ]


def image_manifest(wildcards):
    workload = study_of(wildcards).measurement(wildcards.variant).workload
    return f"{workload.settings['folder']}/manifest.json" if workload.reads_image_files else []
