import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from tests.unit.figures.drawn import drawn, study_and_tables, texts_of


def bars_of(axes: Axes) -> list[Bbox]:
    bars = [collection for collection in axes.collections if isinstance(collection, PolyCollection)]
    return [path.get_extents() for collection in bars for path in collection.get_paths()]


def drawn_with(timelines: pd.DataFrame) -> Figure:
    return drawn("study_timeline", "models", timelines=lambda _: timelines)


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


def test_work_whose_category_the_gate_invalidates_is_shown_as_of_no_known_kind() -> None:
    _, tables = study_and_tables("models")
    is_stream = tables.timelines["lane"].str.startswith("stream")
    timelines = tables.timelines.assign(category=tables.timelines["category"].mask(is_stream, ""))

    assert "kind not known" in texts_of(drawn_with(timelines))
    assert "kind not known" not in texts_of(drawn_with(tables.timelines))
