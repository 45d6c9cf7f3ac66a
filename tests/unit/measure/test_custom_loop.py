"""A loop that a workload brings is timed as an epoch, profiled as a call, and left out or failed
where it must be.
"""

import gzip
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from gpu_report.measure.custom_loop import CustomLoop
from gpu_report.measure.operation_counts import count_work
from gpu_report.measure.profiling import profile_training
from gpu_report.measure.run import profiler_warm_up_steps
from gpu_report.measure.training import Training, build_training, evaluate, prepare
from gpu_report.records.record import RECORD_FILE, Record
from gpu_report.study.study import Measurement, Protocol, Workload
from gpu_report.study.variant import Variant
from gpu_report.workloads.linear_regression import LinearRegression
from gpu_report.workloads.protocol import WorkloadError
from tests.unit.measure.trainings import CPU, build, tiny, train_quietly

POINTS, STEPS = 500, 6
PHASES = ["forward", "loss", "backward", "optimizer"]
_MEASURE = """
import sys
from pydantic import TypeAdapter
from pathlib import Path
from gpu_report.measure.variant_run import measure_variant
from gpu_report.records.record import RECORD_FILE
from gpu_report.study.study import Measurement
asked, folder = TypeAdapter(Measurement).validate_json(sys.argv[1]), Path(sys.argv[2])
record = measure_variant(asked, machine="here", trace_folder=folder / "trace")
RECORD_FILE.write(record, folder / "record.json")
"""
_COMPILES_NOTHING = """#!/bin/sh
for argument; do
    if [ "$argument" = -c ]; then echo "fused_cpu.cpp:1: error: a bad day" >&2; exit 1; fi
done
"""
"""It links whatever it is asked to link, so that it seems to have OpenMP."""


def variant(**fields: Any) -> Variant:
    values = {"batch_size": POINTS, "epochs": 2, "steps_per_epoch": STEPS, **fields}
    return Variant(workload="linear_regression", device="cpu", **values)


def line_training(*, learning_rate: float = 0.01, **fields: Any) -> Training:
    workload = LinearRegression(
        size="default", seed=0, test_samples=100, learning_rate=learning_rate
    )
    return build_training(workload, variant(**fields), device=CPU, seed=0, steps_per_epoch=None)


def prepared() -> Training:
    training = line_training()
    prepare(training)
    return training


def test_an_epoch_is_a_call_of_equal_steps_that_last_no_longer_than_the_call() -> None:
    for epoch in train_quietly(prepared()):
        assert (
            len(epoch.step_times_ms) == len(epoch.data_wait_ms) == len(epoch.train_losses) == STEPS
        )
        assert len(set(epoch.step_times_ms)) == 1
        assert 0 < sum(epoch.step_times_ms) <= epoch.wall_time_s * 1e3
        assert epoch.samples == STEPS * POINTS
        assert set(epoch.data_wait_ms) == {0.0}
        assert epoch.loss_scales == []


def test_every_epoch_is_the_same_training_from_the_beginning() -> None:
    first, second = train_quietly(prepared())

    assert first.train_losses == second.train_losses
    assert first.train_losses == sorted(first.train_losses, reverse=True)
    assert (first.test_loss, first.quality) == (second.test_loss, second.quality)


def test_a_training_that_diverges_has_no_distance_from_its_reference() -> None:
    training = line_training(learning_rate=1.0, steps_per_epoch=100)
    prepare(training)

    epoch = train_quietly(training)[-1]

    assert math.isnan(epoch.test_loss or 0)
    assert epoch.quality == 0
    assert training.custom_loop is not None
    assert training.custom_loop.outcome(training.model)["reference_error"] is None


def test_held_out_points_are_judged_with_what_was_learned() -> None:
    training = prepared()
    loss_before, quality_before = evaluate(training)

    last = train_quietly(training)[-1]

    assert cast("float", last.test_loss) < cast("float", loss_before)
    assert cast("float", last.quality) > cast("float", quality_before)
    assert (last.test_loss, last.quality) == evaluate(training)
    assert training.custom_loop is not None
    outcome = training.custom_loop.outcome(training.model)
    assert outcome["learnt"] == pytest.approx(
        {name: parameter.item() for name, parameter in training.model.named_parameters()}, rel=1e-6
    )
    assert 0 <= outcome["reference_error"] < 1e-5


@pytest.mark.parametrize("is_made", [True, False])
def test_only_a_loop_that_each_process_makes_anew_has_a_build_time(*, is_made: bool) -> None:
    plain = prepared().custom_loop
    assert plain is not None
    made = replace(plain.built, is_made_by_each_process=is_made)
    loop = CustomLoop(lambda _phase: made, steps=STEPS, device=CPU)

    assert (loop.prepare(nullcontext) > 0) == is_made
    assert loop.built is made


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"workers": 1}, "leave workers at 0"),
        ({"precision": "bf16"}, "leave precision at fp32"),
        ({"accumulation": 2}, "leave accumulation at 1"),
    ],
)
def test_what_such_a_loop_leaves_no_room_for_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError, match=f"LinearRegression trains by a custom .*; {said}$"):
        line_training(**fields)
    with pytest.raises(WorkloadError, match="openmp is a custom training loop, and Tiny has none"):
        build(tiny(), options="openmp")


def test_the_eager_loop_moves_40_bytes_a_point_and_a_few_for_weight_bias_and_loss() -> None:
    work = count_work(prepared())

    assert work is not None
    assert (work.samples, work.flops) == (POINTS, 8 * POINTS)
    # Forward: x, prediction; loss: prediction, y; its gradient: prediction, y, error; backward:
    # error, x, and the error once more for the bias; four bytes each.
    assert 40 * POINTS < work.bytes < 40 * POINTS + 100


def test_a_profiled_call_shows_every_step_with_its_phases_and_its_share_of_the_call(
    tmp_path: Path,
) -> None:
    profile = profile_training(
        line_training(),
        steps=2,
        trace_folder=tmp_path,
        run_id="here/line",
        on_step=lambda _epoch, _step: None,
    )
    trace = json.loads(gzip.decompress((tmp_path / profile.trace_file).read_bytes()))
    marks = [each for each in trace["traceEvents"] if each.get("cat") == "user_annotation"]
    phases = [each for each in marks if each["name"] in {"data", *PHASES}]
    (call_us,) = (each["dur"] for each in marks if each["name"].startswith("ProfilerStep#"))

    assert [each["name"] for each in phases] == PHASES * STEPS
    (step_time_ms,) = profile.step_times_ms
    assert sum(each["dur"] for each in phases) < step_time_ms * 1e3 * STEPS < call_us
    assert profile.work is not None
    assert profile.work.samples == POINTS


@pytest.mark.parametrize(("timed_step_ms", "traces"), [(None, 1), (1e9, 3)])
def test_a_light_trace_is_written_anew_where_its_steps_took_another_time_than_timed_ones(
    timed_step_ms: float | None, traces: int, tmp_path: Path
) -> None:
    calls: list[int] = []

    profile = profile_training(
        line_training(),
        steps=1,
        timed_step_ms=timed_step_ms,
        trace_folder=tmp_path,
        run_id="here/line",
        on_step=lambda _epoch, step: calls.append(step),
    )

    assert len(calls) == traces * (profiler_warm_up_steps(0) + 1)
    (written,) = tmp_path.iterdir()
    assert written.name == profile.trace_file
    assert hashlib.sha256(written.read_bytes()).hexdigest() == profile.trace_sha256


def measured_with(compiler: str, folder: Path) -> Record:
    """What comes of the loop in C++ with this compiler, which the training processes know from
    their environment.
    """
    measurement = Measurement(
        variant=variant(options="openmp"),
        workload=Workload(
            name="linear_regression",
            class_path="gpu_report.workloads.linear_regression:LinearRegression",
            settings={"test_samples": 100},
        ),
        protocol=Protocol(repetitions=2, profile_steps=1, timed_epochs=1, timed_seconds=0),
    )
    subprocess.run(
        [sys.executable, "-c", _MEASURE, json.dumps(measurement.as_dict()), str(folder)],
        env={**os.environ, "CXX": compiler, "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        check=True,
    )
    return RECORD_FILE.read(folder / "record.json")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ninja") is None, reason="no ninja")
def test_a_loop_that_does_not_compile_is_a_result_that_says_why_and_on_what(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(_COMPILES_NOTHING, "ascii")
    compiler.chmod(0o755)

    missing = measured_with("no-such-compiler", tmp_path)
    record = measured_with(str(compiler), tmp_path)

    assert (missing.status, missing.reason) == ("skipped", "no C++ compiler")
    assert (missing.repetitions, missing.profile) == ([], None)
    assert record.status == "failed"
    assert record.reason.startswith(
        "repetition 1: BuildError: cannot build gpu_report_cpu_loops in "
    )
    assert "fused_cpu.cpp:1: error: a bad day" in record.reason
    assert (record.repetitions, record.profile) == ([], None)
    assert record.workload is not None
    assert record.workload.begins_anew
    assert {"torch", "cpu_cores", "torch_threads"} <= record.environment.keys()
