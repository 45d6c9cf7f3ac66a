# Measuring: only the variants of the machine in hand, each alone on it.


def image_manifest(wildcards):
    folder = STUDY.measurement(wildcards.variant).workload.settings.get("folder")
    return f"{folder}/manifest.json" if folder else []


rule write_image_files:
    output:
        "results/data/images-{train}-{test}-{pixels}px/manifest.json",
    log:
        "results/logs/write_image_files/images-{train}-{test}-{pixels}px.log",
    wildcard_constraints:
        train=r"\d+",
        test=r"\d+",
        pixels=r"\d+",
    shell:
        "gpu-report write-image-files --train-samples {wildcards.train} --test-samples {wildcards.test}"
        " --image-px {wildcards.pixels} --manifest {output:q} 2> {log:q}"


# Snakemake sets OMP_NUM_THREADS to the value of --cores, which may be more than the machine has: unset, PyTorch counts.
rule measure_variant:
    input:
        image_files=image_manifest,
    output:
        record=f"{HERE}/runs/{{variant}}/record.json",
        trace=directory(f"{HERE}/runs/{{variant}}/trace"),
    log:
        f"{HERE}/logs/measure_variant/{{variant}}.log",
    params:
        measurement=measurement,
        machine=MACHINE.id,
    threads: workflow.cores
    priority: 10
    shell:
        "env -u OMP_NUM_THREADS -u MKL_NUM_THREADS"
        " gpu-report measure-variant --measurement {params.measurement:q} --machine {params.machine:q}"
        " --record {output.record:q} --trace {output.trace:q} 2> {log:q}"


rule tabulate_trace:
    input:
        record=f"{HERE}/runs/{{variant}}/record.json",
        trace=f"{HERE}/runs/{{variant}}/trace",
        code=sources("traces", "columns"),
    output:
        expand(f"{HERE}/runs/{{{{variant}}}}/trace_tables/{{table}}.csv", table=TRACE_TABLES),
    log:
        f"{HERE}/logs/tabulate_trace/{{variant}}.log",
    shell:
        "gpu-report tabulate-trace --record {input.record:q} --trace {input.trace:q}"
        " --tables $(dirname {output[0]:q}) 2> {log:q}"
