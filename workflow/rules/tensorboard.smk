# The TensorBoard logs of this machine; published machines have no traces to show there.


rule write_tensorboard_logs:
    input:
        records=records(HERE, STUDY),
        code=sources("tables", "traces"),
    output:
        directory("results/tensorboard"),
    log:
        "results/logs/write_tensorboard_logs.log",
    conda:
        "../../environment.yml"
    params:
        study=f"{HERE}/study.json",
        variants=slugs(STUDY),
    message:
        "writing the TensorBoard logs"
    shell:
        "gpu-report write-tensorboard-logs --study {params.study:q} --logs {output:q} 2> {log:q}"
