# A cluster's machines of which nothing is known yet: a job on each finds out which machine it is.
# What is measured on it, and where its results are, follows from that, so this comes first and
# alone.

if workflow.is_main_process:
    say(
        f"{', '.join(SHOWN.unknown)}: no job has found out yet which machine this is; a run without a target does that alone",
        to_stderr=True,
    )


onsuccess:
    say("the machines are known now; run the same command again to measure on them")


rule describe_machine:
    output:
        "results/machines/{measured}.json",
    log:
        "results/machines/{measured}.log",
    conda:
        ENVIRONMENT
    threads: cores_of
    resources:
        **OF_CLUSTER,
    params:
        selection=lambda wildcards: SHOWN.unknown[wildcards.measured].selection,
    message:
        "finding out which machine {wildcards.measured} is"
    shell:
        "gpu-report stage describe-machine --name {wildcards.measured:q} 2> {log:q}"
