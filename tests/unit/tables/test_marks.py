"""Each doubt is marked past its threshold, and only there."""

import math
from dataclasses import replace
from typing import Any

import pytest

from gpu_report.records import Record
from gpu_report.tables.marks import MEANINGS, Today, is_same_code, marks_of
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import summarise
from tests.factories import CODE_DIGEST, PROTOCOL, make_record, make_study

SLUG = "cnn-medium-cpu-b64-w0-fp32-e3"
TODAY = Today(code_digest=CODE_DIGEST, protocol=PROTOCOL)


def marks(record: Record, today: Today = TODAY) -> list[str]:
    return marks_of(record, summarise(process_values(record)["throughput_per_s"]), today)


@pytest.mark.parametrize(
    ("mark", "quiet", "doubtful"),
    [
        ("single", {"processes": 2}, {"processes": 1}),
        ("noisy", {"noise": 0.09}, {"noise": 0.11}),
        ("not alone", {"foreign_cpu_share": 0.10}, {"foreign_cpu_share": 0.11}),
        ("stolen time", {"steal_share": 0.05}, {"steal_share": 0.06}),
        ("diverged", {"test_loss": 1.0}, {"test_loss": math.inf}),
        ("other code", {"code_digest": CODE_DIGEST}, {"code_digest": "another"}),
    ],
)
def test_a_doubt_is_marked_past_its_threshold(mark: str, quiet: dict[str, Any], doubtful: dict[str, Any]) -> None:
    assert marks(make_record(SLUG, **quiet)) == []
    assert marks(make_record(SLUG, **doubtful)) == [mark]


def test_a_shortened_epoch_is_marked_as_projected() -> None:
    assert marks(make_record("cnn-medium-cpu-b64-w0-fp32-e3x5")) == ["projected"]


def test_a_record_of_another_protocol_is_marked() -> None:
    today = replace(TODAY, protocol=replace(PROTOCOL, version=PROTOCOL.version + 1))

    assert marks(make_record(SLUG), today) == ["other protocol"]


def test_a_load_that_the_system_does_not_tell_is_no_doubt() -> None:
    assert marks(make_record(SLUG, foreign_cpu_share=None, steal_share=None)) == []


def test_a_failed_variant_is_doubted_only_for_its_code() -> None:
    assert marks(make_record(SLUG, status="failed", code_digest="another")) == ["other code"]


def test_marks_come_in_the_order_of_their_meanings() -> None:
    doubtful = make_record(SLUG, processes=1, foreign_cpu_share=0.5, steal_share=0.5, code_digest="another")

    found = marks(doubtful)

    assert found == [mark for mark in MEANINGS if mark in found]
    assert len(found) == 4


def test_a_record_made_with_other_settings_than_today_is_marked() -> None:
    study = make_study()
    slug = study.variants[0].slug
    asked = study.measurement(slug)
    changed = replace(asked, workload=replace(asked.workload, settings={**asked.workload.settings, "train_samples": 1}))
    today = Today(code_digest=CODE_DIGEST, protocol=study.protocol, measurements={slug: changed})

    same = Today(code_digest=CODE_DIGEST, protocol=study.protocol, measurements={slug: asked})
    record = make_record(slug, measurement=asked)

    assert "other settings" in marks(record, today)
    assert "other settings" not in marks(record, same)


def test_an_edit_to_a_users_own_workload_is_other_code() -> None:
    study = make_study()
    record = make_record(study.variants[0].slug, measurement=study.measurement(study.variants[0].slug))
    path = record.measurement["workload"]["class_path"]

    assert is_same_code(record, Today(code_digest=CODE_DIGEST, protocol=study.protocol))
    edited = Today(code_digest=CODE_DIGEST, protocol=study.protocol, workload_digests={path: "another"})
    assert not is_same_code(record, edited)
