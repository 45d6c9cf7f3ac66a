# A cluster's machines of which nothing is known yet: a job on each finds out which machine it is. What is measured on it,
# and where its results are, follows from that, so this comes first and alone.

if workflow.is_main_process:
    for name in SHOWN.unknown:
        description_file(name).unlink(missing_ok=True)  # of another request


onsuccess:
    say("the machines are known now; run the same command again to measure on them")


rule describe_machine:
    output:
        "results/machines/{measured}.json",
    log:
        "results/machines/{measured}.log",
    conda:
        "../../environment.yml"
    threads: cores_of
    resources:
        **OF_CLUSTER,
    message:
        "finding out which machine {wildcards.measured} is"
    shell:
        "gpu-report describe-machine --name {wildcards.measured:q} 2> {log:q}"
