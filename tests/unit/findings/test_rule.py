from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import pytest

from gpu_report.findings.estimate import Estimate, Side
from gpu_report.findings.finding import STUDY, Verdict
from gpu_report.findings.rule import ANY_AXIS, Figures, Outcome, Rule, not_measured
from gpu_report.findings.scope import Group, Scope
from gpu_report.glossary import Row
from tests.unit.findings.editing import base


def scope(name: str = "batch_size", axis: str = "batch_size") -> Scope:
    return Scope(name=name, axis=axis, tables=base()[0], rows=())


def estimated(value: float, *, spread: float = 0.1) -> Estimate:
    return Estimate(value=value, low=value - spread, high=value + spread, processes=5)


def rule(
    about: str = "batch_size", *, outcome: Outcome | None = None, unless: tuple[str, ...] = ()
) -> Rule:
    def test(_: Scope) -> Iterable[Outcome]:
        return [outcome] if outcome else []

    return Rule(
        name="pays",
        about=about,
        unless=unless,
        question="Does another {axis} pay?",
        test=test,
        threshold="Paying means more than 10 %.",
        yes="{subject} pays.",
        no="{subject} does not pay.",
        advice={"yes": "use {subject}."},
    )


@pytest.mark.parametrize(
    ("about", "unless", "applies"),
    [
        ("batch_size", (), True),
        ("workers", (), False),
        (ANY_AXIS, (), True),
        (ANY_AXIS, ("batch_size",), False),
        (STUDY, (), False),
    ],
)
def test_a_rule_is_asked_of_the_experiments_along_its_axis(
    about: str,
    unless: tuple[str, ...],
    applies: bool,  # noqa: FBT001
) -> None:
    assert rule(about, unless=unless).applies_to(scope()) == applies
    assert rule(about).applies_to(scope(STUDY, "")) == (about == STUDY)


@pytest.mark.parametrize(
    ("verdict", "statement", "recommendation", "gain"),
    [("yes", "It pays.", "Use it.", 2.0), ("no", "It does not pay.", "", None)],
)
def test_words_advice_and_gain_follow_the_verdict(
    verdict: Verdict, statement: str, recommendation: str, gain: float | None
) -> None:
    (found,) = rule(
        outcome=Outcome(verdict=verdict, fields={"subject": "it"}, gain=estimated(2.0))
    ).findings(scope())

    assert (found.statement, found.recommendation, found.gain) == (statement, recommendation, gain)
    assert found.question == "Does another batch size pay?"


def test_names_and_reasons_with_braces_are_reported_as_they_are() -> None:
    (found,) = rule(outcome=not_measured("{subject}", "it raised KeyError: '{0}'")).findings(
        scope()
    )

    assert found.statement == "{subject}: not measured, because it raised KeyError: '{0}'."


@pytest.mark.parametrize("gain", [estimated(1.0), estimated(0.9), estimated(1.5, spread=0.6)])
def test_what_measured_no_gain_or_one_that_chance_may_have_made_is_not_advised(
    gain: Estimate,
) -> None:
    outcome = Outcome(verdict="yes", fields={"subject": "256"}, gain=gain)

    (found,) = rule(outcome=outcome).findings(scope())

    assert (found.recommendation, found.gain) == ("", None)


def test_an_advice_comes_with_the_interval_of_its_gain_and_only_from_the_outcome_that_advises() -> (
    None
):
    outcome = Outcome(verdict="yes", fields={"subject": "it"}, gain=estimated(2.0, spread=0.5))

    (found,) = rule(outcome=outcome).findings(scope())
    (twin,) = rule(outcome=replace(outcome, advises=False)).findings(scope())

    assert found.gain_interval == (1.5, 2.5)
    assert (twin.recommendation, twin.gain_interval) == ("", None)


VALUES = {"above": 1.2, "below": 0.8, "unclear": 1.0}


def each(*sides: Side) -> Figures:
    rows = tuple({"seed": seed, "side": side} for seed, side in enumerate(sides))
    group = Group(title="U-Net", key="unet", axis="seed", table="seeds", rows=rows)
    return Figures(group=group, pairs=[(row, _figure(row)) for row in rows], limit=1.0)


def _figure(row: Row) -> Estimate:
    value = VALUES[row["side"]]
    return Estimate(value=value, low=value - 0.1, high=value + 0.1, processes=5)


@pytest.mark.parametrize(
    ("which", "wanted", "sides", "verdict"),
    [
        ("all", "above", ["above", "above"], "yes"),
        ("all", "above", ["above", "unclear"], "not resolved"),
        ("all", "above", ["above", "unclear", "below"], "no"),
        ("any", "below", ["below", "above"], "yes"),
        ("any", "below", ["above", "above"], "no"),
        ("any", "below", ["above", "unclear"], "not resolved"),
    ],
)
def test_all_or_any_are_on_a_side_only_with_their_whole_intervals(
    which: Literal["all", "any"],
    wanted: Literal["above", "below"],
    sides: list[Side],
    verdict: Verdict,
) -> None:
    figures = each(*sides)

    assert figures.verdict(which, wanted) == verdict
    reason = "with seed 1 the interval includes 1" if "unclear" in sides else ""
    assert figures.doubt("1") == reason
