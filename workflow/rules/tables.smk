# From records and trace tables to the study's tables, findings and figures.


rule tabulate_experiment:
    input:
        records=lambda wildcards: records(variants_of(wildcards.experiment)),
        code=sources("tables"),
    output:
        f"{HERE}/tables/{{experiment}}.csv",
    log:
        f"{HERE}/logs/tabulate_experiment/{{experiment}}.log",
    conda:
        "../../environment.yml"
    params:
        experiment=lambda wildcards: experiment_json(wildcards.experiment),
        today=lambda wildcards: today(variants_of(wildcards.experiment)),
    message:
        "tabulating the experiment {wildcards.experiment}"
    shell:
        "gpu-report tabulate-experiment --experiment {params.experiment:q} --today {params.today:q}"
        f" --runs {HERE}/runs --table {{output:q}} 2> {{log:q}}"


for experiment_name in EXPERIMENTS:

    rule:
        name:
            experiment_name
        input:
            f"{HERE}/tables/{experiment_name}.csv",


rule tabulate_study:
    input:
        records=records(VARIANTS),
        trace_tables=expand(f"{HERE}/runs/{{variant}}/trace_tables/{{table}}.csv", variant=VARIANTS, table=TRACE_TABLES),
        code=sources("tables"),
    output:
        expand(f"{HERE}/tables/{{table}}.csv", table=STUDY_TABLES),
    log:
        f"{HERE}/logs/tabulate_study.log",
    conda:
        "../../environment.yml"
    params:
        variants=VARIANTS,
        today=today(VARIANTS),
    message:
        "tabulating the study"
    shell:
        "gpu-report tabulate-study --variants {params.variants} --today {params.today:q}"
        f" --runs {HERE}/runs --tables {HERE}/tables 2> {{log:q}}"


rule derive_findings:
    input:
        tables=rules.tabulate_study.output,
        experiments=expand(f"{HERE}/tables/{{experiment}}.csv", experiment=EXPERIMENTS),
        code=sources("findings", "tables"),
    output:
        f"{HERE}/findings.json",
    log:
        f"{HERE}/logs/derive_findings.log",
    conda:
        "../../environment.yml"
    params:
        experiments=as_json([experiment.as_dict() for experiment in STUDY.experiments]),
    message:
        "deriving the findings"
    shell:
        "gpu-report derive-findings --experiments {params.experiments:q}"
        f" --results {HERE} --findings {{output:q}} 2> {{log:q}}"
