# Measuring: only the variants of this machine, each alone on it.


rule write_image_files:
    output:
        "results/data/images-{train}-{test}-{pixels}px/manifest.json",
    log:
        "results/logs/write_image_files/images-{train}-{test}-{pixels}px.log",
    wildcard_constraints:
        train=r"\d+",
        test=r"\d+",
        pixels=r"\d+",
    conda:
        "../../environment.yml"
    message:
        "writing the image files of {output}"
    shell:
        "gpu-report write-image-files --train-samples {wildcards.train} --test-samples {wildcards.test}"
        " --image-px {wildcards.pixels} --manifest {output:q} 2> {log:q}"


# The measured peaks behind efficiency and transfers, only of devices that the study trains on, and of the link between
# those that share a training.
rule calibrate_machine:
    output:
        f"{HERE}/calibration.json",
    log:
        f"{HERE}/logs/calibrate_machine.log",
    priority: 20
    conda:
        "../../environment.yml"
    threads: workflow.cores
    params:
        machine=MACHINE.id,
        devices=list(dict.fromkeys(each.device for each in [*STUDY.variants, *STUDY.searches])),
        linked=STUDY.linked_devices,
        protocol=STUDY.protocol.version,
    message:
        "calibrating the devices of this machine"
    shell:
        "gpu-report calibrate --machine {params.machine:q} --devices {params.devices:q}"
        " --linked {params.linked:q} --calibration {output:q}"
        " 2> {log:q}"


# Snakemake runs a rule again when its command has changed: an edit to this one measures everything anew.
rule measure_variant:
    input:
        image_files=lambda wildcards: ancient(image_manifest(wildcards)),
    output:
        record=f"{HERE}/runs/{{variant}}/record.json",
        trace=directory(f"{HERE}/runs/{{variant}}/trace"),
        rich_trace=directory(f"{HERE}/runs/{{variant}}/rich_trace"),
        memory=directory(f"{HERE}/runs/{{variant}}/memory"),
    log:
        f"{HERE}/logs/measure_variant/{{variant}}.log",
    priority: 10
    conda:
        "../../environment.yml"
    threads: workflow.cores
    params:
        measurement=lambda wildcards: STUDY.measurement(wildcards.variant).as_dict(),
        study=f"{HERE}/study.json",
    message:
        "measuring {wildcards.variant}"
    shell:
        "gpu-report measure-variant --study {params.study:q} --variant {wildcards.variant:q} 2> {log:q}"


# As for measure_variant, an edit to the command searches anew.
rule search_batch_size:
    output:
        f"{HERE}/batch_sizes/{{search}}.json",
    log:
        f"{HERE}/logs/search_batch_size/{{search}}.log",
    priority: 5
    conda:
        "../../environment.yml"
    threads: workflow.cores
    params:
        search=lambda wildcards: asdict(STUDY.search(wildcards.search)),
        study=f"{HERE}/study.json",
    message:
        "searching the batch size of {wildcards.search}"
    shell:
        "gpu-report search-batch-size --study {params.study:q} --search {wildcards.search:q} 2> {log:q}"


rule tabulate_trace:
    input:
        record=f"{HERE}/runs/{{variant}}/record.json",
        trace=f"{HERE}/runs/{{variant}}/trace",
        rich_trace=f"{HERE}/runs/{{variant}}/rich_trace",
        code=sources("traces"),
    output:
        **{table: f"{HERE}/runs/{{variant}}/trace_tables/{table}.csv" for table in TRACE_TABLES},
    log:
        f"{HERE}/logs/tabulate_trace/{{variant}}.log",
    conda:
        "../../environment.yml"
    message:
        "tabulating the trace of {wildcards.variant}"
    shell:
        "gpu-report tabulate-trace --record {input.record:q} --trace {input.trace:q}"
        " --tables $(dirname {output.steps:q}) 2> {log:q}"
