import math

import pytest

from gpu_report.answers.finding import Finding
from gpu_report.answers.machines import derive_comparison
from tests.factories import make_comparison
from tests.unit.answers.editing import one

FASTER = "machines_faster/h100_x1_xeon_2c"


def comparison(**cells: float | str) -> list[Finding]:
    """What follows from the H100's U-Net on CUDA, with some cells set in its rows, and from all of
    the H200.
    """
    frame = make_comparison()
    chosen = (
        (frame["machine"] == "h100-x1")
        & (frame["workload"] == "unet")
        & (frame["device"] == "cuda")
    )
    for column, value in cells.items():
        frame.loc[chosen, column] = value
    return derive_comparison(frame[chosen | (frame["machine"] != "h100-x1")])


@pytest.mark.parametrize(
    ("cells", "verdict", "words"),
    [
        ({}, "yes", "over that of Xeon, 2 cores: U-Net on the GPU"),
        (
            {"ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6},
            "no",
            "0.50 times (0.40 to 0.60), slower in all 26",
        ),
        ({"ratio_low": 0.9}, "too close to call", "the interval includes 1"),
        (
            {"busy_share": 0.95},
            "yes",
            "of 1.20 times, from 1.20 times to 1.20 times, in 26 configurations where both",
        ),
        (
            {"busy_share": 0.2},
            "yes",
            "of 1.20 times, from 1.20 times to 1.20 times, in 26 configurations where either",
        ),
        ({"marks": "other protocol"}, "too close to call", "another protocol"),
        ({"differences": "PyTorch 2.11.0 and 2.15.0"}, "yes", "PyTorch 2.11.0 and 2.15.0"),
    ],
)
def test_the_ratio_decides_which_machine_is_faster(
    cells: dict[str, float | str], verdict: str, words: str
) -> None:
    found = one(comparison(**cells), FASTER)

    assert derive_comparison(make_comparison(("alone",))) == []
    assert found.verdict == verdict
    assert words in found.statement
    assert found.statement.count("because") <= 1


def test_a_machine_that_is_slower_in_one_configuration_is_not_faster_in_every_one() -> None:
    frame = make_comparison(("here", "there"))
    frame = frame[(frame["workload"] == "cnn") & (frame["device"] == "cuda")]
    frame.loc[frame.index[0], ["ratio", "ratio_low", "ratio_high"]] = [0.5, 0.4, 0.6]

    (found,) = derive_comparison(frame)

    assert found.verdict == "no"
    assert "slower in 1 of " in found.statement


def test_a_configuration_without_a_ratio_counts_in_no_median() -> None:
    frame = make_comparison(("here", "there"))
    frame["busy_share"] = 0.95
    frame.loc[frame.index[0], ["ratio", "ratio_low", "ratio_high"]] = math.nan

    (found,) = derive_comparison(frame)

    assert f"in {len(frame) - 1} configurations where both" in found.statement
