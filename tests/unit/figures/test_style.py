from itertools import combinations

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from gpu_report.figures import style
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS


def lightness(color: str) -> float:
    """CIE 1976 L*, 0 to 100."""
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = sum(
        weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
    )
    return float(116 * luminance ** (1 / 3) - 16)


def draw_example() -> Figure:
    with style.report_style():
        figure = style.new_figure(height_in=2)
        figure.add_subplot().plot([1, 2], [3, 4], label="a")
        return figure


def test_any_two_colours_differ_in_grey() -> None:
    for one, other in combinations(style.PALETTE, 2):
        assert abs(lightness(one) - lightness(other)) >= 7, (one, other)


def test_a_figure_has_the_width_of_the_text_to_the_point() -> None:
    data = style.figure_bytes(draw_example())

    assert b"/MediaBox [ 0 0 453.6 144 ]" in data


@pytest.mark.parametrize("file_format", ["pdf", "svg", "png"])
def test_the_same_figure_gives_the_same_bytes(file_format: "style.FileFormat") -> None:
    assert style.figure_bytes(draw_example(), file_format) == style.figure_bytes(
        draw_example(), file_format
    )


def test_a_pdf_shows_neither_date_nor_machine_and_embeds_its_fonts_as_they_are() -> None:
    data = style.figure_bytes(draw_example())

    assert b"Date" not in data
    assert b"/Type3" not in data
    assert b"/FontFile2" in data


def test_the_settings_of_the_user_neither_matter_nor_change() -> None:
    expected = style.figure_bytes(draw_example())

    with mpl.rc_context({"font.size": 30, "axes.facecolor": "pink"}):
        found = style.figure_bytes(draw_example())
        kept = mpl.rcParams["font.size"]

    assert found == expected
    assert kept == 30


@pytest.mark.parametrize(
    ("values", "scale"), [([1.0, 20.0], "linear"), ([1.0, 21.0], "log"), ([0.0, 500.0], "linear")]
)
def test_a_scale_is_logarithmic_beyond_a_factor_of_twenty(values: list[float], scale: str) -> None:
    axes = Figure().add_subplot()

    style.set_scale(axes, "y", values)

    assert axes.get_yscale() == scale


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (2000, "2000"), (10000, "10,000"), (-3, "\N{MINUS SIGN}3")]
)
def test_ticks_group_digits_as_the_text_does(value: float, text: str) -> None:
    assert style.tick_text(value) == text


def test_the_cpu_looks_the_same_in_every_figure_and_no_accelerator_looks_like_it() -> None:
    devices = ["cuda", "cpu", "cuda:1"]

    looks = {device: style.device_look(device, devices) for device in devices}

    assert looks["cpu"] == style.device_look("cpu", ["cpu"])
    assert (
        len({color for color, _ in looks.values()})
        == len({marker for _, marker in looks.values()})
        == 3
    )


def test_each_workload_has_one_marker_whatever_it_is_drawn_beside() -> None:
    every = style.workload_markers([*BUILT_IN_WORKLOADS, "mine"])

    assert len(set(every.values())) == len(every)
    assert style.workload_markers(["resnet18", "unet"]) == {
        name: every[name] for name in ("resnet18", "unet")
    }
