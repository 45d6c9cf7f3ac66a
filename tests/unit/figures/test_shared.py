"""Exposed communication along bucket sizes, beside what the link carries."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from gpu_report.figures import style
from gpu_report.study.study import Study
from gpu_report.tables.bundle import Tables
from tests.factories import make_study, make_tables
from tests.unit.figures.drawn import draw_named, texts_of
from tests.unit.findings.shared import CONFIG

EXPOSED = "ddp_options_exposed"


@cache
def shared() -> tuple[Study, Tables]:
    study = make_study(config=CONFIG)
    return study, make_tables(study)


def drawn(name: str, tables: Tables | None = None) -> Figure:
    study, made = shared()
    return draw_named(name, tables or made, study)


def values_of(figure: Figure, color: str, *, marker: str) -> dict[float, float]:
    """By their place along the axis."""
    lines = [
        line
        for line in figure.axes[0].lines
        if line.get_color() == color and line.get_marker() == marker
    ]
    points = [
        zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
        for line in lines
    ]
    return {float(x): float(y) for pairs in points for x, y in pairs}


def with_exposed(**changes: "pd.Series[float]") -> Tables:
    _, tables = shared()
    return replace(tables, communication=tables.communication.assign(**changes))


def test_exposed_communication_is_drawn_by_bucket_and_not_for_other_settings() -> None:
    _, tables = shared()
    sizes = tables.communication["bucket_mib"]

    # A view of buckets has 25 MiB too; its row comes after that of the defaults.
    figure = drawn(
        EXPOSED,
        with_exposed(
            exposed_ms=1.0 / sizes - 0.5 * tables.communication["variant"].str.contains("view")
        ),
    )

    assert values_of(figure, style.BLUE, marker="s") == pytest.approx({1: 1.0, 25: 0.04, 100: 0.01})
    assert "bound without communication" in texts_of(figure)
