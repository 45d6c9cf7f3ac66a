# The study from configuration to PDF; the rules are in workflow/rules, what they call is in
# src/gpu_report.

from snakemake.utils import min_version

min_version("9.0")

if not workflow.overwrite_configfiles:

    configfile: "config/study.yaml"


include: "workflow/rules/common.smk"


if SHOWN.unknown:

    include: "workflow/rules/find_machines.smk"

    rule find_machines:
        default_target: True
        input:
            [str(description_file(name)) for name in SHOWN.unknown],

else:
    if SHOWN.measured:

        include: "workflow/rules/measure.smk"
        include: "workflow/rules/tensorboard.smk"
    include: "workflow/rules/bundles.smk"
    include: "workflow/rules/tables.smk"
    include: "workflow/rules/report.smk"

    rule all:
        default_target: True
        input:
            "report/gpu_report.pdf",
            "results/tensorboard" if SHOWN.measured else [],


if workflow.is_main_process:
    for each in workflow.rules:
        each.set_input(absent=made_again_if_absent(each))


# On a cluster, what needs a machine is a job there; all else runs where snakemake does.
ON_MACHINES = {"describe_machine", "calibrate_machine", "measure_variant", "search_batch_size"}
workflow.localrules(*({rule.name for rule in workflow.rules} - ON_MACHINES))
