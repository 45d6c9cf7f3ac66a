"""The figure of histories: a panel per configuration, with lines that end where a series ends."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from gpu_report.figures.declaration import FigureSpec
from gpu_report.figures.history import history_figure
from gpu_report.figures.style import figure_bytes
from gpu_report.tables.history import HISTORY, session_of, tabulate_history
from tests.factories import ENVIRONMENT, make_record

FIRST = datetime(2026, 3, 1, 10, tzinfo=UTC)
SLUGS = ("unet-64px-cpu-b8-w0-fp32-e3x6", "cnn-cpu-b64-w0-fp32-e3")


def figure_of(
    *,
    days: int,
    hours_apart: int = 24,
    slugs: Sequence[str] = SLUGS,
    machines: Sequence[str] = ("xeon-2c",),
    oom: Sequence[int] = (1,),
) -> FigureSpec:
    sessions = [
        session_of(
            make_record(
                slug,
                machine=machine,
                measured_at=f"{FIRST + day * timedelta(hours=hours_apart):%Y-%m-%dT%H:%M:%SZ}",
                throughput_per_s=100 * (1 + 0.004 * (-1) ** day) * (0.9 if day >= days // 2 else 1),
                status="oom" if day in oom else "ok",
                environment=ENVIRONMENT,
            )
        )
        for machine in machines
        for slug in slugs
        for day in range(days)
    ]
    return history_figure(HISTORY.from_rows(tabulate_history(sessions)))


@pytest.mark.parametrize(
    ("machines", "panels"),
    [(["xeon-2c"], 2), (["h100-80gb-x1-xeon-16c", "h100-80gb-x1-xeon-8c"], 4)],
)
def test_each_configuration_of_each_machine_has_a_panel(machines: list[str], panels: int) -> None:
    figure = figure_of(days=3, machines=machines).draw()

    assert len(figure.axes) == panels
    assert {axes.get_xlim() for axes in figure.axes} == {figure.axes[0].get_xlim()}


def test_a_change_point_is_marked_with_its_size() -> None:
    spec = figure_of(days=24, slugs=SLUGS[:1])

    (axes,) = spec.draw().axes
    assert "1 change point" in spec.alt
    assert [text.get_text() for text in axes.texts] == ["\N{MINUS SIGN}10.0 %"]


def test_one_session_and_one_without_any_throughput_can_be_drawn() -> None:
    for days in (1, 2):
        assert figure_bytes(figure_of(days=days).draw())


@pytest.mark.parametrize("hours_apart", [1, 40, 24 * 900])
def test_dates_are_named_whatever_time_lies_between_two_sessions(hours_apart: int) -> None:
    figure = figure_of(days=2, hours_apart=hours_apart, oom=()).draw()

    for axes in figure.axes:
        assert 3 <= len([tick for tick in axes.get_xticklabels() if tick.get_text()]) <= 7


def test_a_configuration_that_was_always_out_of_memory_can_be_drawn() -> None:
    assert figure_bytes(figure_of(days=2, slugs=SLUGS[:1], oom=(0, 1)).draw())
