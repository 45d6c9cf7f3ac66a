import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gpu_report.glossary import Row
from gpu_report.records.record import Record
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.marks import MEANINGS, Today
from gpu_report.tables.statistics import Spread
from gpu_report.writing.machine import limits
from tests.factories import CODE_DIGEST, make_records, make_study
from tests.tabulated import tabulate_variants

STUDY = make_study(devices=("cpu",))


def variant_rows(records: Sequence[Record]) -> Sequence[Row]:
    return rows_of(tabulate_variants(records, today=Today(code_digest=CODE_DIGEST)))


def of_records(**options: Any) -> Mapping[str, list[str]]:
    return limits(variant_rows(make_records(STUDY, **options)))


def joined(found: Mapping[str, list[str]]) -> str:
    return " ".join(sentence for subject in found.values() for sentence in subject)


@pytest.mark.parametrize(
    ("options", "subject"),
    [
        ({"noise": 0.3}, "processes"),
        ({"foreign_cpu_share": 0.5}, "machine"),
        ({"steal_share": 0.5}, "machine"),
        ({"code_digest": "other"}, "machine"),
        ({"profile_overhead": None, "reason": "profiled run: out of memory"}, "profiler"),
    ],
)
def test_what_limits_the_records_is_said_under_its_subject(
    options: dict[str, Any], subject: str
) -> None:
    plain, limited = of_records(), of_records(**options)

    assert [name for name in plain if len(limited[name]) > len(plain[name])] == [subject]


@pytest.mark.parametrize(
    ("processes", "words"),
    [
        (5, "5 processes."),
        (3, "3 processes."),
        (2, "Fewer than 3 processes give no 95 % interval"),
        (1, "one process"),
    ],
)
def test_the_number_of_processes_is_always_said(processes: int, words: str) -> None:
    assert words in of_records(processes=processes)["processes"][0]


def test_an_accelerator_that_was_not_watched_is_a_limit_and_a_cpu_is_not() -> None:
    rows = variant_rows(make_records(make_study()))

    assert limits(rows)["machine"] == []
    assert "not watched" in " ".join(
        limits([{**row, "sm_clock_mhz": math.nan} for row in rows])["machine"]
    )
    assert "not watched" not in joined(of_records())


def test_every_mark_is_a_limit() -> None:
    plain, *others = variant_rows(make_records(STUDY))
    unmarked = [{**row, "marks": "", "epoch_time_projected": False} for row in others]

    for mark in MEANINGS:
        marked = {**plain, "marks": mark, "epoch_time_projected": mark == "projected"}
        assert sum(map(len, limits([marked, *unmarked]).values())) == 2, mark


def test_sessions_without_a_measured_spread_are_said_and_with_one_they_are_in_the_intervals() -> (
    None
):
    rows = variant_rows(make_records(STUDY))
    of_two = [{**row, "session": 1 + index % 2} for index, row in enumerate(rows)]

    assert limits(rows)["sessions"] == limits(of_two, [Spread(0.01, 2)])["sessions"] == []
    assert "the spread between sessions is not known" in limits(of_two)["sessions"][0]
