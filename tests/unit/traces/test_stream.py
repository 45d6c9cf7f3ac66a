"""A file's bytes come out whole, whatever the block, or the file is refused with its name."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_report.traces.stream import MOST_EXPANDED, blocks_of
from gpu_report.traces.trace import TraceError


def content_of(path: Path, block_bytes: int = 1 << 18) -> bytes:
    return b"".join(blocks_of(path, block_bytes=block_bytes))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(content=st.binary(max_size=500).filter(lambda content: content[:2] != b"\x1f\x8b"), size=st.integers(1, 60))
def test_plain_and_gzipped_files_give_the_same_bytes_for_any_block(tmp_path: Path, content: bytes, size: int) -> None:
    plain, zipped = tmp_path / "trace.json", tmp_path / "trace.json.gz"
    plain.write_bytes(content)
    zipped.write_bytes(gzip.compress(content))

    assert content_of(plain, size) == content_of(zipped, size) == content


def test_no_block_is_longer_than_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(bytes(1000)))

    assert max(map(len, blocks_of(path, block_bytes=64))) <= 64


def test_a_gzipped_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(b"{}"))

    assert content_of(path) == b"{}"


def test_a_gzip_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"first, ") + gzip.compress(b"second"))

    assert content_of(path) == b"first, second"


@pytest.mark.parametrize("length", [3, 12, 30, -9, -1])
def test_a_cut_gzip_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(bytes(range(256)) * 9)[:length])

    with pytest.raises(TraceError, match=f"trace {path} (ends in the middle|is damaged)"):
        content_of(path)


def test_a_gzip_whose_checksum_is_wrong_is_refused(tmp_path: Path) -> None:
    zipped = bytearray(gzip.compress(b"content" * 99))
    zipped[-6] ^= 1
    path = tmp_path / "trace.json.gz"
    path.write_bytes(zipped)

    with pytest.raises(TraceError, match=f"trace {path} is damaged"):
        content_of(path)


def test_what_is_named_gzipped_and_is_not_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(b"{}")

    with pytest.raises(TraceError, match="is not gzipped although its name says so"):
        content_of(path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=f"cannot read trace {tmp_path}: Is a directory"):
        content_of(tmp_path)


def test_what_expands_beyond_belief_is_refused_before_it_is_unzipped(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)) * 80)
    sizes: list[int] = []

    with pytest.raises(TraceError, match=f"more than {MOST_EXPANDED} times its size, as no trace does"):
        sizes.extend(map(len, blocks_of(path)))

    assert 0 < sum(sizes) <= 1 << 26


def test_a_small_file_may_expand_far(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))

    assert len(content_of(path)) == 1 << 20


def test_without_isal_the_standard_library_unzips(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": []}'))
    program = """if True:
        import sys
        from pathlib import Path
        sys.modules["isal"] = None
        from gpu_report.traces.stream import blocks_of
        sys.stdout.buffer.write(b"".join(blocks_of(Path(sys.argv[1]))))
    """

    unzipped = subprocess.run([sys.executable, "-c", program, path], capture_output=True, check=True)

    assert unzipped.stdout == b'{"traceEvents": []}'
