"""Machines are compared variant by variant, with the first that has it, and what else differs is
said.
"""

import math
from typing import Any

import pandas as pd
import pytest

from gpu_report.records.record import Record
from gpu_report.study.study import PROTOCOL_VERSION
from gpu_report.tables.marks import Today
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import summarise
from tests.factories import CODE_DIGEST, ENVIRONMENT, make_record
from tests.tabulated import tabulate_comparison
from tests.unit.tables.changed import of_class, with_measurement

SLUG, OTHER = "cnn-medium-cuda-b64-w0-fp32-e3", "lstm-cuda-b64-w0-fp32-e3"
TODAY = Today(code_digest=CODE_DIGEST)


def compare(**records: list[Record]) -> pd.DataFrame:
    shares: dict[str, dict[str, float]] = {machine: {} for machine in records}
    return tabulate_comparison(records, today=TODAY, busy_shares=shares)


def test_the_ratio_is_that_of_throughputs_with_its_interval() -> None:
    row = compare(
        first=[make_record(SLUG, throughput_per_s=100.0, noise=0.1)],
        second=[make_record(SLUG, throughput_per_s=150.0, noise=0.0)],
    ).iloc[0]
    first = summarise(
        process_values(make_record(SLUG, throughput_per_s=100.0, noise=0.1))["throughput_per_s"]
    )

    assert (row["machine"], row["reference_machine"]) == ("second", "first")
    assert row["ratio"] == pytest.approx(1.5)
    assert (row["ratio_low"], row["ratio_high"]) == pytest.approx(
        (150 / first.high, 150 / first.low)
    )


@pytest.mark.parametrize("status", ["oom", "failed", "skipped"])
def test_what_one_machine_could_not_measure_is_not_compared(status: Any) -> None:
    assert compare(first=[make_record(SLUG)], second=[make_record(SLUG, status=status)]).empty
    assert compare(first=[make_record(SLUG, status=status)], second=[make_record(SLUG)]).empty
    assert compare(only=[make_record(SLUG)]).empty


OLDER: dict[str, str | int | float | None] = {**ENVIRONMENT, "torch": "2.11.0"}


@pytest.mark.parametrize(
    ("record", "difference", "mark"),
    [
        (make_record(SLUG), "", ""),
        (
            with_measurement(make_record(SLUG), "workload", settings={"train_samples": 500}),
            "train_samples 500 and none",
            "",
        ),
        (
            make_record(SLUG, environment=OLDER),
            "PyTorch 2.11.0 and 2.15.0",
            "other software",
        ),
        (
            make_record(SLUG, environment={**ENVIRONMENT, "python": "3.12.3", "driver": "580"}),
            "Python 3.12.3 and 3.11.9; driver 580 and 580.82.07",
            "other software",
        ),
        (
            with_measurement(make_record(SLUG), "protocol", version=1),
            f"protocol 1 and {PROTOCOL_VERSION}, so that no ratio is formed",
            "other protocol",
        ),
        (make_record(SLUG, code_digest="another"), "measuring code", "earlier code"),
    ],
)
def test_what_else_differs_is_said_and_marked(record: Record, difference: str, mark: str) -> None:
    row = compare(first=[make_record(SLUG)], second=[record]).iloc[0]

    assert (row["differences"], row["marks"]) == (difference, mark)
    assert pd.isna(row["ratio"]) == (mark == "other protocol")
    assert row["throughput_per_s"] > 0


def test_two_versions_of_a_users_class_are_no_ratio_of_two_machines() -> None:
    old, new = (of_class(make_record(SLUG), digest) for digest in ("old", "new"))

    same, other = (compare(first=[old], second=[record]).iloc[0] for record in (old, new))

    assert same["differences"] == ""
    assert other["differences"] == "class my_model:MyModel, so that no ratio is formed"
    assert [pd.isna(row["ratio"]) for row in (same, other)] == [False, True]


def test_doubts_about_the_reference_are_doubts_about_the_ratio() -> None:
    row = compare(first=[make_record(SLUG, noise=0.3)], second=[make_record(SLUG)]).iloc[0]

    assert row["marks"] == "high variance"


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [({SLUG: 0.95}, {SLUG: 0.2}, 0.2), ({SLUG: 0.2}, {SLUG: 0.95}, 0.2), ({SLUG: 0.95}, {}, None)],
    ids=["the other waits", "the reference waits", "one has no trace"],
)
def test_a_configuration_is_as_busy_as_on_the_machine_that_waits_more(
    first: dict[str, float], second: dict[str, float], share: float | None
) -> None:
    records = {machine: [make_record(SLUG)] for machine in ("first", "second")}
    shares = {"first": first, "second": second}

    table = tabulate_comparison(records, today=TODAY, busy_shares=shares)

    expected = math.nan if share is None else share
    assert table["busy_share"].tolist() == pytest.approx([expected], nan_ok=True)
