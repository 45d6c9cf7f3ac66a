"""Every declared rule, by what it asks about, and the findings that follow from a study's tables;
the order here is the order of the findings.
"""

from collections.abc import Sequence
from typing import Final

from gpu_report.findings.finding import Finding
from gpu_report.findings.rule import Rule
from gpu_report.findings.rules import (
    axes,
    custom_loops,
    device,
    optimization,
    scaling,
    sizes,
    study,
    trace,
)
from gpu_report.findings.scope import chapter_scopes, experiment_scope, search_scope, study_scope
from gpu_report.study.study import Experiment
from gpu_report.tables.bundle import Tables

RULES: Final[tuple[Rule, ...]] = (
    *device.RULES,
    *axes.RULES,
    *sizes.RULES,
    *optimization.RULES,
    *scaling.RULES,
    *custom_loops.RULES,
    *scaling.MODEL_SPLIT_RULES,
    *device.HARDWARE_RULES,
    *trace.RULES,
    *study.RULES,
)


def derive_findings(tables: Tables, experiments: Sequence[Experiment]) -> list[Finding]:
    """What follows from the tables, by experiment, then chapter, then the study; within each as
    rules are declared.

    An experiment that was not tabulated, or has neither variant nor search on this machine, has no
    findings; nor has a chapter without data.
    """
    tabulated = [experiment for experiment in experiments if experiment.name in tables.experiments]
    of_experiments = [scope for one in tabulated if (scope := experiment_scope(tables, one)).rows]
    of_searches = [scope for one in experiments if (scope := search_scope(tables, one)).rows]
    scopes = [*of_experiments, *of_searches, *chapter_scopes(tables), study_scope(tables)]
    return [
        finding
        for scope in scopes
        for rule in RULES
        if rule.applies_to(scope)
        for finding in rule.findings(scope)
    ]
