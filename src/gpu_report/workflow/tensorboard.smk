# The TensorBoard logs of the machine that is measured; published machines have no traces to show
# there.


rule write_tensorboard_logs:
    input:
        records=records(ABOUT, MACHINES[ABOUT].study),
    output:
        directory("results/tensorboard"),
    log:
        "results/logs/write_tensorboard_logs.log",
    conda:
        ENVIRONMENT
    params:
        code=sources("tables", "traces"),
        study=f"{ABOUT}/study.json",
        variants=slugs(MACHINES[ABOUT].study),
    message:
        "writing the TensorBoard logs"
    shell:
        "gpu-report stage write-tensorboard-logs --study {params.study:q} --logs {output:q} 2> {log:q}"
