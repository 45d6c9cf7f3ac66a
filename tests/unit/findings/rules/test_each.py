import pytest

from gpu_report.findings.estimate import Estimate, Row, Side
from gpu_report.findings.finding import Verdict
from gpu_report.findings.rule import Figures
from gpu_report.findings.scope import Group

VALUES = {"above": 1.2, "below": 0.8, "unclear": 1.0}


def each(*sides: Side) -> Figures:
    rows = tuple({"seed": seed, "side": side} for seed, side in enumerate(sides))
    group = Group(title="U-Net", key="unet", axis="seed", table="seeds", rows=rows)
    return Figures(group=group, baseline=rows[0], pairs=[(row, _figure(row)) for row in rows], limit=1.0)


def _figure(row: Row) -> Estimate:
    value = VALUES[row["side"]]
    return Estimate(value=value, low=value - 0.1, high=value + 0.1, processes=5)


@pytest.mark.parametrize(
    ("sides", "verdict"),
    [
        (["above", "above"], "yes"),
        (["above", "unclear"], "not resolved"),
        (["above", "unclear", "below"], "no"),
    ],
)
def test_all_lie_above_unless_one_lies_below_or_decides_nothing(sides: list[Side], verdict: Verdict) -> None:
    assert each(*sides).verdict("all", "above") == verdict


@pytest.mark.parametrize(
    ("sides", "verdict"),
    [
        (["below", "above"], "yes"),
        (["above", "above"], "no"),
        (["above", "unclear"], "not resolved"),
    ],
)
def test_one_lies_below_only_if_its_whole_interval_does(sides: list[Side], verdict: Verdict) -> None:
    assert each(*sides).verdict("any", "below") == verdict


def test_the_first_that_decides_nothing_is_named_with_the_reason() -> None:
    assert each("above", "unclear").doubt("1") == "seed 1 decides nothing: the interval includes 1"
    assert each("above").doubt("1") == ""


def test_each_is_listed_with_its_figure() -> None:
    figures = each("above", "below")

    assert figures.listed("{figure:short}", figures.on("below")) == "with seed 1 0.80 times (0.70 to 0.90)"
    assert figures.listed("{figure:short}", []) == "none"
