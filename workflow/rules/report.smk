# From tables and findings to figures, sections and the PDF.
#
# Snakemake forgets a failed middle step: its output is gone, but a PDF newer than its own inputs counts as done. So the
# PDF's rule names every source of every stage before it, and the configuration, as its own.

LEAVES = [
    *records(VARIANTS),
    *sources("traces", "tables", "findings", "figures", "writing", "columns", "number_format"),
    *TEMPLATES,
]


rule draw_figures:
    input:
        tables=rules.tabulate_study.output,
        experiments=rules.derive_findings.input.experiments,
        code=sources("figures"),
    output:
        directory("report/figures"),
    log:
        "results/logs/draw_figures.log",
    params:
        experiments=rules.derive_findings.params.experiments,
    shell:
        "gpu-report draw-figures --experiments {params.experiments:q}"
        f" --results {HERE} --figures {{output:q}} 2> {{log:q}}"
