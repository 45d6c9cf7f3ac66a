from gpu_report.figures.overview import draw_overview
from gpu_report.figures.style import report_style
from tests.report.synthetic import results_on


def test_the_chart_of_devices_has_a_point_for_each_model_that_both_measured() -> None:
    tables = results_on("cpu", "cuda").tables
    compared = tables.experiments["device"]
    models = compared[(compared["device"] != "cpu") & compared["speedup"].notna()]

    with report_style():
        axes = draw_overview(tables).axes[0]

    assert len(axes.get_yticklabels()) == len(models) > 1
