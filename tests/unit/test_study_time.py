"""How the time of a study divides follows from its records and when they were written."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from benchmarks.study_time import INTERRUPTION_S, PARTS, REST, TIMED, Span, lines, read_spans, span_of, stretches
from gpu_report.errors import GpuReportError
from gpu_report.records import write_record
from tests.factories import make_record

SLUG = "cnn-small-cpu-b64-w0-fp32-e3"
BEGIN_S = datetime.fromisoformat("2026-05-04T10:00:00Z").timestamp()


def span(*, begin_s: float, whole_s: float = 20.0) -> Span:
    return span_of(
        make_record(SLUG, measured_at=datetime.fromtimestamp(begin_s).astimezone().isoformat()),
        written_s=begin_s + whole_s,
    )


def test_the_parts_of_a_variant_add_up_to_the_time_from_its_begin_to_its_record() -> None:
    record = make_record(SLUG)
    trained_s = sum(epoch.wall_time_s for repetition in record.repetitions for epoch in repetition.epochs)

    divided = span_of(record, written_s=BEGIN_S + trained_s + 100)

    assert tuple(divided.parts_s) == PARTS
    assert divided.parts_s[TIMED] == pytest.approx(trained_s)
    assert sum(divided.parts_s.values()) == pytest.approx(divided.whole_s)
    assert divided.whole_s == pytest.approx(trained_s + 100)


def test_a_variant_that_did_not_fit_is_starting_alone() -> None:
    divided = span_of(make_record("cnn-small-cuda-b64-w0-fp32-e3", status="oom"), written_s=BEGIN_S + 3)

    assert divided.parts_s == {part: 3.0 if part == REST else 0.0 for part in PARTS}
    assert "ratio nan" in "\n".join(lines([divided]))


def test_a_gap_between_two_variants_ends_a_stretch() -> None:
    begins_s = [BEGIN_S, BEGIN_S + 20, BEGIN_S + 40 + INTERRUPTION_S + 1, BEGIN_S + 61 + INTERRUPTION_S]

    assert stretches([span(begin_s=begin_s) for begin_s in begins_s]) == [2, 2]
    assert stretches([span(begin_s=BEGIN_S)]) == [1]


def test_the_report_counts_what_was_done_at_the_end_of_each_stretch() -> None:
    told = lines([span(begin_s=BEGIN_S), span(begin_s=BEGIN_S + 20), span(begin_s=BEGIN_S + 100)])

    assert told[-1] == "from the first variant to the last 120.0 s; variants done at the end of each stretch: 2, 3"


def test_spans_come_from_a_folder_of_results_in_the_order_of_measuring(tmp_path: Path) -> None:
    begins = {SLUG: "2026-05-04T10:00:30Z", "cnn-small-cuda-b64-w0-fp32-e3": "2026-05-04T10:00:00Z"}
    for slug, begin in begins.items():
        path = tmp_path / "runs" / slug / "record.json"
        write_record(make_record(slug, measured_at=begin), path)
        os.utime(path, (BEGIN_S + 60, BEGIN_S + 60))

    spans = read_spans([tmp_path])

    assert [each.variant for each in spans] == ["cnn-small-cuda-b64-w0-fp32-e3", SLUG]
    assert [each.whole_s for each in spans] == [60.0, 30.0]


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(GpuReportError, match=rf"no record lies in {tmp_path}; name a machine's folder"):
        read_spans([tmp_path])
