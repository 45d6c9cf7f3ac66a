from tests.unit.figures.drawn import drawn, specs_of, texts_of


def test_both_directions_show_both_kinds_of_memory_and_their_peak() -> None:
    text = texts_of(drawn("study_transfer", "device"))

    for words in (
        "CUDA, to device",
        "CUDA, to host",
        "pageable host memory",
        "pinned host memory",
        "peak, ",
    ):
        assert words in text


def test_copies_draw_without_a_peak() -> None:
    assert "peak" not in texts_of(
        drawn("study_transfer", "device", peaks=lambda table: table.iloc[:0])
    )


def test_a_machine_without_accelerator_has_no_copies_to_show() -> None:
    assert "study_transfer" not in specs_of("device", devices=("cpu",))


def test_up_to_three_workloads_show_power_utilisation_and_clock() -> None:
    figure = drawn("study_telemetry", "device", "models")

    assert len(figure.axes) == 9
    assert "Power (W)" in texts_of(figure)


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
