import math

import pytest

from gpu_report.tables.traces import STEP_PARTS
from gpu_report.user_training.step_parts import parts_of

MISSING = math.nan


@pytest.mark.parametrize(
    ("device", "shares", "parts"),
    [
        ("cuda", {"kernel": 0.6, "memset": 0.1, "memcpy": 0.3}, {"kernels": 0.7, "transfer": 0.3}),
        ("cuda", {"communication": 0.7, "kernel": 0.3}, {"communication": 0.7, "kernels": 0.3}),
        ("cuda", {"runtime": 0.2, "operator": 0.3, "other": 0.5}, {"launch": 1.0}),
        ("cuda", {"kernel": 0.7, "runtime": MISSING}, {"kernels": 0.7}),
        ("cuda", {"kernel": 0.4, "runtime": MISSING}, {}),
        ("cpu", {"operator": 0.9, "other": 0.1}, {"kernels": 0.9, "host": 0.1}),
    ],
)
def test_the_parts_of_a_step_are_known_where_all_are_or_one_takes_more_than_half(
    device: str, shares: dict[str, float], parts: dict[str, float]
) -> None:
    of_step = {f"{part}_share": shares.get(part, 0.0) for part in STEP_PARTS}

    found = parts_of(of_step, on_cpu=device == "cpu")

    assert {name: part for name, part in found.items() if part} == pytest.approx(parts)
