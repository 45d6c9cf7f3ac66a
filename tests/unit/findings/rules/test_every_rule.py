"""What holds for every rule, over the cases of all of them."""

import re

import pytest

from gpu_report.findings.finding import STUDY
from gpu_report.findings.rule import Rule
from gpu_report.findings.rules import RULES
from gpu_report.findings.scope import OWN_LOOPS, chapter_scopes, experiment_scope, study_scope
from tests.unit.findings.editing import Case, base, rule_of
from tests.unit.findings.rules import (
    test_any_axis,
    test_batch_size,
    test_busy,
    test_consistency,
    test_crossover,
    test_device,
    test_efficiency,
    test_energy,
    test_frontier,
    test_growth,
    test_limits,
    test_operations,
    test_optimization,
    test_phases,
    test_precision,
    test_preparation,
    test_saving,
    test_size,
    test_study,
    test_trace,
    test_training,
    test_transfer,
    test_workers,
)

CASES = [
    case
    for module in (
        test_any_axis,
        test_batch_size,
        test_busy,
        test_busy,
        test_consistency,
        test_crossover,
        test_device,
        test_efficiency,
        test_energy,
        test_frontier,
        test_growth,
        test_limits,
        test_operations,
        test_limits,
        test_optimization,
        test_phases,
        test_precision,
        test_preparation,
        test_saving,
        test_size,
        test_study,
        test_trace,
        test_training,
        test_transfer,
        test_workers,
    )
    for case in module.CASES
]

OF_AXES = [rule for rule in RULES if not rule.about.startswith(OWN_LOOPS)]
"""Those about loops have a study of their own, in test_own_loops."""


def names_of(rule: Rule) -> list[str]:
    tables, study = base()
    of_experiments = [experiment_scope(tables, experiment) for experiment in study.experiments]
    scopes = [*of_experiments, *chapter_scopes(tables), study_scope(tables)]
    return [f"{scope.name}_{rule.name}" for scope in scopes if rule.applies_to(scope)]


@pytest.mark.parametrize("rule", OF_AXES, ids=lambda rule: f"{rule.about} {rule.name}")
def test_every_wording_of_a_rule_is_reached_by_data(rule: Rule) -> None:
    names = names_of(rule)
    reached = {case.verdict for case in CASES if rule_of(case.finding) in names}
    worded = {verdict for verdict in ("yes", "no", "not resolved", "not measured") if rule.sentence(verdict)}

    assert worded <= reached


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_statement_holds_a_missing_number_or_an_unfilled_field(case: Case) -> None:
    found = case.derive()
    texts = [found.statement, found.recommendation, *(evidence.value for evidence in found.evidence)]

    assert not [text for text in texts if re.search(r"\b(nan|inf|none)\b|[{}]", text) and "none of" not in text]
    assert found.statement.endswith(".")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_only_a_verdict_that_decides_recommends_by_a_gain(case: Case) -> None:
    found = case.derive()

    if found.verdict in ("not resolved", "not measured"):
        assert found.gain is None
    if found.experiment != STUDY and found.verdict == "not measured":
        assert not found.recommendation


def test_two_verdicts_of_a_finding_are_worded_differently() -> None:
    statements: dict[str, dict[str, str]] = {}
    for case in CASES:
        statements.setdefault(case.finding, {})[case.verdict] = case.derive().statement

    assert all(len(set(by_verdict.values())) == len(by_verdict) for by_verdict in statements.values())


def test_every_rule_says_where_its_line_is_drawn() -> None:
    assert all(len(rule.threshold.split()) > 8 and rule.threshold.endswith(".") for rule in RULES)
