"""Every question, by what it is about, and the findings that follow from a study's tables.

Importing a module of this package declares its questions, in the order of the file.
"""

from collections.abc import Sequence

from gpu_report.answers.finding import Finding
from gpu_report.answers.question import QUESTIONS
from gpu_report.answers.questions import (
    axes,
    device,
    optimization,
    scaling,
    sizes,
    trace,
)
from gpu_report.answers.scope import chapter_scopes, experiment_scope, search_scope
from gpu_report.study.study import Experiment
from gpu_report.tables.bundle import Tables

__all__ = [
    "QUESTIONS",
    "axes",
    "derive_findings",
    "device",
    "optimization",
    "scaling",
    "sizes",
    "trace",
]


def derive_findings(tables: Tables, experiments: Sequence[Experiment]) -> list[Finding]:
    """What follows from the tables, by experiment, then chapter; within each as questions are
    declared.

    An experiment that was not tabulated, or has neither variant nor search on this machine, has no
    findings; nor has a chapter without data.
    """
    tabulated = [experiment for experiment in experiments if experiment.name in tables.experiments]
    of_experiments = [scope for one in tabulated if (scope := experiment_scope(tables, one)).rows]
    of_searches = [scope for one in experiments if (scope := search_scope(tables, one)).rows]
    scopes = [*of_experiments, *of_searches, *chapter_scopes(tables)]
    return [
        finding
        for scope in scopes
        for question in QUESTIONS
        if question.applies_to(scope)
        for finding in question.findings(scope)
    ]
