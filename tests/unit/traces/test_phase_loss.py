"""The loss is a phase of its own where the loop marks it, and else a part of the forward pass."""

from pathlib import Path

import pytest

from gpu_report.traces.reading import read_trace
from tests.unit.traces.by_hand import RawEvent, kernel, launch, mark, operation, step, trace_of
from tests.unit.traces.by_phase import ALL_FIXTURES, FIXTURES, phases_on, rows_of, self_us, without_marks


def loop_with(*marks: RawEvent) -> list[RawEvent]:
    """A step whose loss is computed from 100 to 200 µs, in which a kernel is launched that runs later."""
    return [
        step(1, 0, 1000),
        *marks,
        operation("aten::linear", 10, 40, external_id=1),
        launch(1, 12),
        kernel("gemm", 400, 100, correlation=1, external_id=1),
        operation("aten::mse_loss", 110, 30, external_id=2),
        launch(2, 112),
        kernel("mse", 500, 60, correlation=2, external_id=2),
        operation("aten::mul", 210, 20, external_id=3),
        launch(3, 212),
        kernel("mul", 600, 20, correlation=3, external_id=3),
    ]


FORWARD, LOSS, BACKWARD = mark("forward", 0, 100), mark("loss", 100, 100), mark("backward", 200, 100)
BOTH = mark("forward", 0, 200)


def test_what_is_launched_in_a_mark_of_the_loss_is_the_loss_on_host_and_device(tmp_path: Path) -> None:
    rows = rows_of(trace_of(tmp_path, *loop_with(FORWARD, LOSS, BACKWARD)))

    assert self_us("cuda", rows) == {"forward": 100, "loss": 60, "backward": 20}
    assert self_us("cpu", rows)["loss"] == 30
    assert [row["phase"] for row in rows if row["device"] == "cuda"] == ["forward", "loss", "backward"]


def test_without_a_mark_of_its_own_the_loss_is_part_of_what_holds_it_and_has_no_row(tmp_path: Path) -> None:
    rows = rows_of(trace_of(tmp_path, *loop_with(BOTH, BACKWARD)))

    assert self_us("cuda", rows) == {"forward": 160, "backward": 20}
    assert "loss" not in phases_on("cpu", rows)


def test_a_loss_between_marks_is_none_of_theirs(tmp_path: Path) -> None:
    rows = rows_of(trace_of(tmp_path, *loop_with(FORWARD, BACKWARD)))

    assert self_us("cuda", rows) == {"forward": 100, "backward": 20, "other": 60}


def test_a_mark_of_the_loss_takes_its_share_from_the_forward_pass_and_from_nothing_else(tmp_path: Path) -> None:
    marked = phases_on("cuda", rows_of(trace_of(tmp_path, *loop_with(FORWARD, LOSS, BACKWARD))))
    whole = phases_on("cuda", rows_of(trace_of(tmp_path, *loop_with(BOTH, BACKWARD))))

    assert marked["forward"]["share"] + marked["loss"]["share"] == pytest.approx(whole["forward"]["share"])
    assert marked["backward"] == whole["backward"]


@pytest.mark.parametrize("has_marks", [True, False])
@pytest.mark.parametrize("fixture", ALL_FIXTURES)
def test_loops_that_mark_no_loss_have_no_row_of_it(fixture: str, *, has_marks: bool) -> None:
    trace = read_trace(FIXTURES / f"{fixture}.pt.trace.json.gz")

    rows = rows_of(trace if has_marks else without_marks(trace))

    assert "loss" not in {row["phase"] for row in rows}
