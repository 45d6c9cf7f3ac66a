"""All findings of a study: each rule asked of the study and of every experiment that it is
about.
"""

from collections.abc import Sequence

from gpu_report.findings.finding import Finding
from gpu_report.findings.rules import RULES
from gpu_report.findings.scope import chapter_scopes, experiment_scope, search_scope, study_scope
from gpu_report.study.study import Experiment
from gpu_report.tables.bundle import Tables


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
