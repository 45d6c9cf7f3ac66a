"""The history: like is compared with like, and what changed is beside each change point."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_report.study.study import Measurement, Workload
from gpu_report.study.variant import Variant
from gpu_report.tables.history import HISTORY, Session, session_of, tabulate_history
from tests.factories import ENVIRONMENT, PROTOCOL, make_record

SLUG = "unet-64px-cpu-b8-w0-fp32-e3x6"


def session(
    day: int, speed: float = 100.0, *, torch: str = "2.11.0", digest: str = "", **options: Any
) -> Session:
    record = make_record(
        SLUG,
        measured_at=f"2026-03-{day + 1:02}T10:00:00Z",
        throughput_per_s=speed,
        environment={**ENVIRONMENT, "torch": torch},
        **options,
    )
    return session_of(
        record.model_copy(update={"provenance": _with_digest(record.provenance, digest)})
    )


def _with_digest(provenance: Any, digest: str) -> Any:
    return provenance.model_copy(update={"workload_digest": digest})


def asked(version: int, **settings: Any) -> Measurement:
    workload = Workload(name="unet", class_path="somewhere:unet", settings=settings)
    return Measurement(
        variant=Variant.from_slug(SLUG),
        workload=workload,
        protocol=replace(PROTOCOL, version=version),
    )


def speeds(*, before: int, after: int, factor: float) -> list[float]:
    return [
        100 * (1 + 0.005 * (-1) ** day) * (1 if day < before else factor)
        for day in range(before + after)
    ]


def rows_of(sessions: Sequence[Session]) -> list[dict[str, Any]]:
    return HISTORY.checked(tabulate_history(sessions))


def test_a_change_point_has_its_ratio_and_what_changed_with_it() -> None:
    rows = rows_of(
        [
            session(
                day, speed, torch="2.11.0" if day < 8 else "2.12.0", digest="a" if day < 8 else "b"
            )
            for day, speed in enumerate(speeds(before=8, after=8, factor=0.9))
        ]
    )

    (change,) = [row for row in rows if row["is_change_point"]]
    assert change["measured_at"].startswith("2026-03-09")
    assert change["change_ratio_low"] < 0.9 < change["change_ratio_high"]
    assert change["change_ratio"] == pytest.approx(0.9)
    assert change["change_ratio_count"] == 8
    assert change["change_p"] <= 0.01
    assert "PyTorch 2.11.0 to 2.12.0" in change["differences"]
    assert "workload code" in change["differences"]
    assert [row["segment"] for row in rows] == [1] * 8 + [2] * 8
    assert all(math.isnan(row["change_ratio"]) for row in rows if row is not change)


@pytest.mark.parametrize(
    "later", [asked(4, samples=100), asked(3, samples=200)], ids=["protocol", "settings"]
)
def test_what_was_measured_otherwise_is_in_another_series(later: Measurement) -> None:
    rows = rows_of(
        [
            session(day, speed, measurement=asked(3, samples=100) if day < 12 else later)
            for day, speed in enumerate(speeds(before=12, after=12, factor=0.5))
        ]
    )

    assert [row["series"] for row in rows] == [1] * 12 + [2] * 12
    assert not any(row["is_change_point"] for row in rows)
    assert rows[12]["differences"]


def test_software_may_change_within_a_series_and_the_number_of_threads_may_not() -> None:
    facts: list[dict[str, Any]] = [
        {"python": "3.12.1"},
        {"python": "3.12.2"},
        {"torch_threads": 1},
        {"torch_threads": 1, "cuda": "13.0"},
    ]
    rows = rows_of(
        [
            session_of(
                make_record(
                    SLUG,
                    measured_at=f"2026-03-{day:02}T10:00:00Z",
                    environment={**ENVIRONMENT, **changed},
                )
            )
            for day, changed in enumerate(facts, start=1)
        ]
    )

    assert [row["series"] for row in rows] == [1, 1, 2, 2]
    assert "Python 3.12.1 to 3.12.2" in rows[1]["differences"]
    assert "CUDA none to 13.0" in rows[3]["differences"]


def test_a_measurement_that_several_bundles_hold_counts_once() -> None:
    rows = rows_of([session(0), session(1), session(0)])

    assert [row["measured_at"][:10] for row in rows] == ["2026-03-01", "2026-03-02"]


def test_machines_are_never_in_one_series() -> None:
    rows = rows_of(
        [session(day, machine=machine) for day in range(3) for machine in ("xeon-2c", "xeon-4c")]
    )

    assert [row["machine"] for row in rows] == ["xeon-2c"] * 3 + ["xeon-4c"] * 3


@pytest.mark.parametrize(
    "doubtful", [{"foreign_cpu_share": 0.5}, {"status": "oom"}], ids=["flag", "status"]
)
def test_a_session_without_a_reliable_throughput_is_listed_and_not_used(
    doubtful: dict[str, Any],
) -> None:
    values = speeds(before=8, after=8, factor=0.9)

    rows = rows_of(
        [session(day, speed, **(doubtful if day == 8 else {})) for day, speed in enumerate(values)]
    )

    assert [row["is_used"] for row in rows] == [day != 8 for day in range(16)]
    assert [row["measured_at"][:10] for row in rows if row["is_change_point"]] == ["2026-03-10"]


def test_few_sessions_say_so() -> None:
    rows = rows_of([session(day) for day in range(5)])

    assert {row["verdict"] for row in rows} == {"too few sessions"}
    assert rows[0]["sessions_needed"] > 5


def test_without_records_there_are_no_rows() -> None:
    assert rows_of([]) == []
