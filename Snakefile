# The study from configuration to PDF; the rules are in workflow/rules, what they call is in src/gpu_report.

from snakemake.utils import min_version

min_version("9.0")

if not workflow.overwrite_configfiles:

    configfile: "config/study.yaml"


include: "workflow/rules/common.smk"


if MACHINE:

    include: "workflow/rules/measure.smk"
    include: "workflow/rules/tensorboard.smk"


include: "workflow/rules/bundles.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        "report/gpu_report.pdf",
        "results/tensorboard" if MACHINE else [],
