# The TensorBoard logs of the machine in hand; published machines have no traces to show there.


rule write_tensorboard_logs:
    input:
        records=records(HERE, slugs(STUDY.variants)),
        code=sources("tensorboard_logs", "tables", "traces"),
    output:
        directory("results/tensorboard"),
    log:
        "results/logs/write_tensorboard_logs.log",
    conda:
        "../../environment.yml"
    params:
        variants=slugs(STUDY.variants),
    message:
        "writing the TensorBoard logs"
    shell:
        "gpu-report write-tensorboard-logs --variants {params.variants}"
        f" --runs {HERE}/runs --logs {{output:q}} 2> {{log:q}}"
