from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from gpu_report.figures.stacked_bars import MOST_PANELS
from tests.unit.figures.drawn import drawn, specs_of, study_and_tables, texts_of

LANES = ["phases", "host 1", "stream 7"]


def names_of(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def bars_of(axes: Axes) -> list[Bbox]:
    bars = [collection for collection in axes.collections if isinstance(collection, PolyCollection)]
    return [path.get_extents() for collection in bars for path in collection.get_paths()]


def figures_of(*experiments: str, devices: Sequence[str] = ("cpu", "cuda")) -> list[Figure]:
    specs = specs_of(*experiments, devices=devices).values()
    return [spec.draw() for spec in specs if spec.kind == "timeline"]


def drawn_with(timelines: pd.DataFrame) -> Figure:
    return drawn("study_timeline", "models", timelines=lambda _: timelines)


def test_there_are_no_more_panels_than_one_figure_holds() -> None:
    assert [len(figure.axes) for figure in figures_of("models")] == [MOST_PANELS]


def test_on_a_machine_with_an_accelerator_no_step_of_the_cpu_is_shown() -> None:
    with_accelerator = "".join(map(texts_of, figures_of("device")))
    without = "".join(map(texts_of, figures_of("device", devices=["cpu"])))

    assert "CPU: a step" not in with_accelerator
    assert "CPU: a step of 200 ms" in without


def test_bars_lie_where_the_stretches_do_and_are_as_high_as_they_were_busy() -> None:
    _, tables = study_and_tables("models")
    timelines = tables.timelines.assign(busy_share=0.5)

    panel = drawn_with(timelines).axes[0]

    shown = sorted((round(bar.x0, 3), round(bar.width, 3)) for bar in bars_of(panel))
    own = timelines[timelines["variant"] == timelines["variant"].iloc[-1]]
    assert shown == sorted(
        (round(begin, 3), round(end - begin, 3))
        for begin, end in zip(own["begin_ms"], own["end_ms"], strict=True)
    )
    assert {round(bar.height, 3) for bar in bars_of(panel)} == {0.4}


def test_streams_that_the_gate_invalidates_are_said_to_be_unreliable() -> None:
    _, tables = study_and_tables("models")
    on_host = tables.timelines[~tables.timelines["lane"].str.startswith("stream")]

    figure = drawn_with(on_host)

    assert names_of(figure.axes[0]) == ["phases", "host 1", "streams"]
    assert "not reliable" in texts_of(figure)


def test_work_whose_category_the_gate_invalidates_is_shown_as_of_no_known_kind() -> None:
    _, tables = study_and_tables("models")
    is_stream = tables.timelines["lane"].str.startswith("stream")
    timelines = tables.timelines.assign(category=tables.timelines["category"].mask(is_stream, ""))

    assert "kind not known" in texts_of(drawn_with(timelines))
    assert "kind not known" not in texts_of(drawn_with(tables.timelines))


def test_a_study_without_timelines_has_no_such_figure() -> None:
    assert "study_timeline" not in specs_of("models", timelines=lambda table: table.iloc[:0])
