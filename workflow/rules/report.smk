# From tables and findings to figures, sections, the PDF and the TensorBoard logs.

from gpu_report.writing.report import written_files

WRITTEN = [f"report/{name}" for name in written_files(EXPERIMENTS)]


rule draw_figures:
    input:
        tables=rules.tabulate_study.output,
        experiments=rules.derive_findings.input.experiments,
        code=sources("figures", "tables", "traces"),
    output:
        directory("report/figures"),
    log:
        "results/logs/draw_figures.log",
    conda:
        "../../environment.yml"
    params:
        experiments=rules.derive_findings.params.experiments,
    message:
        "drawing the figures"
    shell:
        "gpu-report draw-figures --experiments {params.experiments:q}"
        f" --results {HERE} --figures {{output:q}} 2> {{log:q}}"


rule write_sections:
    input:
        tables=rules.tabulate_study.output,
        experiments=rules.derive_findings.input.experiments,
        findings=rules.derive_findings.output,
        records=records(VARIANTS),
        templates=TEMPLATES,
        code=[*sources("writing", "figures", "findings", "tables", "traces"), "src/gpu_report/measure/training.py"],
    output:
        WRITTEN,
    log:
        "results/logs/write_sections.log",
    conda:
        "../../environment.yml"
    params:
        study=as_json({"title": STUDY.title, "experiments": [each.as_dict() for each in STUDY.experiments]}),
    message:
        "writing the sections"
    shell:
        "gpu-report write-sections --study {params.study:q}" f" --results {HERE} --folder report 2> {{log:q}}"


# Snakemake forgets a failed middle step: its output is gone, and a PDF newer than its own inputs counts as done. So the
# PDF's rule names as its own what every stage before it reads: the records, all sources and the whole study.
rule compile_report:
    input:
        written=WRITTEN,
        figures="report/figures",
        records=records(VARIANTS),
        templates=TEMPLATES,
        code=[*sources("writing", "figures", "findings", "tables", "traces"), "src/gpu_report/measure/training.py"],
    output:
        "report/gpu_report.pdf",
    log:
        "results/logs/compile_report.log",
    conda:
        "../../environment.yml"
    params:
        study=rules.write_sections.params.study,
        today=today(VARIANTS),
    message:
        "compiling the report"
    shell:
        "gpu-report compile-report --records {input.records:q} --folder report 2> {log:q}"


rule write_tensorboard_logs:
    input:
        records=records(VARIANTS),
        code=sources("tensorboard_logs", "tables"),
    output:
        directory("results/tensorboard"),
    log:
        "results/logs/write_tensorboard_logs.log",
    conda:
        "../../environment.yml"
    params:
        variants=VARIANTS,
    message:
        "writing the TensorBoard logs"
    shell:
        "gpu-report write-tensorboard-logs --variants {params.variants}"
        f" --runs {HERE}/runs --logs {{output:q}} 2> {{log:q}}"
