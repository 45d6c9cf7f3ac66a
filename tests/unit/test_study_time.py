"""How the time of a study divides follows from its records."""

from pathlib import Path

import pytest

from benchmarks.study_time import PARTS, REST, TIMED, lines, read_spans, span_of
from gpu_report.errors import GpuReportError
from gpu_report.records.record import RECORD_FILE, Record
from tests.factories import make_record

SLUG = "cnn-small-cpu-b64-w0-fp32-e3"
ON_GPU = "cnn-small-cuda-b64-w0-fp32-e3"


def taking(whole_s: float | None, record: Record) -> Record:
    return record.model_copy(
        update={"provenance": record.provenance.model_copy(update={"measuring_s": whole_s})}
    )


def test_the_parts_of_a_variant_add_up_to_the_time_that_its_measuring_took() -> None:
    record = make_record(SLUG)
    trained_s = sum(
        epoch.wall_time_s for repetition in record.repetitions for epoch in repetition.epochs
    )

    divided = span_of(taking(trained_s + 100, record))

    assert divided is not None
    assert tuple(divided.parts_s) == PARTS
    assert divided.parts_s[TIMED] == pytest.approx(trained_s)
    assert sum(divided.parts_s.values()) == pytest.approx(divided.whole_s)
    assert divided.whole_s == pytest.approx(trained_s + 100)


def test_a_variant_that_did_not_fit_is_starting_alone() -> None:
    divided = span_of(taking(3.0, make_record(ON_GPU, status="oom")))

    assert divided is not None
    assert divided.parts_s == {part: 3.0 if part == REST else 0.0 for part in PARTS}
    assert lines([divided])[-1].startswith("timed or profiled 0.0% of it")


def test_spans_come_from_a_folder_of_results_in_the_order_of_measuring(tmp_path: Path) -> None:
    for record in (
        taking(30.0, make_record(SLUG, measured_at="2026-05-04T10:00:30Z")),
        taking(60.0, make_record(ON_GPU, measured_at="2026-05-04T10:00:00Z")),
        taking(None, make_record("cnn-large-cuda-b64-w0-fp32-e3")),
    ):
        RECORD_FILE.write(record, tmp_path / "runs" / record.variant / "record.json")

    spans = read_spans([tmp_path])

    assert [(each.variant, each.whole_s) for each in spans] == [(ON_GPU, 60.0), (SLUG, 30.0)]


def test_a_folder_without_records_of_the_time_is_named(tmp_path: Path) -> None:
    RECORD_FILE.write(taking(None, make_record(SLUG)), tmp_path / "runs" / SLUG / "record.json")

    with pytest.raises(GpuReportError, match=rf"no record in {tmp_path} says how long it took"):
        read_spans([tmp_path])
