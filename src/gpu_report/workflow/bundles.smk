# Machines that measured elsewhere: the content of their bundles, in a folder apart from what was
# measured here.


rule import_bundle:
    input:
        bundle=lambda wildcards: BUNDLES[wildcards.machine],
    output:
        runs=directory("results/imported/{machine}/runs"),
        searches=directory("results/imported/{machine}/batch_sizes"),
        sentinels=directory("results/imported/{machine}/sentinels"),
        calibration="results/imported/{machine}/calibration.json",
    log:
        "results/imported/{machine}/logs/import_bundle.log",
    conda:
        ENVIRONMENT
    params:
        code=sources("bundles", "traces"),
    message:
        "importing what {wildcards.machine} measured"
    shell:
        "gpu-report unpack {input.bundle:q} --machine-folder results/imported 2> {log:q}"
