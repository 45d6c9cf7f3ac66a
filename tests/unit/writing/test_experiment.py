"""One experiment for its section: its table, and the rows and notes of custom training loops."""

import pytest

from gpu_report.errors import ReportError
from gpu_report.writing.experiment import ExperimentResults
from gpu_report.writing.machine import MachineResults
from tests.factories import make_study
from tests.report.synthetic import results_on


def found_of(name: str, machine: MachineResults) -> ExperimentResults:
    (experiment,) = [each for each in make_study().experiments if each.name == name]
    return ExperimentResults(experiment=experiment, machine=machine)


def test_an_experiment_that_the_machine_has_no_variants_of_has_nothing_to_show() -> None:
    found = found_of("precision", results_on("cpu"))

    assert (list(found.rows), found.values, found.table(found.metrics)) == ([], [], [])


def test_a_metric_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ReportError, match="data_weight"):
        found_of("device", results_on("cpu")).table(["data_weight"])
