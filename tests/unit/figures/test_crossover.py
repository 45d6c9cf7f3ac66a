from dataclasses import replace
from typing import Any

import pytest

from tests.unit.figures.drawn import draw_named, specs_by_name, study_and_tables, texts_of


def text_with(**changes: Any) -> str:
    study, tables = study_and_tables("crossover")
    tables = replace(tables, crossovers=tables.crossovers.iloc[:1].assign(**changes))
    return texts_of(draw_named("crossover_crossover", tables, study))


def test_the_batch_size_of_the_crossover_is_told_with_its_interval() -> None:
    text = text_with(verdict="crosses", batch_size=9.25, batch_size_low=7.5, batch_size_high=12.0)

    assert "crosses at 9.2 (7.5 to 12.0)" in text
    assert "as fast as CPU" in text


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("accelerator always", "faster at every size"),
        ("cpu always", "slower at every size"),
        ("unclear", "no clear crossover"),
    ],
)
def test_without_a_crossover_the_verdict_is_told(verdict: str, words: str) -> None:
    nothing = float("nan")

    text = text_with(verdict=verdict, batch_size=nothing, batch_size_low=nothing, batch_size_high=nothing)

    assert words in text
    assert "crosses" not in text


def test_what_the_crossover_repeats_is_left_to_the_other_experiment_about_devices() -> None:
    study, tables = study_and_tables("device", "crossover")
    alone, tables_alone = study_and_tables("crossover")

    assert "crossover_categories" not in specs_by_name(tables, study)
    assert "crossover_categories" in specs_by_name(tables_alone, alone)
