import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from gpu_report.figures import style


def draw_example() -> Figure:
    with style.report_style():
        figure = style.new_figure(height_in=2)
        figure.add_subplot().plot([1, 2], [3, 4], label="a")
        return figure


def test_a_figure_has_the_width_of_the_text_to_the_point() -> None:
    data = style.figure_bytes(draw_example())

    assert b"/MediaBox [ 0 0 453.6 144 ]" in data


@pytest.mark.parametrize("file_format", ["pdf", "svg", "png"])
def test_the_same_figure_gives_the_same_bytes_whatever_the_settings_of_the_user(
    file_format: "style.FileFormat",
) -> None:
    expected = style.figure_bytes(draw_example(), file_format)

    with mpl.rc_context({"font.size": 30, "axes.facecolor": "pink"}):
        found = style.figure_bytes(draw_example(), file_format)
        kept = mpl.rcParams["font.size"]

    assert found == expected
    assert kept == 30


def test_a_pdf_shows_neither_date_nor_machine_and_embeds_its_fonts_as_they_are() -> None:
    data = style.figure_bytes(draw_example())

    assert b"Date" not in data
    assert b"/Type3" not in data
    assert b"/FontFile2" in data
