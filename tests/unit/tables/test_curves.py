"""The curves hold every epoch and step of every process, as measured."""

import pytest

from tests.factories import make_record
from tests.tabulated import (
    tabulate_convergence,
    tabulate_epochs,
    tabulate_losses,
    tabulate_telemetry,
)

SLUG = "lstm-cpu-b64-w0-fp32-e3x10"


def test_convergence_has_a_row_per_process_and_epoch_with_samples_counted_up() -> None:
    record = make_record(SLUG)

    table = tabulate_convergence([record])

    assert list(table["epoch"]) == [0, 1, 2] * 5
    assert list(table["samples_seen"]) == [640, 1280, 1920] * 5
    losses = record.repetitions[0].epochs[0].train_losses
    assert table["train_loss"].iloc[0] == pytest.approx(sum(losses) / len(losses))


def test_losses_count_steps_through_all_epochs() -> None:
    record = make_record(SLUG)

    table = tabulate_losses([record])
    second = table[table["repetition"] == 1]

    assert list(second["step"]) == list(range(30))
    assert list(second["train_loss"]) == [
        loss for e in record.repetitions[1].epochs for loss in e.train_losses
    ]


def test_the_loss_scale_of_every_step_is_reported_where_there_is_one() -> None:
    scaled = make_record(SLUG.replace("cpu", "cuda").replace("fp32", "fp16"))

    scales = tabulate_losses([scaled])["loss_scale"]

    assert list(scales) == [
        scale for r in scaled.repetitions for epoch in r.epochs for scale in epoch.loss_scales
    ]
    assert tabulate_losses([make_record(SLUG)])["loss_scale"].isna().all()


def test_the_first_epoch_is_flagged() -> None:
    table = tabulate_epochs([make_record(SLUG, processes=1, first_epoch_ratio=2.0)])

    assert list(table["is_warm_up"]) == [True, False, False]
    assert table["wall_time_s"].iloc[0] == pytest.approx(2 * table["wall_time_s"].iloc[1])


def test_a_loss_that_is_not_finite_is_missing() -> None:
    table = tabulate_convergence([make_record(SLUG, test_loss=float("inf"))])

    assert table["test_loss"].isna().all()
    assert table["quality"].notna().all()


def test_a_variant_not_measured_to_the_end_has_no_curves() -> None:
    failed = make_record(SLUG).model_copy(update={"status": "failed"})

    for tabulate in (tabulate_convergence, tabulate_losses, tabulate_epochs):
        assert tabulate([failed]).empty


def test_the_order_of_records_does_not_matter() -> None:
    records = [make_record(SLUG), make_record("cnn-small-cpu-b8-w0-fp32-e2x3")]

    for tabulate in (tabulate_convergence, tabulate_losses, tabulate_epochs):
        assert tabulate(records).equals(tabulate(records[::-1]))


CPU, CUDA = "cnn-medium-cpu-b64-w0-fp32-e3", "cnn-medium-cuda-b64-w0-fp32-e3"


def test_every_sample_of_every_process_is_a_row() -> None:
    table = tabulate_telemetry([make_record(CPU), make_record(CUDA)])

    assert dict(table.groupby(["variant", "repetition"]).size()) == {
        (CUDA, index): 20 for index in range(5)
    }
    assert table.groupby("repetition")["moment_s"].is_monotonic_increasing.all()
    assert list(table["power_w"][:2]) == [420.0, 421.0]


def test_what_the_driver_does_not_know_is_missing() -> None:
    table = tabulate_telemetry([make_record(CUDA, telemetry={"power_w": [], "energy_j": None})])

    assert table["power_w"].isna().all()
    assert not table["sm_clock_mhz"].isna().any()


def test_without_a_driver_to_ask_there_are_no_rows() -> None:
    assert tabulate_telemetry([make_record(CUDA, telemetry=None)]).empty


def test_a_variant_that_failed_has_no_rows() -> None:
    assert tabulate_telemetry([make_record(CUDA).model_copy(update={"status": "failed"})]).empty
