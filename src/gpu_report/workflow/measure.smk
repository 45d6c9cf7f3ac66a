# Measuring: the variants of this machine, or of a cluster's machines by jobs on them, each alone on
# its machine.


rule write_image_files:
    output:
        "results/data/images-{train}-{test}-{pixels}px/manifest.json",
    log:
        "results/logs/write_image_files/images-{train}-{test}-{pixels}px.log",
    wildcard_constraints:
        train=r"\d+",
        test=r"\d+",
        pixels=r"\d+",
    priority: 20
    conda:
        ENVIRONMENT
    message:
        "writing the image files of {output}"
    shell:
        "gpu-report write-image-files --train-samples {wildcards.train} --test-samples {wildcards.test}"
        " --image-px {wildcards.pixels} --manifest {output:q} 2> {log:q}"


# The measured peaks behind efficiency and transfers, only of devices that the study trains on, and
# of the link between those that share a training.
rule calibrate_machine:
    output:
        "results/machines/{measured}/calibration.json",
    log:
        "results/machines/{measured}/logs/calibrate_machine.log",
    priority: 20
    conda:
        ENVIRONMENT
    threads: cores_of
    resources:
        **OF_CLUSTER,
    params:
        machine="{measured}",
        devices=lambda wildcards: study_of(wildcards).trained_devices,
        linked=lambda wildcards: study_of(wildcards).linked_devices,
        protocol=lambda wildcards: study_of(wildcards).protocol.version,
    message:
        "calibrating the devices of {wildcards.measured}"
    shell:
        "gpu-report calibrate --machine {params.machine:q} --devices {params.devices:q}"
        " --linked {params.linked:q} --calibration {output:q}"
        " 2> {log:q}"


# Snakemake runs a rule again when its command has changed: an edit to this one measures everything
# again. No rule reads the memory snapshot beside the traces, so you may delete it.
rule measure_variant:
    input:
        image_files=lambda wildcards: ancient(image_manifest(wildcards)),
    output:
        record="results/machines/{measured}/runs/{variant}/record.json",
        trace=directory("results/machines/{measured}/runs/{variant}/trace"),
        rich_trace=directory("results/machines/{measured}/runs/{variant}/rich_trace"),
    log:
        "results/machines/{measured}/logs/measure_variant/{variant}.log",
    priority: turn_of_workload
    conda:
        ENVIRONMENT
    threads: cores_of
    resources:
        **OF_CLUSTER,
    params:
        measurement=lambda wildcards: study_of(wildcards).measurement(wildcards.variant).as_dict(),
        study="results/machines/{measured}/study.json",
    message:
        "measuring {wildcards.variant}"
    shell:
        "gpu-report measure-variant --study {params.study:q} --variant {wildcards.variant:q} 2> {log:q}"


# As for measure_variant, an edit to the command searches anew.
rule search_batch_size:
    output:
        "results/machines/{measured}/batch_sizes/{search}.json",
    log:
        "results/machines/{measured}/logs/search_batch_size/{search}.log",
    priority: 5
    conda:
        ENVIRONMENT
    threads: cores_of
    resources:
        **OF_CLUSTER,
    params:
        search=lambda wildcards: asdict(study_of(wildcards).search(wildcards.search)),
        study="results/machines/{measured}/study.json",
    message:
        "searching the batch size of {wildcards.search}"
    shell:
        "gpu-report search-batch-size --study {params.study:q} --search {wildcards.search:q} 2> {log:q}"


# Further processes of what a time budget left at three: those that an open claim needs, or without
# a budget all of them. Their records grow in place, with their trace tables, and the study's tables
# wait for that.
rule measure_further:
    input:
        lambda wildcards: measured(results_of(wildcards), study_of(wildcards)),
    output:
        touch("results/machines/{measured}/further.measured"),
    log:
        "results/machines/{measured}/logs/measure_further.log",
    priority: 8
    conda:
        ENVIRONMENT
    threads: cores_of
    params:
        study=study_arguments,
        minutes=config.get("minutes"),
    message:
        "measuring further processes on {wildcards.measured}"
    shell:
        "gpu-report measure-further {params.study} 2> {log:q}"


use rule measure_further as measure_further_alone with:
    output:
        touch("results/machines/{measured}/experiments/{experiment}/further.measured"),
    log:
        "results/machines/{measured}/logs/measure_further/{experiment}.log",
    message:
        "measuring further processes of {wildcards.experiment} on {wildcards.measured}"


# The sentinels at the end: after everything else, and again after each addition. Before that, jobs
# of measure_variant measure them where it is due. Their folder is no output: Snakemake would delete
# the points in it before the next are measured.
rule measure_sentinels:
    input:
        lambda wildcards: measured(results_of(wildcards), study_of(wildcards)),
        lambda wildcards: further(results_of(wildcards), study_of(wildcards)),
    output:
        touch("results/machines/{measured}/sentinels.measured"),
    log:
        "results/machines/{measured}/logs/measure_sentinels.log",
    conda:
        ENVIRONMENT
    threads: cores_of
    params:
        study="results/machines/{measured}/study.json",
        sentinels=lambda wildcards: [each.as_dict() for each in study_of(wildcards).sentinels],
    message:
        "measuring the sentinels of {wildcards.measured}"
    shell:
        "gpu-report measure-sentinels --study {params.study:q} 2> {log:q}"


rule tabulate_trace:
    input:
        record="results/machines/{measured}/runs/{variant}/record.json",
        trace="results/machines/{measured}/runs/{variant}/trace",
        rich_trace="results/machines/{measured}/runs/{variant}/rich_trace",
    output:
        **{
            table: f"results/machines/{{measured}}/runs/{{variant}}/trace_tables/{table}.csv"
            for table in TRACE_TABLES
        },
    log:
        "results/machines/{measured}/logs/tabulate_trace/{variant}.log",
    conda:
        ENVIRONMENT
    params:
        code=sources("traces"),
    message:
        "tabulating the trace of {wildcards.variant}"
    shell:
        "gpu-report stage tabulate-trace --record {input.record:q} --trace {input.trace:q}"
        " --tables $(dirname {output.steps:q}) 2> {log:q}"
