"""One process's run: what it tells of preparing and of the time around the epochs, and what it
skips.
"""

from pathlib import Path
from typing import Any

import pytest

from gpu_report.measure.processes import Outcome, carry_out_in_fresh_process
from gpu_report.measure.run import Stopped, TimedRun
from tests.unit.measure.trainings import measurement, run_of


def carry_out(folder: Path, **fields: Any) -> Outcome:
    run = run_of(measurement("Tiny", **fields), folder=folder)
    return carry_out_in_fresh_process(run, lambda _progress: None)


def test_the_windows_of_the_epochs_lie_within_the_whole_training(tmp_path: Path) -> None:
    end = carry_out(tmp_path).end
    assert isinstance(end, TimedRun)
    assert end.repetition.preparation_time_s == 0
    assert end.repetition.preparation_cache == "none"
    lasted_s = [ended_s - began_s for began_s, ended_s in end.epoch_windows_s]
    epochs_s = [epoch.wall_time_s for epoch in end.repetition.epochs]
    assert lasted_s == pytest.approx(epochs_s, abs=1e-6)
    assert sum(lasted_s) < end.repetition.training_wall_s


def test_a_precision_that_the_device_does_not_have_is_skipped_with_the_reason(
    tmp_path: Path,
) -> None:
    assert carry_out(tmp_path, precision="tf32").end == Stopped(
        status="skipped",
        reason="cpu has no TF32 arithmetic; it came with CUDA compute capability 8.0",
    )
