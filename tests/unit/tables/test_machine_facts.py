"""The machine's table names what measured, and hides no difference between records."""

from gpu_report.records.record import Record
from tests.factories import ENVIRONMENT, make_record
from tests.tabulated import tabulate_machine

SLUG = "cnn-medium-cpu-b64-w0-fp32-e3"


def facts(*records: Record) -> dict[str, str]:
    table = tabulate_machine(records)
    return dict(zip(table["name"], table["value"], strict=True))


def test_facts_in_which_records_differ_hold_every_value() -> None:
    other = make_record("lstm-cpu-b8-w0-fp32-e2", environment={**ENVIRONMENT, "torch": "2.11.0"})

    assert facts(make_record(SLUG), other)["PyTorch"] == "2.15.0; 2.11.0"


def test_what_was_measured_is_counted_and_dated() -> None:
    failed = make_record(
        "lstm-cpu-b8-w0-fp32-e2", status="failed", measured_at="2026-05-06T09:00:00Z"
    )

    found = facts(make_record(SLUG), failed)

    assert found["configurations measured"] == "1 of 2"
    assert found["measured on"] == "2026-05-04 to 2026-05-06"


def test_gpus_count_that_shared_a_measured_training() -> None:
    plain = "unet-64px-cuda-b8-w0-fp32-e3"
    measured, failed = make_record(f"{plain}-ddp2"), make_record(f"{plain}-ddp4", status="failed")

    assert facts(measured, failed)["most GPUs that shared a training"] == "2"
    assert "most GPUs that shared a training" not in facts(make_record(plain), failed)
