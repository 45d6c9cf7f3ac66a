"""Figures in the text are where they belong."""

from matplotlib.figure import Figure

from gpu_report.figures.declaration import FigureSpec
from gpu_report.findings.machines import derive_comparison
from gpu_report.writing.layout import report_layout
from gpu_report.writing.report import render_report
from tests.factories import make_comparison, make_study
from tests.report.synthetic import SOURCE, TEMPLATES, results_of


def test_a_network_is_beside_its_workload_with_the_csv_of_its_layers() -> None:
    study, comparison = make_study(devices=("cpu",)), make_comparison([])
    network = FigureSpec(
        name="architecture_unet",
        subject="unet",
        kind="architecture",
        title="A title",
        caption="A caption.",
        alt="In words.",
        drawing=Figure,
        csv="size,stage",
    )
    files = render_report(
        title="t",
        layout=report_layout([experiment.name for experiment in study.experiments]),
        experiments=study.experiments,
        machine=results_of(study),
        comparison=comparison,
        comparison_findings=derive_comparison(comparison),
        comparison_figures=[],
        study_figures=[network],
        templates=TEMPLATES,
        source=SOURCE,
    )

    section = files["sections/networks.tex"]
    of_unet = section.partition("sec:workload_unet}")[2].partition("sec:workload_")[0]
    assert "fig/study/architecture_unet" in of_unet
    assert section.count("fig/study/") == 1
    float_text = files["floats/fig/study/architecture_unet.tex"]
    assert "In words." in float_text
    assert "study/architecture_unet.csv" in float_text.replace(r"\gpurepbreak{}", "").replace(
        r"\_", "_"
    )
