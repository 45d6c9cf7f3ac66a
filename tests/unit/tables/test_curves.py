"""The curves hold every epoch and step of every process, as measured."""

from tests.factories import make_record
from tests.tabulated import (
    tabulate_convergence,
    tabulate_epochs,
    tabulate_losses,
    tabulate_telemetry,
)

SLUG = "lstm-cpu-b64-w0-fp32-e3x10"
CUDA = "cnn-medium-cuda-b64-w0-fp32-e3"


def test_a_loss_that_is_not_finite_is_missing() -> None:
    table = tabulate_convergence([make_record(SLUG, test_loss=float("inf"))])

    assert table["test_loss"].isna().all()
    assert table["quality"].notna().all()


def test_a_variant_not_measured_to_the_end_has_no_curves() -> None:
    failed = make_record(CUDA).model_copy(update={"status": "failed"})

    for tabulate in (
        tabulate_convergence,
        tabulate_losses,
        tabulate_epochs,
        tabulate_telemetry,
    ):
        assert tabulate([failed]).empty
    assert tabulate_telemetry([make_record(CUDA, telemetry=None)]).empty


def test_what_the_driver_does_not_know_is_missing() -> None:
    table = tabulate_telemetry([make_record(CUDA, telemetry={"power_w": [], "energy_j": None})])

    assert table["power_w"].isna().all()
    assert not table["sm_clock_mhz"].isna().any()
