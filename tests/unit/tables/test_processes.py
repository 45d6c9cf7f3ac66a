"""Each figure of a process follows from its steps and epochs as its definition says."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from gpu_report.glossary import PER_PROCESS
from gpu_report.records.record import Epoch, Record
from gpu_report.tables.marks import Today
from gpu_report.tables.processes import (
    is_projected,
    loss_scale_last,
    preparation_cold_s,
    process_values,
    skipped_steps,
    times_to_target_s,
)
from tests.factories import CODE_DIGEST, make_record
from tests.tabulated import tabulate_variants
from tests.unit.tables.changed import with_facts, with_repetitions

SLUG = "cnn-medium-cpu-b64-w0-fp32-e3"
FACTS = {"train_samples": 128, "steps_per_full_epoch": 2}


def record_of(epochs: list[Mapping[str, Any]], **options: Any) -> Record:
    """A record of one process with these epochs."""
    plain = {"train_losses": [1.0, 1.0], "test_loss": 1.0, "quality": 0.5}
    whole = [Epoch(**{**plain, **epoch}) for epoch in epochs]
    return with_repetitions(
        make_record(SLUG, processes=1, facts=FACTS, **options), [{"epochs": whole}]
    )


def _epoch(
    wall_time_s: float, steps_ms: list[float], wait_ms: float, **more: float
) -> dict[str, Any]:
    times = {"wall_time_s": wall_time_s, "step_times_ms": steps_ms, "data_wait_ms": [wait_ms, 0.0]}
    return {**times, "samples": 128, **more}


EPOCHS: list[Mapping[str, Any]] = [
    _epoch(9.0, [5000.0, 4000.0], 5000.0),
    _epoch(3.0, [1000.0, 2000.0], 300.0),
    _epoch(5.0, [1500.0, 3500.0], 100.0, quality=0.7),
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
    longer = with_repetitions(record_of([EPOCHS[0], *EPOCHS]), [{"warm_up_epochs": 2}])

    assert process_values(longer) == process_values(record_of(EPOCHS))


def test_one_epoch_that_took_long_does_not_decide_how_fast_a_process_was() -> None:
    leaked = [EPOCHS[0], {**EPOCHS[1], "wall_time_s": 30.0}, *EPOCHS[1:2] * 3]

    assert process_values(record_of(leaked))["throughput_per_s"] == [128 / 3.0]


def test_a_shortened_or_lengthened_epoch_is_projected_to_the_whole_training_set() -> None:
    shortened = make_record("unet-64px-cpu-b8-w0-fp32-e3x6", throughput_per_s=2.0, processes=1)
    record = record_of(EPOCHS)

    assert is_projected(shortened)
    assert process_values(shortened)["epoch_time_s"] == [pytest.approx(500 / 2.0)]
    assert is_projected(with_facts(record, train_samples=64, steps_per_full_epoch=1))
    assert not is_projected(record)


def test_a_projected_epoch_has_a_last_step_of_what_the_training_set_has_left() -> None:
    shortened = with_facts(record_of(EPOCHS), train_samples=3 * 64 + 4, steps_per_full_epoch=4)

    assert process_values(shortened)["epoch_time_s"] == [pytest.approx(4.0 * 196 / 128)]


ON_GPU = SLUG.replace("cpu", "cuda")
COMPILED = f"{ON_GPU}-compile"


def with_loss_scales(*processes: list[float]) -> Record:
    """Two timed steps a process, after these factors of the scaler."""
    record = make_record(ON_GPU.replace("fp32", "fp16"), processes=len(processes))
    changes = []
    for each, scales in zip(record.repetitions, processes, strict=True):
        first, *others = each.epochs
        epochs = [(first, scales), *((other, []) for other in others)]
        scaled = [epoch.model_copy(update={"loss_scales": found}) for epoch, found in epochs]
        changes.append({"epochs": scaled})
    return with_repetitions(record, changes)


@pytest.mark.parametrize(
    ("metric", "telemetry", "value"),
    [
        ("utilisation_percent", {"utilisation_percent": [50.0, 100.0, 60.0, 70.0] * 5}, 70.0),
        ("power_w", {"power_w": [100.0, 400.0] * 10, "energy_j": None}, 250.0),
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


def test_power_is_the_energy_over_its_time_where_that_is_known() -> None:
    record = make_record(
        ON_GPU, processes=1, throughput_per_s=100.0, telemetry={"energy_j": 8192.0}
    )

    values = process_values(record)

    assert values["power_w"][0] == pytest.approx(100.0 * values["energy_per_sample_j"][0])


def test_compile_time_is_distinguished_by_whether_the_compilers_cache_was_filled() -> None:
    record = make_record(COMPILED, processes=3)

    assert process_values(record)["preparation_time_s"] == [pytest.approx(8.1), pytest.approx(8.2)]
    assert preparation_cold_s(record) == 30.0


def test_the_first_process_with_a_filled_cache_does_not_show_what_an_empty_one_costs() -> None:
    record = make_record(COMPILED)

    assert math.isnan(
        preparation_cold_s(record.model_copy(update={"repetitions": record.repetitions[1:]}))
    )
    assert math.isnan(preparation_cold_s(make_record(COMPILED, status="failed")))


FP16 = ON_GPU.replace("fp32", "fp16")


@pytest.mark.parametrize(
    ("slug", "processes", "skipped", "last"),
    [
        (FP16, [[65536.0, 65536.0]], 0, 65536.0),
        (FP16, [[32768.0, 32768.0]], 1, 32768.0),
        (FP16, [[32768.0, 16384.0, 16384.0, 32768.0]], 2, 32768.0),
        (FP16, [[65536.0], [32768.0], [32768.0]], 2, 32768.0),
        (FP16, [[2.0**31, 2.0**30, 2.0**30]], 1, 2.0**30),
        (f"{FP16}-highscale", [[2.0**31, 2.0**30, 2.0**30]], 2, 2.0**30),
    ],
)
def test_a_step_that_lowered_the_scale_was_skipped(
    slug: str, processes: list[list[float]], skipped: int, last: float
) -> None:
    record = with_loss_scales(*processes).model_copy(update={"variant": slug})
    unscaled = make_record(ON_GPU)

    assert (skipped_steps(record), loss_scale_last(record)) == (skipped, last)
    assert math.isnan(skipped_steps(unscaled))
    assert math.isnan(loss_scale_last(unscaled))


def with_one_that_stopped_early() -> Record:
    record = record_of(EPOCHS)
    (first,) = record.repetitions
    never = first.model_copy(update={"epochs": first.epochs[:2]})
    return record.model_copy(update={"repetitions": [first, never]})


@pytest.mark.parametrize(
    ("record", "target", "times_s"),
    [
        (record_of(EPOCHS), 0.5, [9.0]),
        (record_of(EPOCHS), 0.6, [17.0]),
        (record_of(EPOCHS), None, []),
        (with_facts(record_of(EPOCHS), quality_better="lower"), 0.5, [9.0]),
        (with_facts(record_of(EPOCHS), quality_better="lower"), 0.4, []),
        (with_facts(record_of(EPOCHS), begins_anew=True), 0.1, []),
        (record_of([{**epoch, "quality": None} for epoch in EPOCHS]), 0.5, []),
        (with_one_that_stopped_early(), 0.6, []),
        (with_one_that_stopped_early(), 0.5, [9.0, 9.0]),
        (make_record(SLUG, status="oom"), 0.1, []),
    ],
)
def test_the_time_to_a_target_is_that_up_to_the_first_epoch_in_which_every_process_reaches_it(
    record: Record, target: float | None, times_s: list[float]
) -> None:
    assert times_to_target_s(record, target) == times_s


H100 = "gpt2-124m-cuda-b8-w0-bf16-e2x4"
TOKENS = {"tokens_per_sample": 1000, "flops_per_token": 1e9, "flops_formula": "by hand"}
"""A thousand tokens of a billion operations each: a sample is 1 TFLOP."""


def mfu_of(slug: str, **options: Any) -> list[float]:
    return process_values(make_record(slug, processes=3, noise=0.0, **options))["mfu"]


@pytest.mark.parametrize(
    ("slug", "peak"),
    [
        (H100, 989.4e12),
        (H100.replace("bf16", "tf32"), 494.7e12),
        (H100.replace("bf16", "fp32"), 66.9e12),
        (f"{H100}-ddp4", 4 * 989.4e12),
    ],
)
def test_the_mfu_is_the_rate_of_a_hand_counted_model_over_the_data_sheet(
    slug: str, peak: float
) -> None:
    found = mfu_of(slug, facts=TOKENS, throughput_per_s=10.0)

    assert found == pytest.approx([10 * 1000 * 1e9 / peak] * 3)


def test_tokens_per_second_are_those_of_the_samples() -> None:
    record = make_record(H100, processes=3, noise=0.0, facts=TOKENS, throughput_per_s=10.0)

    assert process_values(record)["tokens_per_s"] == pytest.approx([10_000.0] * 3)
    assert process_values(make_record(SLUG))["tokens_per_s"] == []


def test_without_a_formula_the_mfu_rests_on_the_counted_operations() -> None:
    slug = "unet-128px-cuda-b16-w0-bf16-e3"
    record = make_record(slug, processes=3, noise=0.0, throughput_per_s=10.0)
    assert record.profile is not None
    assert record.profile.work is not None
    per_sample = record.profile.work.flops / record.profile.work.samples

    assert mfu_of(slug, throughput_per_s=10.0) == pytest.approx([10 * per_sample / 989.4e12] * 3)
    assert mfu_of(f"{slug}-checkpoint", throughput_per_s=10.0) == []
    assert mfu_of(f"{slug}-fp8", throughput_per_s=10.0) == []
    assert mfu_of(slug, throughput_per_s=10.0, environment={"accelerator": "a new GPU"}) == []
    assert mfu_of(SLUG) == []


def test_an_mfu_above_1_is_refused_and_its_source_says_so() -> None:
    record = make_record(H100, processes=3, noise=0.0, facts=TOKENS, throughput_per_s=1000.0)

    assert process_values(record)["mfu"] == []
    row = tabulate_variants([record], today=Today(code_digest=CODE_DIGEST)).iloc[0]
    assert row["flops_source"] == "refused, above the data sheet's peak: by hand"
    assert math.isnan(row["mfu"])
