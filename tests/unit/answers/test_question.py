from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpu_report.answers.estimate import Estimate, Side
from gpu_report.answers.finding import Verdict
from gpu_report.answers.question import (
    OTHER_AXES,
    Answer,
    Compared,
    Question,
    decided,
    not_measured,
    question,
)
from gpu_report.answers.scope import TRACE, Group, Scope
from gpu_report.glossary import Row
from tests.unit.answers.editing import base

GROUP = Group(title="U-Net", key="unet", axis="seed", table="seeds", rows=())


def scope(name: str = "batch_size", axis: str = "batch_size") -> Scope:
    return Scope(name=name, axis=axis, table=name, tables=base()[0], rows=())


def estimated(value: float, *, spread: float = 0.1) -> Estimate:
    return Estimate(value=value, low=value - spread, high=value + spread, count=5)


def pays(*about: str, answer: Answer | None = None) -> Question:
    return Question(
        name="pays",
        text="Does another {axis} pay?",
        about=about or ("batch_size",),
        threshold="Paying means more than 10 %.",
        answers=lambda _: [answer] if answer else [],
    )


@pytest.mark.parametrize(
    ("about", "asked_of", "applies"),
    [
        ("batch_size", "batch_size", True),
        ("workers", "batch_size", False),
        (OTHER_AXES, "seed", True),
        (OTHER_AXES, "batch_size", False),
        (TRACE, "batch_size", False),
    ],
)
def test_a_question_is_asked_of_the_experiments_along_its_axis(
    about: str,
    asked_of: str,
    applies: bool,  # noqa: FBT001
) -> None:
    assert pays(about).applies_to(scope(axis=asked_of)) == applies
    assert pays(about).applies_to(scope(TRACE, "")) == (about == TRACE)


def test_a_declared_function_keeps_its_docstring_as_the_threshold() -> None:
    declared: list[Question] = []

    @question("Does it pay?", "seed", among=declared)
    def pays_off(_: Scope) -> Iterator[Answer]:
        """Paying means
        more than 10 %.
        """
        yield not_measured("it", "nobody tried")

    (found,) = declared[0].findings(scope("seeds", "seed"))

    assert (found.id, found.threshold) == ("seeds_pays_off", "Paying means more than 10 %.")


def test_a_question_names_its_axis_and_an_answer_begins_with_a_capital() -> None:
    answer = Answer(verdict="yes", statement="it pays.", advice="use it.")

    (found,) = pays(answer=answer).findings(scope())

    assert (found.question, found.statement) == ("Does another batch size pay?", "It pays.")
    assert (found.recommendation, found.gain) == ("Use it.", None)


def test_a_question_about_one_subject_after_another_names_each() -> None:
    asked = replace(pays(), text="Does {subject} pay?", answers=lambda _: both)
    both = [Answer(verdict="yes", statement="It pays.", subject=name) for name in ("one", "two")]

    found = [each.question for each in asked.findings(scope())]

    assert found == ["Does one pay?", "Does two pay?"]


@pytest.mark.parametrize("gain", [estimated(1.0), estimated(0.9), estimated(1.5, spread=0.6)])
def test_what_measured_no_gain_or_one_that_chance_may_have_made_is_not_advised(
    gain: Estimate,
) -> None:
    answer = Answer(verdict="yes", statement="It pays.", advice="use it.", gain=gain)

    (found,) = pays(answer=answer).findings(scope())

    assert (found.recommendation, found.gain) == ("", None)


def test_an_advice_comes_with_the_interval_of_its_gain_and_no_gain_without_an_advice() -> None:
    answer = Answer(
        verdict="yes", statement="It pays.", advice="use it.", gain=estimated(2.0, spread=0.5)
    )

    (found,) = pays(answer=answer).findings(scope())
    (silent,) = pays(answer=replace(answer, advice="")).findings(scope())

    assert found.gain_interval == (1.5, 2.5)
    assert (silent.recommendation, silent.gain_interval) == ("", None)


@pytest.mark.parametrize(
    ("figure", "verdict", "statement"),
    [
        (estimated(1.5), "yes", "It pays: so much."),
        (estimated(0.5), "no", "It does not pay: so much."),
        (
            estimated(1.08),
            "too close to call",
            "Whether it pays is too close to call, because the interval includes 1 (about "
            "8 processes would decide): so much.",
        ),
    ],
)
def test_one_figure_decides_with_its_whole_interval(
    figure: Estimate, verdict: Verdict, statement: str
) -> None:
    answer = decided(
        GROUP,
        figure,
        yes="It pays",
        no="It does not pay",
        whether="it pays",
        measured=": so much.",
        advice={"yes": "Use it."},
    )

    assert (answer.verdict, answer.statement) == (verdict, statement)
    assert answer.advice == ("Use it." if verdict == "yes" else "")


VALUES = {"above": 1.2, "below": 0.8, "unclear": 1.0}


def compared(*sides: Side) -> Compared:
    rows = tuple({"seed": seed, "side": side} for seed, side in enumerate(sides))
    return Compared(group=replace(GROUP, rows=rows), pairs=[(row, _figure(row)) for row in rows])


def _figure(row: Row) -> Estimate:
    return estimated(VALUES[row["side"]])


@pytest.mark.parametrize(
    ("sides", "verdict"),
    [
        (["below", "above"], "yes"),
        (["above", "above"], "no"),
        (["above", "unclear"], "too close to call"),
    ],
)
def test_any_is_on_a_side_only_with_its_whole_interval(sides: list[Side], verdict: Verdict) -> None:
    several = compared(*sides)

    assert several.any_on("below") == verdict
    reason = "with seed 1, the interval includes 1" if "unclear" in sides else ""
    assert several.doubt == reason
