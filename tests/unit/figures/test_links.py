from matplotlib.figure import Figure

from gpu_report.figures.devices import LINKS
from tests.factories import make_calibration
from tests.tabulated import tabulate_links
from tests.unit.figures.drawn import drawn, specs_of, texts_of


def drawn_of(linked: int) -> Figure:
    return drawn(
        "study_links", "device", links=lambda _: tabulate_links(make_calibration(linked=linked))
    )


def test_each_number_of_devices_has_a_panel_and_each_operation_a_line() -> None:
    text = texts_of(drawn_of(4))

    for words in (
        "2 devices",
        "4 devices",
        "all-reduce",
        "all-gather",
        "reduce-scatter",
        "point-to-point",
        "25 MiB",
    ):
        assert words in text
    assert [len(axes.containers) for axes in drawn_of(4).axes] == [4, 3]


def test_payloads_that_three_devices_share_equally_are_named_as_the_powers_of_two_beside_them() -> (
    None
):
    links = tabulate_links(make_calibration(linked=3)).assign(
        bytes=lambda rows: rows["bytes"] // 12 * 12
    )

    assert "4 KiB" in texts_of(drawn("study_links", "device", links=lambda _: links))


def test_a_machine_without_linked_devices_has_no_such_figure() -> None:
    assert f"study_{LINKS.name}" not in specs_of("device")
