import math
from typing import Any

import pytest

from gpu_report.writing.words import why_missing


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
