import csv
import io
import re

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from gpu_report.figures.architecture.registry import architectures, draw_architecture
from gpu_report.figures.style import SMALL_FONT_SIZE_PT, TEXT_WIDTH_IN, figure_bytes
from gpu_report.records import Record
from tests.factories import make_record
from tests.unit.figures.drawn import texts_of


def record_of(slug: str, *, parameters: int, sample: str, module: str, title: str = "U-Net") -> Record:
    facts = {"parameters": parameters, "sample_description": sample, "source_file": module, "title": title}
    return make_record(slug, facts=facts)


def unet(pixels: int) -> Record:
    sample = f"{pixels}x{pixels} RGB picture, 3 classes per pixel"
    slug = f"unet-{pixels}px-cpu-b4-w0-fp32-e3x5"
    return record_of(slug, parameters=31_037_763, sample=sample, module="gpu_report.workloads.unet")


def cnn(size: str, parameters: int) -> Record:
    sample, module = "32x32 RGB picture, 10 classes", "gpu_report.workloads.cnn"
    return record_of(
        f"cnn-{size}-cpu-b64-w0-fp32-e3", parameters=parameters, sample=sample, module=module, title="image CNN"
    )


def lstm() -> Record:
    sample, module = "64 characters out of 100, 3 classes", "gpu_report.workloads.lstm"
    return record_of("lstm-cpu-b64-w0-fp32-e3", parameters=2_381_827, sample=sample, module=module, title="LSTM")


def test_a_u_net_is_drawn_with_the_largest_picture_that_was_measured() -> None:
    (spec,) = architectures([unet(64), unet(128), unet(32)])

    figure = draw_architecture(spec)

    texts = texts_of(figure).split("\n")
    assert "128 × 128" in texts
    assert "8 × 8" in texts
    assert [texts.count(channels) for channels in ("64", "128", "512", "1024")] == [2, 3, 3, 1]
    assert "31,037,763" in spec.caption


def test_sizes_of_an_image_cnn_are_rows_from_small_to_large() -> None:
    (spec,) = architectures([cnn("large", 6_689_125), cnn("small", 31_258)])

    texts = texts_of(draw_architecture(spec)).split("\n")

    assert texts.index("small") < texts.index("large")
    assert "6,517,745" in texts


def test_an_lstm_is_unrolled_to_the_last_character_in_both_directions() -> None:
    (spec,) = architectures([lstm()])

    texts = texts_of(draw_architecture(spec)).split("\n")

    assert {"1", "2", "3", "64", "layer 2, forwards", "layer 2, backwards"} <= set(texts)
    assert texts.count("256") == 16


def test_a_workload_of_the_users_own_has_no_picture() -> None:
    own = record_of("unet-64px-cpu-b4-w0-fp32-e3x5", parameters=31_037_763, sample="a wave", module="mine.own")

    assert architectures([own, make_record("lstm-cpu-b64-w0-fp32-e3", status="failed")]) == []


@pytest.mark.parametrize("record", [unet(128), cnn("medium", 406_674), lstm()], ids=["unet", "cnn", "lstm"])
def test_pictures_have_the_width_of_the_text_no_tiny_type_and_nothing_outside(record: Record) -> None:
    (spec,) = architectures([record])

    figure = draw_architecture(spec)

    assert figure_bytes(figure) == figure_bytes(draw_architecture(spec))
    assert figure.get_figwidth() == TEXT_WIDTH_IN
    (axes,) = figure.axes
    assert min(float(text.get_fontsize()) for text in axes.texts) >= SMALL_FONT_SIZE_PT
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    width, height = figure.get_size_inches() * figure.dpi
    for part in (*axes.texts, *axes.findobj(FancyBboxPatch)):
        extent = part.get_window_extent(renderer)
        assert -1 <= extent.x0 < extent.x1 <= width + 1, part
        assert -1 <= extent.y0 < extent.y1 <= height + 1, part


def test_what_follows_what_is_told_in_words() -> None:
    (spec,) = architectures([lstm()])

    assert spec.alt.startswith("The LSTM as boxes")
    assert "embedding 64 × 128, LSTM 64 × 512" in spec.alt


def test_every_number_drawn_stands_in_the_csv_of_layers() -> None:
    (spec,) = architectures([cnn("small", 31_258), cnn("medium", 406_674)])

    rows = list(csv.DictReader(io.StringIO(spec.layers_csv)))

    assert sum(int(row["parameters"]) for row in rows if row["size"] == "medium") == 406_674
    listed = {row[column] for row in rows for column in ("channels", "length", "parameters")}
    (axes,) = draw_architecture(spec).axes
    texts = "\n".join(text.get_text() for text in axes.texts).replace(",", "").replace("3×3", "")
    drawn = re.findall(r"\d+", texts)
    assert set(drawn) <= listed
