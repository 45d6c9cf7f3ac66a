from dataclasses import replace

from tests.unit.figures.drawn import draw_named, specs_by_name, study_and_tables, texts_of


def test_up_to_three_workloads_show_power_utilisation_and_clock() -> None:
    study, tables = study_and_tables("device", "models")

    figure = draw_named("study_telemetry", tables, study)

    assert len(figure.axes) == 9
    assert "Power (W)" in texts_of(figure)


def test_what_the_driver_did_not_tell_has_no_panel() -> None:
    study, tables = study_and_tables("models")
    nothing = tables.telemetry.assign(utilisation_percent=float("nan"), sm_clock_mhz=float("nan"))

    figure = draw_named("study_telemetry", replace(tables, telemetry=nothing), study)

    assert "Clock" not in texts_of(figure)


def test_a_driver_that_told_nothing_has_no_figure() -> None:
    study, tables = study_and_tables("models")
    telemetry = tables.telemetry.assign(
        **dict.fromkeys(("power_w", "utilisation_percent", "sm_clock_mhz"), float("nan"))
    )

    assert "study_telemetry" not in specs_by_name(replace(tables, telemetry=telemetry), study)
