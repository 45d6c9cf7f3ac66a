"""Which processes are measured with a time budget and without; measuring is replaced by records
that are made.
"""

from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpu_report.commands import budget, measuring
from gpu_report.commands.results_folder import ResolvedStudy, ResultsFolder
from gpu_report.records.record import RECORD_FILE, Record, Status
from gpu_report.study.machine import boot
from gpu_report.study.study import Experiment, Measurement, Study
from gpu_report.study.variant import Variant
from tests.factories import ENVIRONMENT, make_record, make_study

SLOW, FAST = "cnn-small-cpu-b64-w0-fp32-e2x5", "cnn-small-cpu-b16-w0-fp32-e2x5"
EXPERIMENT = Experiment(
    name="batch_size",
    question="Which batch size is fastest?",
    axis="batch_size",
    baseline=64,
    variants=(Variant.from_slug(SLOW), Variant.from_slug(FAST)),
)
STUDY = replace(make_study(devices=["cpu"]), experiments=(EXPERIMENT,), sentinels=())
PROCESS_S = 10.0
CODE = "0" * 64

Count = Callable[..., dict[str, int]]


def made(slug: str, processes: int, **options: Any) -> Record:
    """A record of this session, whose processes took ten seconds each, the profiled one too."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = make_record(
        slug,
        processes=processes,
        measurement=STUDY.measurement(slug),
        **{"measured_at": now, **options},
    )
    seconds = PROCESS_S * (processes + (record.profile is not None))
    provenance = record.provenance.model_copy(update={"measuring_s": seconds, "boot": boot()})
    return record.model_copy(update={"provenance": provenance})


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Count:
    """How many processes each record has once further ones were measured."""
    monkeypatch.setattr(budget, "require_machine", lambda _: None)

    def count(
        speeds: Mapping[str, float],
        *,
        noise: float,
        minutes: float | None = None,
        study: Study = STUDY,
        further: Status = "ok",
        measured_at: str = "",
        **of_further: Any,
    ) -> dict[str, int]:
        resolved = ResolvedStudy.of("xeon-2c", replace(study, minutes=minutes))
        resolved = resolved.model_copy(update={"today": replace(resolved.today, code_digest=CODE)})
        results = ResultsFolder(resolved=resolved, machine_folder=tmp_path)
        for slug, speed in speeds.items():
            when = {"measured_at": measured_at} if measured_at else {}
            record = made(slug, 3, throughput_per_s=speed, noise=noise, code_digest=CODE, **when)
            RECORD_FILE.write(record, results.record_file(slug))
        resolved.write(tmp_path)

        def measure(asked: Measurement, *, processes: range, **_: Any) -> Record:
            slug = asked.variant.slug
            record = made(
                slug,
                processes.stop,
                status=further,
                throughput_per_s=speeds[slug],
                noise=noise,
                **of_further,
            )
            took = record.provenance.model_copy(update={"measuring_s": PROCESS_S})
            kept = [each for each in record.repetitions if each.index in processes]
            return record.model_copy(update={"repetitions": kept, "provenance": took})

        def measure_anew(_: ResultsFolder, slug: str, **__: Any) -> Record:
            record = made(slug, 5, throughput_per_s=speeds[slug], noise=noise, code_digest=CODE)
            RECORD_FILE.write(record, results.record_file(slug))
            return record

        monkeypatch.setattr(measuring, "measure", measure)
        monkeypatch.setattr(budget, "measure_whole", measure_anew)
        budget.measure_further(Namespace(study=tmp_path / "study.json", experiment=""))
        return {
            slug: len(RECORD_FILE.read(results.record_file(slug)).repetitions) for slug in speeds
        }

    return count


def test_a_clear_difference_needs_no_further_process(
    measured: Count, capsys: pytest.CaptureFixture[str]
) -> None:
    found = measured({SLOW: 100.0, FAST: 300.0}, noise=0.001, minutes=60)

    assert found == {SLOW: 3, FAST: 3}
    assert "0 throughput comparisons left open for lack of time" in capsys.readouterr().out


def test_both_sides_of_an_open_claim_get_all_processes_where_none_decides_it(
    measured: Count,
) -> None:
    assert measured({SLOW: 100.0, FAST: 107.0}, noise=0.04, minutes=60) == {SLOW: 5, FAST: 5}


def test_a_claim_that_all_processes_would_leave_open_gets_none(measured: Count) -> None:
    assert measured({SLOW: 100.0, FAST: 100.1}, noise=0.1, minutes=60) == {SLOW: 3, FAST: 3}


def test_no_process_begins_that_would_end_after_the_budget(
    measured: Count, capsys: pytest.CaptureFixture[str]
) -> None:
    spent_s = 2 * 4 * PROCESS_S

    found = measured({SLOW: 100.0, FAST: 107.0}, noise=0.04, minutes=(spent_s + 15) / 60)

    assert sorted(found.values()) == [3, 4]
    said = capsys.readouterr().out
    assert "1 throughput comparison left open for lack of time" in said
    assert f"their remaining processes would take about {3 * PROCESS_S:.0f} s" in said


def test_without_a_budget_every_record_gets_the_processes_that_the_study_asks_for(
    measured: Count,
) -> None:
    assert measured({SLOW: 100.0, FAST: 300.0}, noise=0.001) == {SLOW: 5, FAST: 5}


def test_what_another_session_measured_stays_within_a_budget_and_is_named(
    measured: Count, capsys: pytest.CaptureFixture[str]
) -> None:
    old = "2026-05-04T10:00:00Z"

    found = measured({SLOW: 100.0, FAST: 107.0}, noise=0.04, minutes=60, measured_at=old)

    assert found == {SLOW: 3, FAST: 3}
    assert f"{FAST}, {SLOW} have too few processes" in capsys.readouterr().out


def test_what_another_session_measured_is_measured_anew_without_a_budget(
    measured: Count, capsys: pytest.CaptureFixture[str]
) -> None:
    old = "2026-05-04T10:00:00Z"

    found = measured({SLOW: 100.0, FAST: 107.0}, noise=0.04, measured_at=old)

    assert found == {SLOW: 5, FAST: 5}
    assert f"{SLOW}, measured again from the start" in capsys.readouterr().out


def test_processes_of_other_software_do_not_join_a_record(
    measured: Count, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {**ENVIRONMENT, "torch": "99.0"}

    assert measured({SLOW: 100.0, FAST: 300.0}, noise=0.001, environment=other) == {
        SLOW: 3,
        FAST: 3,
    }
    assert "99.0" in capsys.readouterr().out


def test_a_further_process_that_runs_out_of_memory_decides_the_status(
    measured: Count, tmp_path: Path
) -> None:
    measured({SLOW: 100.0, FAST: 300.0}, noise=0.001, further="oom")

    results = tmp_path / "runs" / SLOW / "record.json"
    assert RECORD_FILE.read(results).status == "oom"
