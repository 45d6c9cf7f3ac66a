import math
from typing import Any

import pytest

from gpu_report.words import (
    batch_size_words,
    constants,
    date_words,
    in_words,
    option_notes,
    option_words,
    shorten,
    size_words,
    why_missing,
)


def test_a_day_is_written_out() -> None:
    assert date_words("2026-05-04") == "4 May 2026"


@pytest.mark.parametrize(("text", "longest"), [("abc", 3), ("abcdefghij", 5), ("k" * 300, 90)])
def test_a_shortened_text_keeps_its_ends_and_is_no_longer_than_asked(
    text: str, longest: int
) -> None:
    short = shorten(text, longest)

    assert len(short) == min(len(text), longest)
    assert short[0] == text[0]
    assert short[-1] == text[-1]


def test_the_eager_baseline_is_not_called_none() -> None:
    assert in_words("optimization", "none") == "the eager baseline"


def test_a_language_model_is_named_by_its_parameters_and_an_unusual_context() -> None:
    words = {"128px": "128px", "124m": "124M", "124m_2048": "124M (context 2048)"}
    words |= {"tiny": "tiny", "wide_2048": "of width 2048"}
    assert {size: size_words(size) for size in words} == words


def test_every_part_of_the_optimizations_is_explained_once_in_their_order() -> None:
    words = option_words(
        ["none", "workers4", "pinned", "workers4+pinned", "accumulate2+checkpoint"]
    )

    assert [name for name, _, _ in words] == ["workers4", "pinned", "accumulate2", "checkpoint"]
    assert words[0][1] == "4 DataLoader workers"
    assert words[2][1] == "accumulation in 2 parts"
    assert all(meaning for _, _, meaning in words)


def test_a_note_explains_each_option_of_a_table_once() -> None:
    rows = [
        {"options": options}
        for options in ("none", "resident", "resident+graphs", "resident+bucket5")
    ]

    (note,) = option_notes(rows)
    assert [note.count(name) for name in ("resident", "graphs (CUDA graphs)", "bucket5")] == [
        1,
        1,
        0,
    ]
    assert option_notes(rows[:1]) == []


def row(**changes: Any) -> dict[str, Any]:
    return {"status": "oom", "memory_asked_mib": 2048.0, "device_memory_mib": 81920.0, **changes}


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (row(), "out of memory: asked for 2.00 GiB more; the device has 80.0 GiB"),
        (
            row(memory_free_mib=1024.0),
            "out of memory: asked for 2.00 GiB more, 1.00 GiB free",
        ),
        (row(memory_asked_mib=math.nan), "out of memory"),
        (row(status="skipped"), "skipped"),
        (row(status="ok"), ""),
    ],
)
def test_a_row_without_numbers_says_why_with_what_was_asked_and_what_there_was(
    missing: dict[str, Any], words: str
) -> None:
    assert why_missing(missing) == words


@pytest.mark.parametrize(
    ("parallelism", "device", "words"),
    [
        ("single", "cuda", "64"),
        ("ddp1", "cuda", "64"),
        ("fsdp2", "cuda", "32 per GPU"),
        ("ddp4", "cpu", "16 per process"),
        ("split2", "cuda", "64"),
    ],
)
def test_a_batch_that_several_devices_divide_is_what_each_has_of_it(
    parallelism: str, device: str, words: str
) -> None:
    row = {"batch_size": 64, "parallelism": parallelism, "device": device}
    axes = ("batch_size", "parallelism")

    assert batch_size_words(row) == words
    assert f"batch size {words}," in constants(axes, [row, row], unsaid={})
    if parallelism != "single":  # strong scaling: what is the same is the whole batch
        assert constants(axes, [row, {**row, "parallelism": "single"}], unsaid={}).endswith("64")
