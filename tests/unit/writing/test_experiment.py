"""One experiment for its section: its table, and the rows and notes of custom training loops."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_report.errors import ReportError
from gpu_report.tables.bundle import Tables
from gpu_report.writing.experiment import ExperimentResults
from gpu_report.writing.machine import MachineResults
from tests.factories import make_study
from tests.report.synthetic import results_of, results_on
from tests.unit.figures.drawn import study_and_tables

LOOPS, SIZES = "linear_regression", "linear_regression_size"


def found_of(name: str, machine: MachineResults) -> ExperimentResults:
    (experiment,) = [each for each in make_study().experiments if each.name == name]
    return ExperimentResults(experiment=experiment, machine=machine)


def loops_of(
    name: str = LOOPS, *, devices: Sequence[str] = ("cpu", "cuda"), **changes: Any
) -> ExperimentResults:
    """The loops of the default study on these devices, some columns of their table replaced."""
    study, tables = study_and_tables(LOOPS, SIZES)
    shown = {each: rows[rows["device"].isin(devices)] for each, rows in tables.experiments.items()}
    changed: Tables = replace(
        tables, experiments=shown, own_loops=tables.own_loops.assign(**changes)
    )
    return found_of(name, results_of(study, tables=changed, findings=[]))


def test_an_experiment_that_the_machine_has_no_variants_of_says_why() -> None:
    found = found_of("precision", results_on("cpu"))

    assert (list(found.rows), found.values, found.table(found.metrics)) == ([], [], [])
    assert "needs a GPU" in found.absence


def test_a_metric_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ReportError, match="data_weight"):
        found_of("device", results_on("cpu")).table(["data_weight"])


def test_every_loop_has_a_row_in_the_order_of_the_study_and_nothing_where_it_was_not_measured() -> (
    None
):
    found = loops_of()
    _, *measured = found.loops
    (first, *_) = found.rows

    partly = replace(found)
    partly.__dict__["loops"] = measured

    assert [row["variant"] for row in partly.all_loops] == [row["variant"] for row in found.rows]
    lost = next(row for row in partly.all_loops if row["variant"] == first["variant"])
    assert lost["pass_us"] != lost["pass_us"]
