import csv
import io
import re

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from gpu_report.figures.networks import network_figures
from gpu_report.figures.style import TEXT_WIDTH_IN, TINY_FONT_SIZE_PT, figure_bytes
from gpu_report.records.record import Record
from tests.factories import make_record


def record_of(slug: str, *, parameters: int, module: str, title: str = "U-Net") -> Record:
    facts = {
        "parameters": parameters,
        "source_file": f"gpu_report.workloads.{module}",
        "title": title,
    }
    return make_record(slug, facts=facts)


def unet(pixels: int) -> Record:
    return record_of(f"unet-{pixels}px-cpu-b4-w0-fp32-e3x5", parameters=31_037_763, module="unet")


def lstm() -> Record:
    return record_of("lstm-cpu-b64-w0-fp32-e3", parameters=2_381_827, module="lstm", title="LSTM")


def test_a_u_net_is_drawn_with_the_largest_image_that_was_measured_and_its_skip_connections() -> (
    None
):
    (spec,) = network_figures([unet(64), unet(128), unet(32)])

    (axes,) = spec.draw().axes

    texts = [text.get_text() for text in axes.texts]
    assert "3\n128²" in texts
    assert "1024\n8²" in texts
    assert len(axes.lines) == 4
    assert "128px" in spec.caption


both_networks = pytest.mark.parametrize("record", [unet(128), lstm()], ids=["unet", "lstm"])


@both_networks
def test_figures_have_the_width_of_the_text_no_tiny_type_and_nothing_outside(
    record: Record,
) -> None:
    (spec,) = network_figures([record])

    figure = spec.draw()

    assert figure_bytes(figure) == figure_bytes(spec.draw())
    assert figure.get_figwidth() == TEXT_WIDTH_IN
    (axes,) = figure.axes
    assert min(float(text.get_fontsize()) for text in axes.texts) >= TINY_FONT_SIZE_PT
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    width, height = figure.get_size_inches() * figure.dpi
    for part in (*axes.texts, *axes.findobj(FancyBboxPatch)):
        extent = part.get_window_extent(renderer)
        assert -1 <= extent.x0 < extent.x1 <= width + 1, part
        assert -1 <= extent.y0 < extent.y1 <= height + 1, part


@both_networks
def test_every_number_drawn_is_in_the_csv_of_layers(record: Record) -> None:
    (spec,) = network_figures([record])

    rows = list(csv.DictReader(io.StringIO(spec.csv)))

    assert record.workload is not None
    assert sum(int(row["parameters"]) for row in rows) == record.workload.parameters
    listed = {row[column] for row in rows for column in ("channels", "length", "parameters")}
    (axes,) = spec.draw().axes
    texts = "\n".join(text.get_text() for text in axes.texts).replace(",", "")
    drawn = re.findall(r"\d+", texts)
    assert set(drawn) <= listed
