# From tables and findings to figures, sections and the PDF.

import os

from gpu_report.writing.layout import (
    LISTED_SOURCES,
    WRITTEN_BY_HAND,
    experiment_layout,
    report_layout,
)

LAYOUT = report_layout(EXPERIMENTS, config.get("leave_out", ()))
WRITTEN = [f"report/{name}" for name in [*WRITTEN_BY_HAND, *LAYOUT.files]]
WRITTEN_ALONE = [
    f"report/experiments/{{experiment}}/{name}"
    for name in [*WRITTEN_BY_HAND, *experiment_layout("{experiment}").files]
]

TEMPLATES_GIVEN = " ".join(f"--templates {quoted(str(folder))}" for folder in OWN_TEMPLATES)

# The command that makes this report again, with the study and the machines that were given for it.
OPTIONS = {
    "--configfile": [os.path.relpath(path) for path in workflow.overwrite_configfiles],
    "--config": workflow.config_settings.config_args or [],
}
REBUILT_BY = " ".join(
    [
        "snakemake --cores 4 report/gpu_report.pdf",
        *(f"--snakefile {quoted(os.path.relpath(workflow.main_snakefile))}" for _ in FOLDERS[1:]),
        *(" ".join([option, *map(quoted, given)]) for option, given in OPTIONS.items() if given),
    ]
)


rule draw_figures:
    input:
        tables=tables,
    output:
        directory("report/figures/{machine}"),
    log:
        "results/logs/draw_figures/{machine}.log",
    priority: 1  # takes longest
    conda:
        ENVIRONMENT
    params:
        code=sources("figures", "answers", "words", "tables", "traces", "writing/layout"),
        study=study_arguments,
        asked=asked_digest,
    message:
        "drawing the figures of {wildcards.machine}"
    shell:
        "gpu-report stage draw-figures {params.study} --figures {output:q} 2> {log:q}"


use rule draw_figures as draw_figures_alone with:
    output:
        directory("report/experiments/{experiment}/figures/{machine}"),
    log:
        "results/logs/draw_figures/{machine}-{experiment}.log",
    message:
        "drawing the figures of the experiment {wildcards.experiment} of {wildcards.machine}"


rule draw_comparison:
    input:
        comparison=rules.compare_machines.output.comparison,
    output:
        directory("report/figures/machines"),
    log:
        "results/logs/draw_comparison.log",
    conda:
        ENVIRONMENT
    params:
        code=sources("figures", "words", "tables", "traces"),
    message:
        "drawing the machines side by side"
    shell:
        "gpu-report stage draw-comparison --comparison {input.comparison:q} --figures {output:q} 2> {log:q}"


rule draw_study:
    input:
        records=records(ABOUT, MACHINES[ABOUT].study),
    output:
        directory("report/figures/study"),
    log:
        "results/logs/draw_study.log",
    conda:
        ENVIRONMENT
    params:
        code=sources("figures", "words", "tables", "traces"),
        study=study_arguments,
        asked=asked_digest,
    message:
        "drawing the networks"
    shell:
        "gpu-report stage draw-study {params.study} --figures {output:q} 2> {log:q}"


rule write_sections:
    input:
        tables=tables,
        findings=f"{ABOUT}/findings.json",
        comparison=COMPARISON,
        comparison_findings=rules.compare_machines.output.findings if IS_COMPARED else [],
        records=rules.draw_study.input.records,
        calibration=f"{ABOUT}/calibration.json",
        templates=TEMPLATES,
        listed=[PACKAGE / source for source in LISTED_SOURCES],
    output:
        WRITTEN,
        floats=directory("report/floats"),
    log:
        "results/logs/write_sections.log",
    conda:
        ENVIRONMENT
    params:
        code=sources("writing", "figures", "answers", "words", "tables", "traces"),
        study=study_arguments,
        asked=asked_digest,
        rebuilt_by=REBUILT_BY,
        templates=TEMPLATES_GIVEN,
    message:
        "writing the sections"
    shell:
        "gpu-report stage write-sections {params.study} --comparison {input.comparison:q}"
        " --rebuilt-by {params.rebuilt_by:q} {params.templates} --folder report 2> {log:q}"


rule write_sections_alone:
    input:
        tables=tables,
        findings=f"{ABOUT}/experiments/{{experiment}}/findings.json",
        # An experiment without a report of its own is refused here, before anything is measured for
        # it.
        records=lambda wildcards: records(
            ABOUT, MACHINES[ABOUT].study.reported_alone(wildcards.experiment)
        ),
        templates=TEMPLATES,
        listed=[PACKAGE / source for source in LISTED_SOURCES],
    output:
        WRITTEN_ALONE,
        floats=directory("report/experiments/{experiment}/floats"),
    log:
        "results/logs/write_sections/{experiment}.log",
    conda:
        ENVIRONMENT
    params:
        code=rules.write_sections.params.code,
        study=study_arguments,
        asked=asked_digest,
        templates=TEMPLATES_GIVEN,
    message:
        "writing the section of the experiment {wildcards.experiment}"
    shell:
        "gpu-report stage write-sections {params.study} {params.templates} --folder report/experiments/{wildcards.experiment} 2> {log:q}"


# Snakemake forgets a failed middle step: its output is gone, and a PDF newer than its own inputs
# counts as done. So the PDF's rule names as its own what every stage before it reads: records,
# bundles, calibrations, all sources, the study.
rule compile_report:
    input:
        written=WRITTEN,
        floats=rules.write_sections.output.floats,
        figures=[
            f"report/figures/{MACHINES[ABOUT].id}",
            rules.draw_study.output,
            *(rules.draw_comparison.output if IS_COMPARED else []),
        ],
        records=every_record(),
        bundles=list(BUNDLES.values()),
        calibration=rules.write_sections.input.calibration,
        templates=TEMPLATES,
        listed=[PACKAGE / source for source in LISTED_SOURCES],
    output:
        "report/gpu_report.pdf",
    log:
        "results/logs/compile_report.log",
    conda:
        ENVIRONMENT
    params:
        code=sources("writing", "figures", "answers", "words", "tables", "traces", "bundles"),
        study=study_arguments,
        asked=rules.compare_machines.params.asked,
    message:
        "compiling the report"
    shell:
        "gpu-report stage compile-report {params.study} --folder $(dirname {input.floats:q}) --pdf {output:q} 2> {log:q}"


use rule compile_report as compile_report_alone with:
    input:
        written=WRITTEN_ALONE,
        floats=rules.write_sections_alone.output.floats,
        figures=f"report/experiments/{{experiment}}/figures/{MACHINES[ABOUT].id}",
        records=rules.write_sections_alone.input.records,
        bundles=list(BUNDLES.values()),
        calibration=rules.write_sections.input.calibration,
        templates=TEMPLATES,
        listed=[PACKAGE / source for source in LISTED_SOURCES],
    output:
        "report/{experiment}.pdf",
    log:
        "results/logs/compile_report/{experiment}.log",
    params:
        code=rules.compile_report.params.code,
        study=study_arguments,
        asked=asked_digest,
    message:
        "compiling the report on the experiment {wildcards.experiment}"


# The page draws its own figures and needs no TeX. It names what every stage before it reads, as
# compile_report does.
rule write_page:
    input:
        tables=rules.write_sections.input.tables,
        findings=f"{ABOUT}/findings.json",
        records=every_record(),
        trace_tables=trace_tables(ABOUT, MACHINES[ABOUT].study),
        comparison=COMPARISON,
        comparison_findings=rules.write_sections.input.comparison_findings,
        bundles=list(BUNDLES.values()),
        calibration=f"{ABOUT}/calibration.json",
    output:
        "report/gpu_report.html",
    log:
        "results/logs/write_page.log",
    conda:
        ENVIRONMENT
    params:
        code=sources(
            "page", "writing", "figures", "answers", "words", "tables", "traces", "bundles"
        ),
        study=study_arguments,
        asked=rules.compare_machines.params.asked,
    message:
        "writing the page"
    shell:
        "gpu-report stage write-page {params.study} --comparison {input.comparison:q} --page {output:q} 2> {log:q}"
