"""Sentinels show how far numbers drift, and a comparison of two sessions is widened by it."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import pytest

from gpu_report.records.record import Attempt, Record, SentinelPoint
from gpu_report.study.catalogue import BUILT_IN_WORKLOADS
from gpu_report.tables.marks import Today
from gpu_report.tables.sessions import (
    SENTINELS,
    Sessions,
    number_sessions,
    spread_for,
    spreads_of,
    tabulate_sentinels,
)
from gpu_report.tables.statistics import Spread, Summary, ratio, summarise
from gpu_report.tables.variants import variant_row
from tests.factories import CODE_DIGEST, make_record
from tests.tabulated import tabulate_experiment

from .test_experiments import CPU, CUDA, experiment_of

MORNING, LATER, EVENING = (f"2026-05-04T{hour}:00:00Z" for hour in ("10", "11", "20"))
TODAY = Today(code_digest=CODE_DIGEST)


def made_at(
    time: str, *, lasting_s: float = 0.0, boot: str = "", slug: str = CPU, **options: Any
) -> Record:
    record = make_record(slug, measured_at=time, **options)
    provenance = record.provenance.model_copy(update={"measuring_s": lasting_s, "boot": boot})
    return record.model_copy(update={"provenance": provenance})


def point_at(time: str, speeds: Sequence[float], **options: Any) -> SentinelPoint:
    record = make_record(CUDA, measured_at=time, **options)
    fields = {name: getattr(record, name) for name in Attempt.model_fields}
    return SentinelPoint(**fields, throughputs_per_s=list(speeds))


def rows(*points: SentinelPoint) -> list[dict[str, Any]]:
    found = [dict(row) for row in tabulate_sentinels(points, number_sessions(points))]
    SENTINELS.rows_to_csv(found)
    return found


def test_a_session_ends_where_nothing_is_measured_for_more_than_an_hour() -> None:
    half_past, afternoon = "2026-05-04T10:59:00Z", "2026-05-04T12:10:00Z"
    records = [made_at(afternoon), made_at(MORNING), made_at(half_past)]

    assert number_sessions(records) == {MORNING: 1, half_past: 1, afternoon: 2}


def test_a_long_measurement_is_no_gap() -> None:
    records = [made_at(MORNING, lasting_s=9.5 * 3600), made_at(LATER), made_at(EVENING)]

    assert {*number_sessions(records).values()} == {1}


def test_machines_of_one_id_and_a_machine_that_was_booted_anew_have_sessions_of_their_own() -> None:
    times = [f"2026-05-04T10:{minute}:00Z" for minute in (10, 20, 30, 40)]
    records = [made_at(time, boot=boot) for time, boot in zip(times, "abab", strict=True)]

    assert [*number_sessions(records).values()] == [1, 2, 1, 2]


def test_points_are_compared_with_the_first_within_and_between_sessions() -> None:
    found = rows(
        point_at(MORNING, [100, 100]),
        point_at("2026-05-04T10:20:00Z", [104, 104]),
        point_at(EVENING, [110, 110]),
    )
    low, high = math.log(100), math.log(104)

    assert [row["session"] for row in found] == [1, 1, 2]
    assert [row["ratio_to_first"] for row in found] == pytest.approx([1.0, 1.04, 1.1])
    assert found[0]["deviation_within"] == pytest.approx((high - low) / math.sqrt(2))
    between = abs(math.log(110) - (low + high) / 2) / math.sqrt(2)
    (spread,) = spreads_of(found)
    assert spread[:2] == pytest.approx((between, 2))


def test_one_session_has_no_spread_between_sessions() -> None:
    found = rows(point_at(MORNING, [100, 101]))

    assert math.isnan(found[0]["deviation_within"])
    assert math.isnan(found[0]["deviation_between"])
    assert spreads_of(found) == []


def test_a_sentinel_has_the_title_of_our_workload_and_the_name_of_a_users() -> None:
    point = point_at(MORNING, [100, 100])

    def of_class(class_path: str) -> SentinelPoint:
        workload = {**point.measurement["workload"], "class_path": class_path}
        measurement = {**point.measurement, "workload": workload}
        return point.model_copy(update={"measurement": measurement})

    found = rows(of_class(BUILT_IN_WORKLOADS["cnn"].class_path), of_class("mine:Net"))

    assert [row["workload_title"] for row in found] == ["image CNN", "cnn"]


def test_a_sentinel_that_failed_is_a_row_with_its_reason() -> None:
    failed, measured = rows(
        point_at(MORNING, [], status="oom", reason="repetition 1: no memory"),
        point_at(LATER, [50, 50]),
    )

    assert (failed["status"], failed["reason"]) == ("oom", "repetition 1: no memory")
    assert math.isnan(failed["throughput_per_s"])
    assert measured["ratio_to_first"] == 1
    assert math.isnan(rows(point_at(MORNING, [], status="failed"))[0]["ratio_to_first"])


def test_a_sentinel_with_other_settings_is_another_one() -> None:
    other = point_at(EVENING, [200, 200])
    asked = {
        **other.measurement,
        "workload": {**other.measurement["workload"], "settings": {"a": 1}},
    }

    found = rows(point_at(MORNING, [100, 100]), other.model_copy(update={"measurement": asked}))

    assert [row["ratio_to_first"] for row in found] == [1.0, 1.0]
    assert spreads_of(found) == []


def test_processes_of_a_point_vary_around_its_own_mean() -> None:
    first, _ = rows(point_at(MORNING, [100, 104]), point_at(LATER, [200, 208, 204]))

    logs = [math.log(1.04), math.log(1.02)]
    squares = logs[0] ** 2 / 2 + 2 * statistics.variance([0.0, *logs])
    assert first["deviation_of_processes"] == pytest.approx(math.sqrt(squares / 3))
    assert first["process_freedom"] == 3


def test_spreads_are_those_of_the_sentinels_by_the_newest_protocol_the_steadiest_first() -> None:
    found = [
        {
            "protocol_version": version,
            "sessions": sessions,
            "deviation_between": between,
            "deviation_of_processes": of_processes,
            "process_freedom": freedom,
        }
        for version, sessions, between, of_processes, freedom in (
            (2, 20, 0.5, 0.01, 3),
            (3, 2, 0.03, math.nan, 0),
            (3, 12, 0.01, 0.04, 3),
            (3, 12, 0.02, 0.01, 3),
            (3, 1, math.nan, 0.01, 3),
        )
    ]

    assert [spread[:2] for spread in spreads_of(found)] == [(0.02, 12), (0.01, 12), (0.03, 2)]


STEADY, UNSTEADY = Spread(0.005, 3, 0.001, 4), Spread(0.04, 3, 0.03, 4)


def of_processes(*percent: float) -> Summary:
    return summarise([100 * (1 + each / 100) for each in percent])


def test_what_varies_as_little_as_the_steady_sentinel_is_widened_by_it_alone() -> None:
    calm, restless = of_processes(0, 0.1, 0.2, 0.3, 0.1), of_processes(-3, 0, 3, 5, -4)

    assert spread_for([STEADY, UNSTEADY], calm, calm) == STEADY
    assert spread_for([STEADY, UNSTEADY], calm, restless) == UNSTEADY
    assert spread_for([STEADY, UNSTEADY], restless, restless) == UNSTEADY
    assert spread_for([STEADY, UNSTEADY]) == UNSTEADY


def test_what_varies_more_like_the_unsteady_sentinel_is_widened_by_it() -> None:
    between = of_processes(0, 1, 2, -1, 0.5)  # more than the middle between both

    assert spread_for([STEADY, UNSTEADY], between, between) == UNSTEADY


def test_what_varies_less_than_every_sentinel_is_widened_by_the_steadiest() -> None:
    still = of_processes(0, 0, 0, 0, 0.001)

    assert spread_for([STEADY, UNSTEADY], still, still) == STEADY
    assert spread_for([], still, still) is None


def test_processes_too_few_to_vary_are_widened_by_the_widest_spread() -> None:
    alone = of_processes(0)

    assert spread_for([STEADY, UNSTEADY], alone, of_processes(0, 0.1, 0.2)) == UNSTEADY


SPREAD = Spread(0.02, 4)


def compared(sessions: Sessions) -> Any:
    records = [made_at(MORNING), made_at(EVENING, slug=CUDA)]
    return tabulate_experiment(
        experiment_of(CPU, CUDA), records, today=TODAY, sessions=sessions
    ).iloc[1]


def test_a_comparison_of_two_sessions_is_widened_and_flagged() -> None:
    plain = compared(Sessions(numbers={MORNING: 1, EVENING: 1}, spreads=[SPREAD]))
    across = compared(Sessions(numbers={MORNING: 1, EVENING: 2}, spreads=[SPREAD]))

    assert across["speedup"] == plain["speedup"]
    assert across["speedup_low"] < plain["speedup_low"] < plain["speedup_high"]
    assert plain["speedup_high"] < across["speedup_high"]
    assert across["speedup_p"] > plain["speedup_p"]
    assert ("other session" in across["marks"], "other session" in plain["marks"]) == (True, False)
    assert across["session"] == 2


def test_a_comparison_of_two_sessions_is_widened_by_the_sentinel_that_fits_it() -> None:
    numbers = {MORNING: 1, EVENING: 2}
    like_it, unsteady = Spread(0.005, 3, 0.01, 4), Spread(0.04, 3, 0.3, 4)
    steady, widest, both = (
        compared(Sessions(numbers=numbers, spreads=spreads))["speedup_high"]
        for spreads in ([like_it], [unsteady], [like_it, unsteady])
    )

    assert steady == both < widest


def test_a_comparison_of_two_sessions_is_only_flagged_where_their_spread_is_unknown() -> None:
    plain = compared(Sessions())
    unmeasured = compared(Sessions(numbers={MORNING: 1, EVENING: 2}))

    columns = ["speedup", "speedup_low", "speedup_high", "speedup_p"]
    assert list(unmeasured[columns]) == list(plain[columns])
    assert "unknown session spread" in unmeasured["marks"]
    assert "unknown session spread" not in plain["marks"]


def test_the_spread_counts_once_for_each_side_with_its_own_degrees_of_freedom() -> None:
    same = dict.fromkeys(range(5), 100.0)

    found = ratio(same, same, spread=Spread(0.01, 4))

    half = 3.182446 * math.sqrt(2) * 0.01  # Student's t of 3 degrees of freedom
    assert (found.low, found.high, found.count) == pytest.approx(
        (math.exp(-half), math.exp(half), 5)
    )


def test_a_variant_alone_has_its_session_and_no_flag() -> None:
    sessions = Sessions(numbers={EVENING: 3}, spreads=[SPREAD])

    row = variant_row(made_at(EVENING), today=TODAY, sessions=sessions)

    assert (row["session"], "other session" in row["marks"]) == (3, False)
