# From records and trace tables to each machine's tables and findings, and to the comparison of the
# machines.


# A rule with `_alone` in its name does for one experiment, in a folder of its own, what the rule
# without does for all, so that the experiment need not wait for the others. A variant is measured
# for both at once.


rule tabulate_calibration:
    input:
        calibration="{results}/calibration.json",
    output:
        [f"{{results}}/tables/{table}.csv" for table in CALIBRATION_TABLES],
    log:
        "{results}/logs/tabulate_calibration.log",
    conda:
        ENVIRONMENT
    params:
        code=sources("tables", "traces"),
        folder=folder_of,
    message:
        "tabulating the calibration of {wildcards.results}"
    shell:
        "gpu-report stage tabulate-calibration --calibration {input.calibration:q} --tables {params.folder:q}/tables"
        " 2> {log:q}"


rule transfer:
    input:
        [f"{ABOUT}/tables/{table}.csv" for table in CALIBRATION_TABLES],


use rule tabulate_calibration as tabulate_calibration_alone with:
    output:
        [
            f"{{results}}/experiments/{{experiment}}/tables/{table}.csv"
            for table in CALIBRATION_TABLES
        ],
    log:
        "{results}/logs/tabulate_calibration/{experiment}.log",
    message:
        "tabulating the calibration of {wildcards.results} for {wildcards.experiment}"


rule tabulate_study:
    input:
        records=lambda wildcards: records(wildcards.results, study_of(wildcards)),
        trace_tables=lambda wildcards: trace_tables(wildcards.results, study_of(wildcards)),
        calibration="{results}/calibration.json",
    output:
        [f"{{results}}/tables/{table}.csv" for table in [*EXPERIMENTS, *TABLES_OF_RECORDS]],
        "{results}/tables/study.json",
    log:
        "{results}/logs/tabulate_study.log",
    priority: 2  # nearly everything waits for it
    conda:
        ENVIRONMENT
    params:
        code=sources("tables", "traces"),
        study=study_arguments,
        asked=asked_digest,
    message:
        "tabulating the study of {wildcards.results}"
    shell:
        "gpu-report stage tabulate-study {params.study} 2> {log:q}"


use rule tabulate_study as tabulate_study_alone with:
    output:
        [
            f"{{results}}/experiments/{{experiment}}/tables/{table}.csv"
            for table in ["{experiment}", *TABLES_OF_RECORDS]
        ],
        "{results}/experiments/{experiment}/tables/study.json",
    log:
        "{results}/logs/tabulate_study/{experiment}.log",
    message:
        "tabulating the experiment {wildcards.experiment} of {wildcards.results}"


for experiment_name in EXPERIMENTS:

    rule:
        name:
            experiment_name
        input:
            lambda wildcards, name=experiment_name: tables_of_experiment(name),


rule derive_findings:
    input:
        tables=tables,
    output:
        findings="{results}/findings.json",
        evidence="{results}/findings.csv",
    log:
        "{results}/logs/derive_findings.log",
    conda:
        ENVIRONMENT
    params:
        code=sources("answers", "words", "tables", "traces"),
        study=study_arguments,
        asked=asked_digest,
    message:
        "deriving the findings of {wildcards.results}"
    shell:
        "gpu-report stage derive-findings {params.study} 2> {log:q}"


use rule derive_findings as derive_findings_alone with:
    output:
        findings="{results}/experiments/{experiment}/findings.json",
        evidence="{results}/experiments/{experiment}/findings.csv",
    log:
        "{results}/logs/derive_findings/{experiment}.log",
    message:
        "deriving the findings of the experiment {wildcards.experiment} of {wildcards.results}"


rule compare_machines:
    input:
        records=every_record(),
        steps=[f"{results}/tables/step_shares.csv" for results in MACHINES],
    output:
        comparison="results/comparison.csv",
        findings="results/findings.json",
        evidence="results/findings.csv",
    log:
        "results/logs/compare_machines.log",
    conda:
        ENVIRONMENT
    params:
        code=sources("answers", "words", "tables", "traces"),
        studies=[f"{results}/study.json" for results in MACHINES],
        asked=[resolved_study(results).digest for results in MACHINES],
    message:
        "comparing the machines"
    shell:
        "gpu-report stage compare-machines --studies {params.studies:q} --comparison {output.comparison:q} 2> {log:q}"


# What the report takes of these; one machine is compared with none.
IS_COMPARED = len(MACHINES) > 1
COMPARISON = rules.compare_machines.output.comparison if IS_COMPARED else []
