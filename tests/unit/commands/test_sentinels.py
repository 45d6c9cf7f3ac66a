"""When sentinels are measured: at the begin, after a while, and at the end; measuring is replaced
by records that are made.
"""

from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpu_report.commands import measuring
from gpu_report.commands.results_folder import ResolvedStudy, ResultsFolder
from gpu_report.errors import GpuReportError
from gpu_report.records.record import RECORD_FILE, Record, read_points
from gpu_report.study.machine import Machine, boot
from gpu_report.study.study import Measurement
from tests.factories import make_record, make_study

STUDY = make_study(devices=["cpu"])


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The time of the clock, which a test moves on; each sentinel takes 30 s."""
    time = [datetime(2026, 5, 4, 10, tzinfo=UTC)]

    class Clock(datetime):
        @classmethod
        def now(cls, _: Any = None) -> datetime:  # type: ignore[override]
            return time[0]

    def measure(sentinel: Measurement, *, machine: str, is_profiled: bool, **_: Any) -> Record:
        assert not is_profiled
        record = make_record(
            sentinel.variant.slug,
            measurement=sentinel,
            machine=machine,
            processes=2,
            measured_at=time[0].isoformat(),
        )
        time[0] += timedelta(seconds=30)
        provenance = record.provenance.model_copy(update={"measuring_s": 30.0, "boot": boot()})
        return record.model_copy(update={"provenance": provenance})

    monkeypatch.setattr(measuring, "datetime", Clock)
    monkeypatch.setattr(measuring, "measure", measure)
    return time


@pytest.fixture
def results(tmp_path: Path) -> ResultsFolder:
    return ResultsFolder(resolved=ResolvedStudy.of("xeon-2c", STUDY), machine_folder=tmp_path)


def test_sentinels_are_measured_at_the_begin_and_again_after_twenty_times_as_long(
    results: ResultsFolder, now: list[datetime]
) -> None:
    counts = []
    for minutes in (0, 5, 6, 1):
        now[0] += timedelta(minutes=minutes)
        measuring.measure_due_sentinels(results)
        counts.append(len(read_points(results.machine_folder)))

    assert counts == [1, 1, 2, 2]


def test_another_machine_of_the_same_id_measures_its_own(
    results: ResultsFolder, now: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring.measure_due_sentinels(results)
    monkeypatch.setattr(measuring, "boot", lambda: "another")
    measuring.measure_due_sentinels(results)

    assert len(read_points(results.machine_folder)) == 2


def test_at_the_end_sentinels_are_measured_once_after_the_newest_record(
    results: ResultsFolder, now: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(
        cpu_model="Xeon", cores=2, memory_gib=8, accelerators=(), accelerator_reason=""
    )
    monkeypatch.setattr(measuring, "require_machine", lambda _: machine)
    results.resolved.write(results.machine_folder)
    measuring.measure_due_sentinels(results)
    for variant in STUDY.variants:
        record = make_record(variant.slug, measured_at=now[0].isoformat())
        RECORD_FILE.write(record, results.record_file(variant.slug))
    now[0] += timedelta(seconds=20)
    counts = []
    for _ in range(2):
        measuring.measure_sentinels(Namespace(study=results.machine_folder / "study.json"))
        counts.append(len(read_points(results.machine_folder)))

    assert counts == [2, 2]


def test_a_sentinel_without_a_point_is_measured_beside_one_that_has_a_recent_one(
    results: ResultsFolder, now: list[datetime]
) -> None:
    measuring.measure_due_sentinels(results)
    (first,) = STUDY.sentinels
    second = replace(first, variant=replace(first.variant, seed=1))
    both = replace(STUDY, sentinels=(first, second))
    resolved = ResolvedStudy.of("xeon-2c", both)

    measuring.measure_due_sentinels(replace(results, resolved=resolved))

    points = read_points(results.machine_folder)
    assert [point.variant for point in points] == [first.variant.slug, second.variant.slug]


def test_a_sentinel_that_cannot_begin_is_named_and_stops_nothing(
    results: ResultsFolder,
    now: list[datetime],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: Any, **__: Any) -> Record:
        raise GpuReportError("there is no manifest.json")

    monkeypatch.setattr(measuring, "measure", refuse)
    measuring.measure_due_sentinels(results)

    printed = capsys.readouterr()
    assert "a sentinel, is not measured: there is no manifest.json" in printed.out + printed.err
    assert read_points(results.machine_folder) == []
