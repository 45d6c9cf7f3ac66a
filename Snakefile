# The study from configuration to PDF; its rules are in the package, in gpu_report/workflow.

from gpu_report.workflow import RULES


include: RULES


localrules:
    all,


rule all:
    default_target: True
    input:
        WANTED,
