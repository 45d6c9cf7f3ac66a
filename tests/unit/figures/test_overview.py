from dataclasses import replace

from gpu_report.figures.overview import OVERVIEW, draw_overview
from gpu_report.figures.style import report_style
from gpu_report.tables.bundle import Tables
from tests.report.synthetic import results_on


def titles(tables: Tables) -> list[str]:
    with report_style():
        return [axes.get_title(loc="left").split("\n")[0] for axes in draw_overview(tables).axes]


def test_a_chart_without_data_leaves_its_room_to_the_others() -> None:
    tables = results_on("cpu", "cuda").tables

    assert titles(replace(tables, efficiency=tables.efficiency.iloc[:0])) == [
        "GPU against CPU",
        "Optimization ladder",
    ]


def test_the_chart_of_devices_has_a_point_for_each_model_that_both_measured() -> None:
    tables = results_on("cpu", "cuda").tables
    compared = tables.experiments["device"]
    models = compared[(compared["device"] != "cpu") & compared["speedup"].notna()]

    with report_style():
        axes = draw_overview(tables).axes[0]

    assert len(axes.get_yticklabels()) == len(models) > 1


def test_without_any_data_there_is_no_overview() -> None:
    tables = results_on("cpu").tables

    assert not OVERVIEW.has_data(
        replace(tables, experiments={}, efficiency=tables.efficiency.iloc[:0])
    )
