"""Traces meet what Perfetto's importer asks for, and the check of it finds every way in which one
would not.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.perfetto import complaints, partial_overlaps
from tests.unit.traces.by_hand import operation, write

TRACES = sorted((Path(__file__).parents[1] / "data" / "traces").glob("*.json.gz"))
FLOW = {"ph": "s", "id": 4, "ts": 1.5, "pid": 1, "tid": 2, "cat": "ac2g", "name": "ac2g"}


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_perfetto_shows_every_event_of_a_trace_of_an_accelerator(path: Path) -> None:
    assert complaints(path) == []


def written(folder: Path, *events: Any) -> Path:
    return write(folder / "rank0.pt.trace.json.gz", list(events))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"ph": "?"}, "unknown ph"),
        ({"ts": None}, "ts is no number"),
        ({"ts": "early"}, "ts is no number"),
        ({"dur": None}, "dur is no number"),
        ({"pid": -1}, "pid is neither a number nor a name"),
        ({"tid": 2**32}, "tid is neither a number nor a name"),
        ({"name": 5}, "name is no text"),
        ({"shapes": [1, 2]}, "a list beside the arguments"),
        ({"ph": "i", "s": "x"}, "unknown scope"),
        ({"ph": "C", "args": None}, "a counter without arguments"),
        ({**FLOW, "id": None}, "a flow without id"),
        ({**FLOW, "id": "none"}, "a flow without id"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_perfetto_would_skip_is_found(
    tmp_path: Path, changed: dict[str, Any], complaint: str
) -> None:
    sound = operation("aten::mm", 1, 2)

    assert (
        complaints(
            written(tmp_path, sound, FLOW, {"ph": "M", "name": "process_name", "pid": 1, "tid": 0})
        )
        == []
    )
    (found,) = complaints(written(tmp_path, sound, {**sound, **changed}))
    assert found.startswith(complaint)


def test_slices_that_overlap_in_part_are_found_and_those_inside_others_are_not(
    tmp_path: Path,
) -> None:
    inside = (
        operation("inside", 1, 2),
        operation("around", 1, 9),
        operation("after", 10, 5),
        operation("end", 14, 1),
    )

    assert partial_overlaps(written(tmp_path, *inside), "cpu_op") == []
    assert partial_overlaps(written(tmp_path, *inside, operation("beyond", 12, 4)), "cpu_op") == [
        "beyond"
    ]
