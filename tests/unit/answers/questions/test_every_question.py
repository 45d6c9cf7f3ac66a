"""What holds for every question, over the cases of all of them."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from gpu_report.answers import questions
from gpu_report.answers.questions import QUESTIONS
from gpu_report.answers.scope import (
    Scope,
    chapter_scopes,
    experiment_scope,
    search_scope,
)
from tests.factories import make_study, make_tables
from tests.searches import CONFIG as SEARCHES
from tests.searches import make_search
from tests.unit.answers.editing import Case, base, rule_of
from tests.unit.answers.loops import base_of_loops
from tests.unit.answers.questions.test_sources import base_with_sources
from tests.unit.answers.shared import base_of_shared

MODULES = sorted(
    path.stem for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)
)
CASES: list[Case] = [
    case for name in MODULES for case in import_module(f"tests.unit.answers.questions.{name}").CASES
]

OF_FINDING: dict[str, list[Case]] = {}
for each in CASES:
    OF_FINDING.setdefault(each.finding, []).append(each)
GAPS = re.compile(r"\b(nan|inf|none(?! of))\b|[{}]|\b([a-z]+) \2\b")
"""What no sentence has: a number or a word that is missing, or a word twice in a row."""


@pytest.mark.parametrize("finding", OF_FINDING)
def test_verdicts_follow_the_data_in_whole_sentences_and_recommend_only_when_they_decide(
    finding: str,
) -> None:
    statements = {}
    for case in OF_FINDING[finding]:
        found = case.derive()
        values = (evidence.value for evidence in found.evidence)

        assert found.verdict == case.verdict
        assert not [
            text for text in (found.statement, found.recommendation, *values) if GAPS.search(text)
        ]
        assert found.statement.endswith(".")
        if found.verdict in ("too close to call", "not measured"):
            assert found.gain is None
        if found.verdict == "not measured":
            assert not found.recommendation
        statements[case.verdict] = found.statement

    assert len({*statements.values()}) == len(statements)


def scopes() -> Iterator[Scope]:
    """Of every study that cases are about."""
    of_searches = make_study(config=SEARCHES)
    searches = [make_search(search) for search in of_searches.searches]
    for study, tables in (
        base()[::-1],
        base_of_loops(),
        base_of_shared(),
        (of_searches, make_tables(of_searches, [], searches=searches)),
        (base()[1], base_with_sources()),
    ):
        for experiment in study.experiments:
            yield experiment_scope(tables, experiment)
            yield search_scope(tables, experiment)
        yield from chapter_scopes(tables)


def test_every_question_has_cases_of_each_answer_that_it_can_give() -> None:
    every = [*scopes()]
    for question in QUESTIONS:
        names = {f"{scope.name}_{question.name}" for scope in every if question.applies_to(scope)}
        reached = {case.verdict for case in CASES if rule_of(case.finding) in names}

        assert "yes" in reached, question.name
        assert len(reached) > 1, question.name


def test_every_question_says_where_its_line_is_drawn() -> None:
    for question in QUESTIONS:
        assert len(question.threshold.split()) > 8, question.name
        assert question.threshold.endswith("."), question.name


TYPED = re.compile(r"(?<![A-Za-z\d])\d")
"""A digit that does not end a name such as float64."""
LIMITS = ("95 %", "90 %", "10 %", "5 %", "2 %", "1 %")
"""What sentences name as the limits of their questions, which the docstrings explain."""


def test_no_number_is_typed_into_a_sentence() -> None:
    typed = [
        (path.name, part.value)
        for path in Path(questions.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.JoinedStr)
        for part in node.values
        if isinstance(part, ast.Constant)
        and TYPED.search(re.sub("|".join(LIMITS), "", str(part.value)))
    ]

    assert typed == []
