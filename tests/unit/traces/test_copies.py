"""Copies by direction and kind of host memory, as their names tell."""

from pathlib import Path
from typing import Any

import pytest

from gpu_report.traces.copies import copy_kind, copy_rows
from tests.unit.traces.by_hand import STREAM, RawEvent, kernel, launch, made_by, span, step, trace_of


@pytest.mark.parametrize(
    ("name", "direction", "host_memory"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "to device", "pinned"),
        ("Memcpy HtoD (Pageable -> Device)", "to device", "pageable"),
        ("Memcpy HtoA (Pageable -> Array)", "to device", "pageable"),
        ("Memcpy HtoD (Managed -> Device)", "to device", "managed"),
        ("Memcpy HtoD (Host -> Device)", "to device", "unknown"),
        ("Memcpy DtoH (Device -> Pinned)", "to host", "pinned"),
        ("Memcpy DtoH (Device -> Pageable)", "to host", "pageable"),
        ("Memcpy DtoD (Device -> Device)", "within device", ""),
        ("Memcpy PtoP (Device -> Device)", "between devices", ""),
        ("Memcpy HtoH (Pageable -> Pageable)", "within host", "pageable"),
        ("CopyHostToDevice", "to device", "unknown"),
        ("CopyDeviceToHost", "to host", "unknown"),
        ("CopyDeviceToDevice", "within device", ""),
        ("hipMemcpyHostToDevice", "to device", "unknown"),
        ("Memcpy M2D", "to device", "unknown"),
        ("Memcpy D2M", "to host", "unknown"),
        ("Memcpy <unknown> (Unknown -> Unknown)", "unknown", "unknown"),
    ],
)
def test_a_copys_name_tells_its_direction_and_the_kind_of_host_memory(
    name: str, direction: str, host_memory: str
) -> None:
    assert copy_kind(name) == (direction, host_memory)


def copy(name: str, number: int, duration_us: float, **arguments: int) -> tuple[RawEvent, RawEvent]:
    work = span("gpu_memcpy", name, 10 * number, duration_us, on=STREAM, correlation=number, **arguments)
    return launch(number, 5), work


def rows_of(folder: Path, *copies: tuple[RawEvent, RawEvent]) -> list[dict[str, Any]]:
    events = [event for pair in copies for event in pair]
    trace = trace_of(folder, step(1, 0, 1000), *events, launch(99, 5), kernel("gemm", 900, 1, correlation=99))
    return made_by(copy_rows, trace)


def test_copies_of_one_kind_are_one_row_whatever_their_names_the_longest_first(tmp_path: Path) -> None:
    upload = "Memcpy HtoD (Pinned -> Device)"

    rows = rows_of(
        tmp_path,
        copy("Memcpy DtoH (Device -> Pageable)", 1, 1, bytes=2**20),
        copy(upload, 2, 2, bytes=2**20),
        copy(upload, 3, 6, bytes=3 * 2**20),
    )

    assert rows == [
        {
            "direction": "to device",
            "host_memory": "pinned",
            "copies": 2,
            "size_mib": 4.0,
            "total_ms": 0.008,
            "gb_per_s": 4 * 2**20 / 8000,
        },
        {
            "direction": "to host",
            "host_memory": "pageable",
            "copies": 1,
            "size_mib": 1.0,
            "total_ms": 0.001,
            "gb_per_s": 2**20 / 1000,
        },
    ]


def test_a_size_that_is_not_written_leaves_size_and_rate_missing(tmp_path: Path) -> None:
    row, *others = rows_of(tmp_path, copy("CopyHostToDevice", 1, 1, bytes=8), copy("CopyHostToDevice", 2, 1))

    assert not others
    assert (row["copies"], row["size_mib"], row["gb_per_s"]) == (2, None, None)


def test_a_copy_that_took_no_time_has_no_rate(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, copy("CopyHostToDevice", 1, 0, bytes=2**20))

    assert (row["size_mib"], row["gb_per_s"]) == (1.0, None)


def test_kernels_are_no_copies(tmp_path: Path) -> None:
    assert rows_of(tmp_path) == []
