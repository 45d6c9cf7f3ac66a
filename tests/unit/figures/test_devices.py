from tests.unit.figures.drawn import drawn, specs_of, texts_of


def test_what_the_driver_did_not_report_has_no_panel() -> None:
    unknown = dict.fromkeys(("utilisation_percent", "sm_clock_mhz"), float("nan"))

    assert "Clock" not in texts_of(
        drawn("study_telemetry", "models", telemetry=lambda table: table.assign(**unknown))
    )


def test_a_driver_that_reported_nothing_has_no_figure() -> None:
    unknown = dict.fromkeys(("power_w", "utilisation_percent", "sm_clock_mhz"), float("nan"))

    assert "study_telemetry" not in specs_of(
        "models", telemetry=lambda table: table.assign(**unknown)
    )
