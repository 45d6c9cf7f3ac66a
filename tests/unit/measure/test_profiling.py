"""A trace is in its place whole or not at all."""

import gzip
import hashlib
from pathlib import Path

import pytest

from gpu_report.errors import FileWriteError
from gpu_report.measure.profiling import move_whole_trace

WHOLE = b'{"traceEvents": [{"name": "a"}, {"name": "b"}], "traceName": "trace.json"}'


def test_a_whole_trace_is_moved_into_place_with_its_digest(tmp_path: Path) -> None:
    unfinished, trace_file = tmp_path / "unfinished", tmp_path / "trace"
    unfinished.write_bytes(gzip.compress(WHOLE))

    assert (
        move_whole_trace(unfinished, trace_file)
        == hashlib.sha256(trace_file.read_bytes()).hexdigest()
    )
    assert gzip.decompress(trace_file.read_bytes()) == WHOLE
    assert not unfinished.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        gzip.compress(b"[]"),
        gzip.compress(WHOLE[: WHOLE.index(b"}") + 1]),
        gzip.compress(WHOLE[:-1]),
        gzip.compress(WHOLE)[:-9],
        None,
    ],
    ids=["empty", "no object", "after an event", "before its last brace", "cut gzip", "missing"],
)
def test_a_trace_cut_short_is_no_trace(tmp_path: Path, content: bytes | None) -> None:
    unfinished, trace_file = tmp_path / "unfinished", tmp_path / "trace"
    if content is not None:
        unfinished.write_bytes(content)

    with pytest.raises(FileWriteError, match="was not written whole; free some space") as raised:
        move_whole_trace(unfinished, trace_file)

    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []
