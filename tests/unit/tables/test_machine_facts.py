"""The machine's table names what measured, and hides no difference between records."""

import re

from gpu_report.records.record import Record
from tests.factories import make_record
from tests.tabulated import tabulate_machine
from tests.unit.tables.changed import of_class

SLUG = "cnn-medium-cpu-b64-w0-fp32-e3"


def facts(*records: Record) -> dict[str, str]:
    table = tabulate_machine(records)
    return dict(zip(table["name"], table["value"], strict=True))


def test_each_version_of_a_users_class_that_was_trained_is_named() -> None:
    old, new = (of_class(make_record(SLUG), digest * 64) for digest in ("1", "2"))

    assert "your class" not in facts(make_record(SLUG))
    assert re.fullmatch(
        r"my_model:MyModel 1{7,}; my_model:MyModel 2{7,}", facts(old, new, new)["your class"]
    )


def test_what_was_measured_is_counted_and_dated() -> None:
    failed = make_record(
        "lstm-cpu-b8-w0-fp32-e2", status="failed", measured_at="2026-05-06T09:00:00Z"
    )

    found = facts(make_record(SLUG), failed)

    counts = [*found.items()][list(found).index("configurations measured") :][:2]
    assert counts == [("configurations measured", "1"), ("configurations without numbers", "1")]
    assert found["measured on"] == "2026-05-04 to 2026-05-06"
