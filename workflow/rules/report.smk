# From tables and findings to figures, sections and the PDF.

import shlex

from gpu_report.writing.layout import NUMBERS_CSV, written_files

WRITTEN = [f"report/{name}" for name in written_files(EXPERIMENTS)]
WRITTEN_ALONE = [
    f"report/experiments/{{experiment}}/{name}"
    for name in ["gpu_report.sty", *written_files(["{experiment}"], alone=True)]
]
NUMBERS = f"report/{NUMBERS_CSV}"
DESCRIPTIONS = [f"src/gpu_report/writing/{module}.py" for module in ("pictures", "restructured")]
STUDY_AS_WRITTEN = as_json(
    {
        "title": config["title"],
        # Those without a variant on any machine as well.
        "experiments": [entry.as_dict() for entry in SHOWN.machines[0].study.experiments],
        "machines": [
            {"id": machine.id, "experiments": [entry.as_dict() for entry in machine.study.experiments_with_variants]}
            for machine in SHOWN.machines
        ],
    }
)


rule draw_figures:
    input:
        tables=tables,
        code=[*sources("figures", "tables", "traces"), *DESCRIPTIONS],
    output:
        shown_figures("report/figures/{machine}", "{machine}"),
    log:
        "results/logs/draw_figures/{machine}.log",
    priority: 1  # takes longest
    conda:
        "../../environment.yml"
    params:
        experiments=lambda wildcards: experiments_json(study_of(wildcards).experiments_with_variants),
        results=folder_of,
        which="",
    message:
        "drawing the figures of {wildcards.machine}"
    shell:
        "gpu-report draw-figures {params.which} --experiments {params.experiments:q}"
        " --results {params.results:q} --figures {output:q} 2> {log:q}"


use rule draw_figures as draw_figures_alone with:
    output:
        directory("report/experiments/{experiment}/figures/{machine}"),
    log:
        "results/logs/draw_figures/{machine}-{experiment}.log",
    params:
        experiments=lambda wildcards: experiments_json(study_of(wildcards).experiments),
        results=folder_of,
        which="--alone",
    message:
        "drawing the figures of the experiment {wildcards.experiment} of {wildcards.machine}"


rule draw_comparison:
    input:
        comparison=rules.compare_machines.output,
        code=[*sources("figures", "tables", "traces"), *DESCRIPTIONS],
    output:
        shown_figures("report/figures/machines", COMPARED),
    log:
        "results/logs/draw_comparison.log",
    conda:
        "../../environment.yml"
    message:
        "drawing the machines side by side"
    shell:
        "gpu-report draw-comparison --comparison {input.comparison:q} --figures {output:q} 2> {log:q}"


rule draw_study:
    input:
        records=every_record(records),
        code=[*sources("figures", "tables", "traces"), *DESCRIPTIONS],
    output:
        shown_figures("report/figures/study", WORKLOADS),
    log:
        "results/logs/draw_study.log",
    conda:
        "../../environment.yml"
    params:
        study=STUDY_AS_WRITTEN,
        machines=list(MACHINES),
    message:
        "drawing the networks"
    shell:
        "gpu-report draw-study --study {params.study:q} --machines {params.machines:q}"
        " --figures {output:q} 2> {log:q}"


rule write_sections:
    input:
        tables=tables,
        findings=f"{ABOUT}/findings.json",
        comparison=rules.compare_machines.output,
        comparison_findings=rules.derive_comparison.output.findings,
        records=every_record(records),
        calibration=f"{ABOUT}/calibration.json",
        templates=TEMPLATES,
        code=[
            *sources("writing", "machine", "figures", "findings", "tables", "traces"),
            "src/gpu_report/measure/training.py",
        ],
    output:
        [name for name in WRITTEN if name != NUMBERS],
        numbers=shown_document(NUMBERS, "numbers"),
        floats=shown_tables("report/floats"),
    log:
        "results/logs/write_sections.log",
    conda:
        "../../environment.yml"
    params:
        study=STUDY_AS_WRITTEN,
        machines=list(MACHINES),
    message:
        "writing the sections"
    shell:
        "gpu-report write-sections --study {params.study:q} --machines {params.machines:q}"
        " --comparison {input.comparison:q} --comparison-findings {input.comparison_findings:q}"
        " --folder report 2> {log:q}"


rule write_sections_alone:
    input:
        tables=tables,
        findings=f"{ABOUT}/experiments/{{experiment}}/findings.json",
        records=lambda wildcards: records(ABOUT, slugs(study_of(wildcards).variants)),
        templates=TEMPLATES,
        code=rules.write_sections.input.code,
    output:
        WRITTEN_ALONE,
        floats=directory("report/experiments/{experiment}/floats"),
    log:
        "results/logs/write_sections/{experiment}.log",
    conda:
        "../../environment.yml"
    params:
        title=config["title"],
        experiment=lambda wildcards: as_json(study_of(wildcards).experiments[0].as_dict()),
        machine=MACHINES[ABOUT].id,
        runs=f"{ABOUT}/runs",
        results=folder_of,
    message:
        "writing the section of the experiment {wildcards.experiment}"
    shell:
        "gpu-report write-experiment --title {params.title:q} --experiment {params.experiment:q}"
        " --machine {params.machine:q} --runs {params.runs:q} --results {params.results:q}"
        " --folder report/experiments/{wildcards.experiment} 2> {log:q}"


# Snakemake forgets a failed middle step: its output is gone, and a PDF newer than its own inputs counts as done. So the
# PDF's rule names as its own what every stage before it reads: records, bundles, calibrations, all sources, the study.
rule compile_report:
    input:
        written=WRITTEN,
        floats=rules.write_sections.output.floats,
        figures=[
            f"report/figures/{MACHINES[ABOUT].id}",
            rules.draw_comparison.output,
            rules.draw_study.output,
        ],
        records=every_record(records),
        bundles=list(BUNDLES.values()),
        calibration=rules.write_sections.input.calibration,
        templates=TEMPLATES,
        code=[
            *sources("writing", "machine", "figures", "findings", "tables", "traces", "bundles"),
            "src/gpu_report/measure/training.py",
        ],
    output:
        shown_document("report/gpu_report.pdf", "document"),
    log:
        "results/logs/compile_report.log",
    conda:
        "../../environment.yml"
    params:
        study=STUDY_AS_WRITTEN,
        today=[today(machine.study) for machine in SHOWN.machines],
        prices=PRICES,
        records=record_files(ABOUT, slugs(MACHINES[ABOUT].study.variants)),
    message:
        "compiling the report"
    shell:
        "gpu-report compile-report --records {params.records:q} --folder $(dirname {input.floats:q})"
        " --pdf {output:q} 2> {log:q}"


use rule compile_report as compile_report_alone with:
    input:
        written=WRITTEN_ALONE,
        floats=rules.write_sections_alone.output.floats,
        figures=f"report/experiments/{{experiment}}/figures/{MACHINES[ABOUT].id}",
        records=rules.write_sections_alone.input.records,
        bundles=list(BUNDLES.values()),
        calibration=rules.write_sections.input.calibration,
        templates=TEMPLATES,
        code=rules.compile_report.input.code,
    output:
        "report/{experiment}.pdf",
    log:
        "results/logs/compile_report/{experiment}.log",
    params:
        study=rules.write_sections_alone.params.experiment,
        today=lambda wildcards: today(study_of(wildcards)),
        prices=PRICES,
        records=lambda wildcards: record_files(ABOUT, slugs(study_of(wildcards).variants)),
    message:
        "compiling the report on the experiment {wildcards.experiment}"


# For a document that sets the words of figures in its own fonts; the PDF files beside them stay as they are.
rule figures_in_pgf:
    input:
        figures=rules.compile_report.input.figures,
        comparison=rules.compare_machines.output,
    output:
        touch("report/figures/pgf.drawn"),
    log:
        "results/logs/figures_in_pgf.log",
    conda:
        "../../environment.yml"
    params:
        commands=" && ".join(
            [
                f"gpu-report draw-figures --format pgf --experiments {shlex.quote(experiments_json(MACHINES[ABOUT].study.experiments_with_variants))}"
                f" --results {ABOUT} --figures report/figures/{MACHINES[ABOUT].id}",
                f"gpu-report draw-comparison --format pgf --comparison {rules.compare_machines.output}"
                " --figures report/figures/machines",
                f"gpu-report draw-study --format pgf --study {shlex.quote(STUDY_AS_WRITTEN)}"
                f" --machines {' '.join(MACHINES)} --figures report/figures/study",
                # TeX would read them for minutes; a document takes their PDF files.
                "find report/figures -name '*.pgf' -size +1000k -delete",
            ]
        ),
    message:
        "drawing the figures as PGF"
    shell:
        "( {params.commands} ) 2> {log:q}"
