# What the rules share: the machine in hand, the study expanded for it, and the arguments handed to the commands.

import json
from dataclasses import asdict
from pathlib import Path

from snakemake.exceptions import WorkflowError

from gpu_report.errors import GpuReportError
from gpu_report.machine import find_machine
from gpu_report.provenance import code_digest
from gpu_report.run_registry import release_stale_lock
from gpu_report.study import load_study

try:
    release_stale_lock()
    MACHINE = find_machine()
    STUDY = load_study(config, devices=MACHINE.devices)
except GpuReportError as error:
    raise WorkflowError(f"{', '.join(map(str, workflow.configfiles))}: {error}")

HERE = f"results/machines/{MACHINE.id}"
VARIANTS = [variant.slug for variant in STUDY.variants]
EXPERIMENTS = [experiment.name for experiment in STUDY.experiments]
TEMPLATES = sorted(Path("report").rglob("*.j2")) + [Path("report/gpu_report.sty")]
STUDY_TABLES = [
    "variants",
    "convergence",
    "losses",
    "epochs",
    "consistency",
    "top_operations",
    "category_shares",
    "machine",
]
TRACE_TABLES = ["operations", "kernels", "categories", "steps"]


wildcard_constraints:
    variant=r"[a-z0-9_-]+",
    experiment="|".join(EXPERIMENTS),


def as_json(value):
    return json.dumps(value, sort_keys=True)


def sources(*packages):
    """The Python files of these parts of the package: an edit to them makes a cheap stage run again."""
    folder = Path("src/gpu_report")
    files = [
        file
        for package in packages
        for file in ((folder / package).rglob("*.py") if (folder / package).is_dir() else [folder / f"{package}.py"])
    ]
    return sorted(map(str, files))


TODAY = as_json({"code_digest": code_digest(), "protocol": asdict(STUDY.protocol)})


def measurement(wildcards):
    return as_json(STUDY.measurement(wildcards.variant).as_dict())


def experiment_json(name):
    return as_json(next(experiment.as_dict() for experiment in STUDY.experiments if experiment.name == name))


def records(variants):
    return [f"{HERE}/runs/{variant}/record.json" for variant in variants]


def image_manifest(wildcards):
    folder = STUDY.measurement(wildcards.variant).workload.settings.get("folder")
    return f"{folder}/manifest.json" if folder else []


def variants_of(experiment):
    return [variant.slug for entry in STUDY.experiments if entry.name == experiment for variant in entry.variants]
