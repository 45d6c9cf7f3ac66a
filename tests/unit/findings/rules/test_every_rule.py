"""What holds for every rule, over the cases of all of them."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from gpu_report.findings.finding import STUDY
from gpu_report.findings.rule import Rule
from gpu_report.findings.rules import RULES
from gpu_report.findings.scope import (
    BATCH_SEARCH,
    DDP_OPTIONS,
    MODEL_SPLIT,
    OWN_LOOPS,
    chapter_scopes,
    experiment_scope,
    study_scope,
)
from tests.unit.findings.editing import Case, base, rule_of

MODULES = sorted(
    path.stem for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)
)
CASES: list[Case] = [
    case for name in MODULES for case in import_module(f"tests.unit.findings.rules.{name}").CASES
]

OF_AXES = [
    rule
    for rule in RULES
    if not rule.about.startswith((OWN_LOOPS, DDP_OPTIONS, MODEL_SPLIT, BATCH_SEARCH))
]
"""The others have studies of their own, in test_custom_loops, test_shared and test_batch_sizes."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_in_whole_sentences_and_recommends_only_when_it_decides(
    case: Case,
) -> None:
    found = case.derive()
    texts = [
        found.statement,
        found.recommendation,
        *(evidence.value for evidence in found.evidence),
    ]

    assert found.verdict == case.verdict
    assert not [
        text
        for text in texts
        if re.search(r"\b(nan|inf|none)\b|[{}]", text) and "none of" not in text
    ]
    assert found.statement.endswith(".")
    if found.verdict in ("not resolved", "not measured"):
        assert found.gain is None
    if found.experiment != STUDY and found.verdict == "not measured":
        assert not found.recommendation


def names_of(rule: Rule) -> list[str]:
    tables, study = base()
    of_experiments = [experiment_scope(tables, experiment) for experiment in study.experiments]
    scopes = [*of_experiments, *chapter_scopes(tables), study_scope(tables)]
    return [f"{scope.name}_{rule.name}" for scope in scopes if rule.applies_to(scope)]


def test_every_wording_of_a_rule_is_reached_by_data() -> None:
    for rule in OF_AXES:
        names = names_of(rule)
        reached = {case.verdict for case in CASES if rule_of(case.finding) in names}
        worded = {
            verdict
            for verdict in ("yes", "no", "not resolved", "not measured")
            if rule.sentence(verdict)
        }

        assert worded <= reached, f"{rule.about} {rule.name}"


def test_two_verdicts_of_a_finding_are_worded_differently() -> None:
    statements: dict[str, dict[str, str]] = {}
    for case in CASES:
        statements.setdefault(case.finding, {})[case.verdict] = case.derive().statement

    assert all(
        len(set(by_verdict.values())) == len(by_verdict) for by_verdict in statements.values()
    )


def test_every_rule_says_where_its_line_is_drawn() -> None:
    assert all(len(rule.threshold.split()) > 8 and rule.threshold.endswith(".") for rule in RULES)
