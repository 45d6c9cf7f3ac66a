"""What holds for every rule, over the cases of all of them."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from gpu_report.findings.finding import STUDY, Verdict
from gpu_report.findings.rules import RULES
from gpu_report.findings.scope import (
    Scope,
    chapter_scopes,
    experiment_scope,
    search_scope,
    study_scope,
)
from tests.factories import make_study, make_tables
from tests.searches import CONFIG as SEARCHES
from tests.searches import make_search
from tests.unit.findings.editing import Case, base, rule_of
from tests.unit.findings.loops import base_of_loops
from tests.unit.findings.shared import base_of_shared

MODULES = sorted(
    path.stem for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)
)
CASES: list[Case] = [
    case for name in MODULES for case in import_module(f"tests.unit.findings.rules.{name}").CASES
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
        if found.verdict in ("not resolved", "not measured"):
            assert found.gain is None
        if found.experiment != STUDY and found.verdict == "not measured":
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
    ):
        for experiment in study.experiments:
            yield experiment_scope(tables, experiment)
            yield search_scope(tables, experiment)
        yield from (*chapter_scopes(tables), study_scope(tables))


def test_every_wording_of_a_rule_is_reached_by_data() -> None:
    every = [*scopes()]
    for rule in RULES:
        alike = [other for other in RULES if (other.name, other.yes) == (rule.name, rule.yes)]
        names = {
            f"{scope.name}_{rule.name}"
            for scope in every
            if any(other.applies_to(scope) for other in alike)
        }
        reached = {case.verdict for case in CASES if rule_of(case.finding) in names}
        verdicts: tuple[Verdict, ...] = ("yes", "no", "not resolved", "not measured")

        assert {verdict for verdict in verdicts if rule.sentence(verdict)} <= reached, rule.name


def test_every_rule_says_where_its_line_is_drawn() -> None:
    assert all(len(rule.threshold.split()) > 8 and rule.threshold.endswith(".") for rule in RULES)
