"""What is known of memory that ran out."""

import pytest

from gpu_report.measure.out_of_memory import asked_mib, host_out_of_memory, read_oom_kills


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has", 2048.0),
        ("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has", 20.0),
        ("can't allocate memory: you tried to allocate 1125899906842624 bytes. Error code 12", 2.0**30),
        ("CUDNN_STATUS_ALLOC_FAILED", None),
    ],
)
def test_what_was_asked_for_is_read_from_the_message(message: str, asked: float | None) -> None:
    assert asked_mib(message) == asked


def test_the_host_has_less_free_than_it_has() -> None:
    there_was = host_out_of_memory()
    assert there_was.asked_mib is None
    assert there_was.free_mib is not None
    assert 0 < there_was.free_mib < there_was.total_mib


def test_kills_are_counted_up() -> None:
    assert 0 <= read_oom_kills() <= read_oom_kills()
