from typing import Any

from matplotlib.figure import Figure

from gpu_report.figures.declaration import FigureSpec
from gpu_report.findings.machines import derive_comparison
from gpu_report.writing.report import render_report
from tests.factories import make_comparison, make_study
from tests.report.synthetic import SOURCE, TEMPLATES, results_of


def spec(name: str, kind: str, subject: str, *, csv: str = "") -> FigureSpec:
    words: dict[str, Any] = {"title": "A title", "caption": "A caption.", "alt": "In words."}
    return FigureSpec(name=name, kind=kind, subject=subject, drawing=Figure, csv=csv, **words)


def files_with(*specs: FigureSpec) -> dict[str, str]:
    study = make_study(devices=("cpu",))
    comparison = make_comparison([])
    return render_report(
        title="t",
        experiments=study.experiments,
        machine=results_of(study),
        comparison=comparison,
        comparison_findings=derive_comparison(comparison),
        comparison_figures=[],
        study_figures=specs,
        templates=TEMPLATES,
        source=SOURCE,
    )


def test_a_network_stands_with_its_workload_and_names_its_layers() -> None:
    files = files_with(spec("architecture_unet", "architecture", "unet", csv="size,stage"))

    section = files["sections/networks.tex"]
    of_unet = section.partition("sec:workload_unet}")[2].partition("sec:workload_")[0]
    assert "fig/study/architecture_unet" in of_unet
    assert section.count("fig/study/") == 1
    float_text = files["floats/fig/study/architecture_unet.tex"]
    assert "In words." in float_text
    assert "study/architecture_unet.csv" in float_text.replace(r"\gpurepbreak{}", "").replace(r"\_", "_")
