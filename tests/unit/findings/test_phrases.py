import math

import pytest

from gpu_report.findings import phrases
from gpu_report.findings.estimate import Estimate
from gpu_report.words import described, in_words
from tests.unit.findings.editing import figure


def of(value: float, spread: float, processes: int = 5) -> Estimate:
    return Estimate(value=value, low=value - spread, high=value + spread, processes=processes)


def test_an_estimate_carries_its_interval_and_count() -> None:
    assert (
        phrases.times(of(12.34, 0.5)) == "12.34 times (95 % interval 11.84 to 12.84, 5 processes)"
    )
    assert phrases.times(of(12.34, 0.5), short=True) == "12.34 times (11.84 to 12.84)"


def test_one_process_carries_its_count_alone() -> None:
    assert phrases.times(of(2.0, math.nan, processes=1)) == "2.00 times (1 process)"
    assert phrases.times(of(2.0, math.nan, processes=1), short=True) == "2.00 times"


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("step_time_ms", "250 ms (5 processes)"),
        ("throughput_per_s", "250 samples/s (5 processes)"),
        ("memory_peak_mib", "250 MiB (5 processes)"),
        ("quality", "250 (5 processes)"),
    ],
)
def test_a_column_is_reported_in_its_unit(column: str, text: str) -> None:
    row = {"variant": "x", "marks": "", "processes": 5, **figure(column, 250.0)}

    assert phrases.of_column(row, column) == text


def test_a_missing_number_is_not_measured() -> None:
    row = {"variant": "x", "marks": "", "processes": 5, **figure("quality", math.nan)}

    assert phrases.of_column(row, "quality") == "not measured"
    assert phrases.evidence_of_columns([row], {"quality": "quality"}, "variants") == ()


@pytest.mark.parametrize(
    ("chosen", "total", "text"),
    [
        (2, 7, "2 of 7 variants"),
        (7, 7, "all 7 variants"),
        (0, 7, "none of 7 variants"),
        (2, 2, "both variants"),
        (1, 1, "the one variant"),
    ],
)
def test_a_part_of_a_number_of_things_reads_as_words(chosen: int, total: int, text: str) -> None:
    assert phrases.how_many(chosen, total, "variant") == text


@pytest.mark.parametrize(
    ("value", "words"), [(1.4e-6, "less than 0.1 %"), (0.0, "0 %"), (0.06, "0.1 %")]
)
def test_a_trace_of_a_per_cent_is_reported_neither_to_its_last_digit_nor_as_nothing(
    value: float, words: str
) -> None:
    share = {
        "share_of_peak": value / 100,
        "share_of_peak_low": math.nan,
        "share_of_peak_high": math.nan,
        "share_of_peak_count": 0,
    }

    assert phrases.percent_alone(value) == words
    assert (
        phrases.of_column({**share, "variant": "a", "processes": 0, "marks": ""}, "share_of_peak")
        == words
    )


def test_the_variants_that_decide_come_first_and_once() -> None:
    rows = [
        {
            "variant": name,
            "quality": 0.5,
            "quality_low": 0.4,
            "quality_high": 0.6,
            "quality_count": 5,
        }
        for name in "abc"
    ]

    found = phrases.evidence_of_columns(
        rows, {"quality": "q"}, "t", first=[rows[2], rows[1], rows[2]]
    )

    assert [one.variant for one in found] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("device", "cpu", "the CPU"),
        ("device", "cuda:1", "CUDA 1"),
        ("workers", 0, "0 DataLoader workers"),
        ("workers", 1, "1 DataLoader worker"),
        ("batch_size", 64, "batch size 64"),
        ("precision", "bf16", "precision bf16"),
        ("accumulation", 1, "whole batches"),
        ("accumulation", 4, "accumulation in 4 parts"),
        ("optimization", "none", "the eager baseline"),
        ("optimization", "autotune", "cuDNN autotuning"),
        ("optimization", "workers4+pinned", "4 DataLoader workers and pinned memory"),
        ("options", "pinned+prefetch", "pinned memory and prefetch on a side stream"),
        ("steps_per_epoch", float("nan"), "whole epochs"),
        ("steps_per_epoch", 6.0, "epochs of 6 steps"),
    ],
)
def test_a_field_reads_as_words(field: str, value: object, words: str) -> None:
    assert in_words(field, value) == words


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ({}, "U-Net 128px on CUDA (batch size 16)"),
        ({"size": "default", "device": "cpu"}, "U-Net on the CPU (batch size 16)"),
        (
            {"precision": "bf16", "optimization": "graphs"},
            "U-Net 128px on CUDA (batch size 16, bf16, CUDA graphs)",
        ),
        (
            {"devices": 4, "parallelism": "fsdp4"},
            "U-Net 128px on CUDA (batch size 16, FSDP2 on 4 devices)",
        ),
    ],
)
def test_a_variant_is_described_by_what_it_trains_where_and_how(
    cells: dict[str, object], text: str
) -> None:
    plain = {
        "workload_title": "U-Net",
        "size": "128px",
        "device": "cuda",
        "batch_size": 16,
        "precision": "fp32",
    }

    assert (
        described({**plain, "optimization": "none", "devices": 1, "parallelism": "single", **cells})
        == text
    )
