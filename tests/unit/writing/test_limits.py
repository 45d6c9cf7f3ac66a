import math
import re
from typing import Any

import pytest

from gpu_report.tables.bundle import rows_of
from gpu_report.tables.marks import MEANINGS
from gpu_report.writing.limits import limits
from tests.factories import make_record, make_records, make_study, make_tables


def sentences(**options: Any) -> str:
    study = make_study(devices=("cpu",))
    records = make_records(study, **options)
    return " ".join(limits(rows_of(make_tables(study, records).variants)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "mean of 5 processes"),
        ({"processes": 3}, "no difference is claimed"),
        ({"processes": 1}, "comes from one process"),
        ({"noise": 0.3}, "differ so much"),
        ({"foreign_cpu_share": 0.5}, "other programs used the processor"),
        ({"steal_share": 0.5}, "the hypervisor gave"),
        ({"code_digest": "other"}, "another version of the measuring code"),
    ],
)
def test_a_doubt_about_the_records_is_a_sentence(options: dict[str, Any], words: str) -> None:
    assert words in sentences(**options)


def test_without_doubts_none_are_raised() -> None:
    text = sentences()

    assert "differ so much" not in text
    assert "hypervisor" not in text
    assert "no numbers" not in text


def test_a_variant_that_failed_is_named_with_its_reason() -> None:
    study = make_study(devices=("cpu",))
    failed = study.variants[0].slug
    records = [make_record(failed, status="failed", reason="100 % broken"), *make_records(study)[1:]]

    text = " ".join(limits(rows_of(make_tables(study, records).variants)))

    assert r"100 \%" in text.replace(r"\gpurepbreak{}", "")


def test_a_long_reason_ends_between_words_and_says_that_it_goes_on() -> None:
    paragraph = "RuntimeError: " + "nothing of this is reserved " * 20
    study = make_study(devices=("cpu",))
    records = [make_record(study.variants[0].slug, status="failed", reason=paragraph), *make_records(study)[1:]]

    told = limits(rows_of(make_tables(study, records).variants))[0].replace(r"\gpurepbreak{}", "")

    assert re.search(r"(nothing|of|this|is|reserved) (\\dots|…)", told)
    assert len(told) < 400


def test_where_nothing_was_measured_that_is_the_limit() -> None:
    study = make_study(devices=("cpu",))
    records = [make_record(variant.slug, status="skipped") for variant in study.variants]

    assert "No variant was measured" in " ".join(limits(rows_of(make_tables(study, records).variants)))


def test_an_accelerator_that_was_not_watched_is_told_and_one_that_was_is_not() -> None:
    rows = rows_of(make_tables(make_study()).variants)

    assert "not watched" not in " ".join(limits(rows))
    assert "not watched" in " ".join(limits([{**row, "sm_clock_mhz": math.nan} for row in rows]))
    assert "not watched" not in sentences()


@pytest.mark.parametrize("mark", MEANINGS)
def test_every_mark_is_a_limit(mark: str) -> None:
    plain, *others = rows_of(make_tables(make_study(devices=("cpu",))).variants)
    projected = {"epoch_time_projected": mark == "projected"}
    marked = {**plain, "marks": mark, **projected}

    told = len(limits([marked, *({**row, "marks": "", "epoch_time_projected": False} for row in others)]))

    assert told == 2


def test_one_process_everywhere_is_told_once() -> None:
    assert "there was one process only" not in sentences(processes=1)


def test_a_variant_that_was_timed_but_not_profiled_says_why() -> None:
    told = sentences(profile_overhead=None, reason="profiled run: out of memory")

    assert "was timed but not profiled: profiled run:" in told
