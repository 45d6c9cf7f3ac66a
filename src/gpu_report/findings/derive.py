"""All findings of a study: each rule asked of the study and of every experiment that it is about."""

from collections.abc import Sequence

from gpu_report.findings.finding import Finding
from gpu_report.findings.rules import RULES
from gpu_report.findings.scope import experiment_scope, study_scope
from gpu_report.study import Experiment
from gpu_report.tables.bundle import Tables


def derive_findings(tables: Tables, experiments: Sequence[Experiment]) -> list[Finding]:
    """What follows from the tables, in the order of the experiments, then the study; within each as rules are declared.

    An experiment without a table, because none of it was tabulated, has no findings.
    """
    tabulated = [experiment for experiment in experiments if experiment.name in tables.experiments]
    scopes = [*(experiment_scope(tables, experiment) for experiment in tabulated), study_scope(tables)]
    return [finding for scope in scopes for rule in RULES if rule.applies_to(scope) for finding in rule.findings(scope)]
