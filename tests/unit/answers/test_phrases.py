import math

import pytest

from gpu_report.answers import phrases
from gpu_report.answers.estimate import Estimate
from tests.unit.answers.editing import figure


def of(value: float, spread: float, processes: int = 5) -> Estimate:
    return Estimate(value=value, low=value - spread, high=value + spread, count=processes)


def test_an_estimate_carries_its_interval_and_count_and_one_process_its_count_alone() -> None:
    many, alone = of(12.34, 0.5, processes=3), of(2.0, math.nan, processes=1)

    assert phrases.times(many) == "12.34 times (95 % interval 11.84 to 12.84, 3 processes)"
    assert phrases.times(many, short=True) == "12.34 times (11.84 to 12.84)"
    assert phrases.times(alone) == "2.00 times (1 process)"
    assert phrases.times(alone, short=True) == "2.00 times"


def test_a_missing_number_is_not_measured() -> None:
    row = {"variant": "x", "marks": "", "processes": 5, **figure("quality", math.nan)}

    assert phrases.shown(row, "quality") == "not measured"
    assert phrases.evidence_of_columns([row], {"quality": "quality"}, "variants") == ()


@pytest.mark.parametrize(
    ("value", "words"), [(1.4e-6, "less than 0.1 %"), (0.0, "0 %"), (0.06, "0.1 %")]
)
def test_a_trace_of_a_per_cent_is_reported_neither_to_its_last_digit_nor_as_nothing(
    value: float, words: str
) -> None:
    share = {**figure("share_of_peak", value / 100, math.nan), "share_of_peak_count": 0}
    row = {**share, "variant": "a", "processes": 0, "marks": ""}

    assert phrases.percent_alone(value) == words
    assert phrases.shown(row, "share_of_peak") == words
