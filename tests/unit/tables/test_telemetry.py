"""Every sample of the driver is a row, and what the driver does not know is missing."""

from gpu_report.tables import tabulate_telemetry
from tests.factories import make_record

CPU, CUDA = "cnn-medium-cpu-b64-w0-fp32-e3", "cnn-medium-cuda-b64-w0-fp32-e3"


def test_every_sample_of_every_process_is_a_row() -> None:
    table = tabulate_telemetry([make_record(CPU), make_record(CUDA)])

    assert dict(table.groupby(["variant", "repetition"]).size()) == {(CUDA, index): 20 for index in range(5)}
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
