# From records and trace tables to each machine's tables and findings, and to the comparison of the machines.


# One experiment without waiting for the others: the same table as tabulate_study's, which reads every record once for
# all of them, in a folder of its own.
rule tabulate_experiment:
    input:
        records=lambda wildcards: records(wildcards.results, variants_of(wildcards.results, wildcards.experiment)),
        trace_tables=lambda wildcards: trace_tables(
            wildcards.results, variants_of(wildcards.results, wildcards.experiment)
        ),
        code=sources("tables", "traces"),
    output:
        "{results}/experiments/{experiment}.csv",
    log:
        "{results}/logs/tabulate_experiment/{experiment}.log",
    conda:
        "../../environment.yml"
    params:
        experiment=lambda wildcards: experiment_json(wildcards.results, wildcards.experiment),
        today=lambda wildcards: today(wildcards.results, variants_of(wildcards.results, wildcards.experiment)),
        prices=PRICES,
    message:
        "tabulating the experiment {wildcards.experiment} of {wildcards.results}"
    shell:
        "gpu-report tabulate-experiment --experiment {params.experiment:q} --today {params.today:q}"
        " --prices {params.prices:q} --runs {wildcards.results:q}/runs --table {output:q} 2> {log:q}"


for experiment_name in EXPERIMENTS:

    rule:
        name:
            experiment_name
        input:
            [f"{ABOUT}/experiments/{experiment_name}.csv"] if variants_of(ABOUT, experiment_name) else [],


rule tabulate_calibration:
    input:
        calibration="{results}/calibration.json",
        code=sources("tables", "traces"),
    output:
        [shown_csv(f"{{results}}/tables/{table}.csv") for table in CALIBRATION_TABLES],
    log:
        "{results}/logs/tabulate_calibration.log",
    conda:
        "../../environment.yml"
    message:
        "tabulating the calibration of {wildcards.results}"
    shell:
        "gpu-report tabulate-calibration --calibration {input.calibration:q} --tables {wildcards.results:q}/tables"
        " 2> {log:q}"


rule transfer:
    input:
        [f"{ABOUT}/tables/{table}.csv" for table in CALIBRATION_TABLES],


rule tabulate_study:
    input:
        records=lambda wildcards: records(wildcards.results, slugs(MACHINES[wildcards.results].study.variants)),
        trace_tables=lambda wildcards: trace_tables(
            wildcards.results, slugs(MACHINES[wildcards.results].study.variants)
        ),
        calibration="{results}/calibration.json",
        code=sources("tables", "traces"),
    output:
        [
            shown_csv(f"{{results}}/tables/{table}.csv")
            for table in [*EXPERIMENTS, *STUDY_TABLES]
            if table not in CALIBRATION_TABLES
        ],
    log:
        "{results}/logs/tabulate_study.log",
    priority: 2  # nearly everything waits for it
    conda:
        "../../environment.yml"
    params:
        variants=lambda wildcards: slugs(MACHINES[wildcards.results].study.variants),
        experiments=lambda wildcards: all_experiments_json(wildcards.results),
        today=lambda wildcards: today(wildcards.results, slugs(MACHINES[wildcards.results].study.variants)),
        prices=PRICES,
    message:
        "tabulating the study of {wildcards.results}"
    shell:
        "gpu-report tabulate-study --variants {params.variants} --experiments {params.experiments:q}"
        " --today {params.today:q} --prices {params.prices:q} --runs {wildcards.results:q}/runs"
        " --calibration {input.calibration:q} --tables {wildcards.results:q}/tables 2> {log:q}"


rule derive_findings:
    input:
        tables=lambda wildcards: tables(wildcards.results),
        experiments=lambda wildcards: experiment_tables(wildcards.results),
        code=sources("findings", "tables", "traces"),
    output:
        findings="{results}/findings.json",
        evidence=shown_csv("{results}/findings.csv", "findings"),
    log:
        "{results}/logs/derive_findings.log",
    conda:
        "../../environment.yml"
    params:
        experiments=lambda wildcards: experiments_json(wildcards.results),
    message:
        "deriving the findings of {wildcards.results}"
    shell:
        "gpu-report derive-findings --experiments {params.experiments:q}"
        " --results {wildcards.results:q} --findings {output.findings:q}"
        " --evidence {output.evidence:q} 2> {log:q}"


rule compare_machines:
    input:
        records=every_record(records),
        variants=[f"{results}/tables/variants.csv" for results in MACHINES],
        code=sources("tables", "traces"),
    output:
        shown_comparison("results/comparison.csv", "csv"),
    log:
        "results/logs/compare_machines.log",
    conda:
        "../../environment.yml"
    params:
        machines=list(MACHINES),
        today=today_everywhere(),
    message:
        "comparing the machines"
    shell:
        "gpu-report compare-machines --machines {params.machines:q} --today {params.today:q}"
        " --comparison {output:q} 2> {log:q}"


rule derive_comparison:
    input:
        comparison=rules.compare_machines.output,
        code=sources("findings", "tables", "traces"),
    output:
        findings="results/findings.json",
        evidence=shown_comparison("results/findings.csv", "findings"),
    log:
        "results/logs/derive_comparison.log",
    conda:
        "../../environment.yml"
    message:
        "deriving what the comparison of the machines says"
    shell:
        "gpu-report derive-comparison --comparison {input.comparison:q} --findings {output.findings:q}"
        " --evidence {output.evidence:q} 2> {log:q}"
