# The study from configuration to PDF: which rules there are. What they call is in the package.

from pathlib import Path

from snakemake.utils import min_version

min_version("9.17")

# Where a study, its workloads and its templates can be: in a folder that `--directory` names, and
# beside the Snakefile.
FOLDERS = [Path(), Path(workflow.basedir)]
if FOLDERS[1].samefile(Path.cwd()):
    del FOLDERS[1]
STUDIES = [folder / "config/study.yaml" for folder in FOLDERS]
if not workflow.overwrite_configfiles:

    configfile: next(filter(Path.exists, STUDIES), STUDIES[-1])


include: "common.smk"


# What a run without a target makes.
if SHOWN.unknown:

    include: "find_machines.smk"

    WANTED = [str(description_file(name)) for name in SHOWN.unknown]

else:
    if SHOWN.measured:

        include: "measure.smk"
        include: "tensorboard.smk"
    include: "bundles.smk"
    include: "tables.smk"
    include: "report.smk"

    WANTED = ["report/gpu_report.pdf", *(["results/tensorboard"] if SHOWN.measured else [])]


if workflow.is_main_process:
    for each in workflow.rules:
        each.set_input(absent=made_again_if_absent(each))


# On a cluster, what needs a machine is a job there; all else runs where snakemake does.
ON_MACHINES = {"describe_machine", "calibrate_machine", "measure_variant", "search_batch_size"}
workflow.localrules(*({rule.name for rule in workflow.rules} - ON_MACHINES))
