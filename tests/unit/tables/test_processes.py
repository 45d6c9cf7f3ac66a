"""Each figure of a process follows from its steps and epochs as its definition says."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from gpu_report.glossary import PER_PROCESS
from gpu_report.records.record import Epoch, Record
from gpu_report.tables.processes import (
    is_projected,
    loss_scale_last,
    optimizer_steps,
    preparation_cold_s,
    process_values,
    skipped_steps,
    times_to_target_s,
)
from tests.factories import make_record

SLUG = "cnn-medium-cpu-b64-w0-fp32-e3"
FACTS = {"train_samples": 128, "steps_per_full_epoch": 2}


def record_of(epochs: list[Mapping[str, Any]], **options: Any) -> Record:
    """A record of one process with these epochs."""
    record = make_record(SLUG, processes=1, facts=FACTS, **options)
    first = record.repetitions[0]
    whole = [
        Epoch(**{"train_losses": [1.0, 1.0], "test_loss": 1.0, "quality": 0.5, **epoch})
        for epoch in epochs
    ]
    return record.model_copy(update={"repetitions": [first.model_copy(update={"epochs": whole})]})


EPOCHS: list[Mapping[str, Any]] = [
    {
        "wall_time_s": 9.0,
        "step_times_ms": [5000.0, 4000.0],
        "data_wait_ms": [4000.0, 1000.0],
        "samples": 128,
    },
    {
        "wall_time_s": 3.0,
        "step_times_ms": [1000.0, 2000.0],
        "data_wait_ms": [300.0, 0.0],
        "samples": 128,
    },
    {
        "wall_time_s": 5.0,
        "step_times_ms": [1500.0, 3500.0],
        "data_wait_ms": [100.0, 0.0],
        "samples": 128,
        "quality": 0.7,
    },
]


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("step_time_ms", 1750.0),
        ("throughput_per_s", (128 / 3.0 + 128 / 5.0) / 2),
        ("epoch_time_s", 4.0),
        ("first_epoch_ratio", 9.0 / 4.0),
        ("data_wait_share", (0.1 + 0.02) / 2),
        ("quality", 0.7),
        ("test_loss", 1.0),
    ],
)
def test_a_figure_is_taken_from_the_timed_epochs_as_defined(metric: str, value: float) -> None:
    assert process_values(record_of(EPOCHS))[metric] == [pytest.approx(value)]


def test_the_first_epoch_changes_nothing_but_the_first_epoch_ratio() -> None:
    slower = [{**EPOCHS[0], "wall_time_s": 90.0, "step_times_ms": [5e4, 4e4]}, *EPOCHS[1:]]

    before, after = process_values(record_of(EPOCHS)), process_values(record_of(slower))

    assert [name for name in PER_PROCESS if before[name] != after[name]] == ["first_epoch_ratio"]


def test_every_epoch_of_the_warm_up_is_left_out() -> None:
    record = record_of([EPOCHS[0], *EPOCHS])
    (first,) = record.repetitions
    longer = record.model_copy(
        update={"repetitions": [first.model_copy(update={"warm_up_epochs": 2})]}
    )

    assert process_values(longer) == process_values(record_of(EPOCHS))


def test_one_epoch_that_took_long_does_not_decide_how_fast_a_process_was() -> None:
    leaked = [EPOCHS[0], {**EPOCHS[1], "wall_time_s": 30.0}, *EPOCHS[1:2] * 3]

    assert process_values(record_of(leaked))["throughput_per_s"] == [128 / 3.0]


def test_a_shortened_epoch_is_projected_to_the_whole_training_set() -> None:
    shortened = make_record("unet-64px-cpu-b8-w0-fp32-e3x6", throughput_per_s=2.0, processes=1)

    assert is_projected(shortened)
    assert process_values(shortened)["epoch_time_s"] == [pytest.approx(63 * 8 / 2.0)]


def test_every_process_gives_one_value_per_metric() -> None:
    values = process_values(make_record(SLUG.replace("cpu", "cuda"), processes=4))

    assert {name: len(of_metric) for name, of_metric in values.items()} == dict.fromkeys(
        PER_PROCESS, 4
    )


@pytest.mark.parametrize("status", ["oom", "failed", "skipped"])
def test_a_variant_not_measured_to_the_end_has_no_values(status: Any) -> None:
    assert process_values(make_record(SLUG, status=status)) == {name: [] for name in PER_PROCESS}


def test_finished_processes_of_a_failed_variant_give_no_values() -> None:
    failed = make_record(SLUG).model_copy(update={"status": "failed"})

    assert process_values(failed)["step_time_ms"] == []


def test_the_profilers_overhead_compares_wall_times_per_step() -> None:
    assert make_record(SLUG, profile_overhead=1.5).profile_overhead == pytest.approx(1.5)


def test_an_epoch_longer_than_the_training_set_is_projected_as_well() -> None:
    record = record_of(EPOCHS)
    facts = (
        record.workload.model_copy(update={"steps_per_full_epoch": 1}) if record.workload else None
    )

    assert is_projected(record.model_copy(update={"workload": facts}))


ON_GPU = SLUG.replace("cpu", "cuda")
COMPILED = f"{ON_GPU}-compile"


def with_loss_scales(*processes: list[float]) -> Record:
    """Two timed steps a process, after these factors of the scaler."""
    record = make_record(ON_GPU.replace("fp32", "fp16"), processes=len(processes))
    repetitions = [
        repetition.model_copy(
            update={
                "epochs": [
                    epoch.model_copy(update={"loss_scales": scales if number == 0 else []})
                    for number, epoch in enumerate(repetition.epochs)
                ]
            }
        )
        for repetition, scales in zip(record.repetitions, processes, strict=True)
    ]
    return record.model_copy(update={"repetitions": repetitions})


@pytest.mark.parametrize(
    ("metric", "telemetry", "value"),
    [
        ("utilisation_percent", {"utilisation_percent": [50.0, 100.0, 60.0, 70.0] * 5}, 70.0),
        ("power_w", {"power_w": [100.0, 400.0] * 10}, 250.0),
        ("sm_clock_mhz", {"sm_clock_mhz": [1980.0, 300.0, 1755.0, 1755.0] * 5}, 1755.0),
        ("temperature_c", {"temperature_c": [40.0, 62.0, 55.0, 41.0] * 5}, 62.0),
        ("energy_per_sample_j", {"energy_j": 8192.0}, 2.0),
    ],
)
def test_a_figure_of_the_driver_is_taken_as_defined(
    metric: str, telemetry: dict[str, Any], value: float
) -> None:
    record = make_record(ON_GPU, processes=1, telemetry=telemetry)

    assert process_values(record)[metric] == [pytest.approx(value)]


@pytest.mark.parametrize(
    ("metric", "telemetry"),
    [
        ("power_w", {"power_w": []}),
        ("energy_per_sample_j", {"energy_j": None}),
        ("temperature_c", None),
    ],
)
def test_what_the_driver_does_not_show_has_no_values(
    metric: str, telemetry: dict[str, Any] | None
) -> None:
    assert process_values(make_record(ON_GPU, telemetry=telemetry))[metric] == []


def test_compile_time_is_distinguished_by_whether_the_compilers_cache_was_filled() -> None:
    record = make_record(COMPILED, processes=3)

    assert process_values(record)["preparation_time_s"] == [pytest.approx(8.1), pytest.approx(8.2)]
    assert preparation_cold_s(record) == 30.0


def test_an_eager_baseline_prepares_for_no_time() -> None:
    assert set(process_values(make_record(ON_GPU))["preparation_time_s"]) == {0.0}
    assert preparation_cold_s(make_record(ON_GPU)) == 0.0


def test_the_first_process_with_a_filled_cache_does_not_show_what_an_empty_one_costs() -> None:
    record = make_record(COMPILED)

    assert math.isnan(
        preparation_cold_s(record.model_copy(update={"repetitions": record.repetitions[1:]}))
    )
    assert math.isnan(preparation_cold_s(make_record(COMPILED, status="failed")))


@pytest.mark.parametrize(
    ("processes", "skipped", "last"),
    [
        ([[65536.0, 65536.0]], 0, 65536.0),
        ([[32768.0, 32768.0]], 1, 32768.0),
        ([[32768.0, 16384.0, 16384.0, 32768.0]], 2, 32768.0),
        ([[65536.0], [32768.0], [32768.0]], 2, 32768.0),
    ],
)
def test_a_step_that_lowered_the_scale_was_skipped(
    processes: list[list[float]], skipped: int, last: float
) -> None:
    record = with_loss_scales(*processes)

    assert (skipped_steps(record), loss_scale_last(record)) == (skipped, last)


def test_from_a_high_initial_scale_the_first_halving_is_a_skipped_step_too() -> None:
    record = with_loss_scales([2.0**31, 2.0**30, 2.0**30])
    high = record.model_copy(update={"variant": f"{record.variant}-highscale"})

    assert (skipped_steps(record), skipped_steps(high)) == (1, 2)


def test_without_a_scaler_no_step_is_known_to_be_skipped() -> None:
    assert math.isnan(skipped_steps(make_record(ON_GPU)))
    assert math.isnan(loss_scale_last(make_record(ON_GPU)))


def test_the_time_to_a_target_is_the_training_time_up_to_the_first_epoch_that_reaches_it() -> None:
    record = record_of(EPOCHS)

    assert times_to_target_s(record, 0.5) == [9.0]
    assert times_to_target_s(record, 0.6) == [17.0]


def test_a_metric_that_falls_reaches_its_target_from_above() -> None:
    rising = record_of(EPOCHS)
    assert rising.workload is not None
    falling = rising.model_copy(
        update={"workload": rising.workload.model_copy(update={"quality_better": "lower"})}
    )

    assert times_to_target_s(falling, 0.5) == [9.0]
    assert times_to_target_s(falling, 0.4) == []


def test_without_a_metric_no_target_is_reached() -> None:
    assert times_to_target_s(record_of([{**epoch, "quality": None} for epoch in EPOCHS]), 0.5) == []


def test_a_target_that_one_process_never_reaches_has_no_time() -> None:
    reached = record_of(EPOCHS)
    (first,) = reached.repetitions
    never = first.model_copy(update={"epochs": first.epochs[:2]})
    both = reached.model_copy(update={"repetitions": [first, never]})

    assert times_to_target_s(both, 0.6) == []
    assert times_to_target_s(both, 0.5) == [9.0, 9.0]


def test_without_a_target_and_without_a_measurement_there_is_no_time_to_it() -> None:
    assert times_to_target_s(record_of(EPOCHS), None) == []
    assert times_to_target_s(make_record(SLUG, status="oom"), 0.1) == []


def test_epochs_that_each_begin_anew_have_no_time_to_a_target() -> None:
    record = record_of(EPOCHS)
    assert record.workload
    anew = record.model_copy(
        update={"workload": record.workload.model_copy(update={"begins_anew": True})}
    )

    assert times_to_target_s(anew, 0.1) == []


def test_optimizer_steps_are_those_of_the_epochs_that_were_asked_for() -> None:
    assert optimizer_steps(record_of(EPOCHS)) == 6
    assert math.isnan(optimizer_steps(make_record(SLUG, status="oom")))
