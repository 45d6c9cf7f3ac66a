# What the rules share: the machine in hand, the study expanded for it, and the arguments handed to the commands.

import json
from dataclasses import asdict
from pathlib import Path

from snakemake.exceptions import WorkflowError

from gpu_report.errors import ConfigError, GpuReportError
from gpu_report.machine import find_machine
from gpu_report.run_registry import release_stale_lock
from gpu_report.study import load_study
from gpu_report.tables import schema
from gpu_report.tables.marks import Today
from gpu_report.traces import tables as trace_schema

try:
    release_stale_lock()
    MACHINE = find_machine()
    STUDY = load_study(config, devices=MACHINE.devices)
except GpuReportError as error:
    where = f"{', '.join(map(str, workflow.configfiles))}: " if isinstance(error, ConfigError) else ""
    raise WorkflowError(f"{where}{error}")

HERE = f"results/machines/{MACHINE.id}"
VARIANTS = [variant.slug for variant in STUDY.variants]
EXPERIMENTS = [experiment.name for experiment in STUDY.experiments]
TEMPLATES = sorted(
    {
        "report/gpu_report.sty",
        *map(str, Path("report").rglob("*.j2")),
        # Named even where it is missing, so that its lack is told before anything is measured.
        *(f"report/sections/{name}.tex.j2" for name in EXPERIMENTS),
    }
)
STUDY_TABLES = [table.name for table in schema.STUDY_TABLES]
TRACE_TABLES = [table.name for table in trace_schema.TRACE_TABLES]


wildcard_constraints:
    variant=r"[a-z0-9_+-]+",
    experiment="|".join(EXPERIMENTS),


def as_json(value):
    return json.dumps(value, sort_keys=True)


# Modules that any stage after the measuring may use; such a stage is cheap, so it runs again once too often at worst.
SHARED = ["catalogue", "columns", "commands", "number_format", "provenance", "records", "study", "variant"]


def sources(*packages):
    """The Python files of these parts of the package: an edit to them makes a cheap stage run again."""
    folder = Path("src/gpu_report")
    files = [
        file
        for package in [*packages, *SHARED]
        for file in ((folder / package).rglob("*.py") if (folder / package).is_dir() else [folder / f"{package}.py"])
    ]
    return sorted(map(str, files))


def today(variants):
    """What would measure these variants today, so that a record made otherwise is marked."""
    return as_json(asdict(Today.of(STUDY, variants)))


def measurement(wildcards):
    return as_json(STUDY.measurement(wildcards.variant).as_dict())


def experiment_json(name):
    return as_json(next(experiment.as_dict() for experiment in STUDY.experiments if experiment.name == name))


def records(variants):
    return [f"{HERE}/runs/{variant}/record.json" for variant in variants]


def image_manifest(wildcards):
    workload = STUDY.measurement(wildcards.variant).workload
    return f"{workload.settings['folder']}/manifest.json" if workload.reads_image_files else []


def variants_of(experiment):
    return [variant.slug for entry in STUDY.experiments if entry.name == experiment for variant in entry.variants]
