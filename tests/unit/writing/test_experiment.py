"""One experiment for its section: its table, and the rows and notes of custom training loops."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpu_report.errors import ReportError
from gpu_report.tables.bundle import Tables
from gpu_report.words import why_missing_or_skipped
from gpu_report.writing.experiment import ExperimentResults
from gpu_report.writing.machine import MachineResults
from tests.factories import make_study
from tests.report.synthetic import render_devices, results_of, results_on, section_with_floats
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


def printed(name: str, *devices: str) -> str:
    return section_with_floats(render_devices(*devices), name).replace(r"\gpurepbreak{}", "")


def test_an_experiment_that_the_machine_has_no_variants_of_says_why() -> None:
    found = found_of("precision", results_on("cpu"))

    assert (list(found.rows), found.values, found.table(found.metrics)) == ([], [], [])
    assert "needs a GPU" in found.absence


def test_a_table_shows_a_speedup_only_where_something_is_compared() -> None:
    (compared, *_), (alone, *_) = (
        found_of("device", results_on(*devices)).table(["step_time", "speedup"])
        for devices in (("cpu", "cuda"), ("cpu",))
    )

    assert "speedup" in [number.metric for number in compared.numbers]
    assert "speedup" not in [number.metric for number in alone.numbers]


def test_a_metric_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ReportError, match="data_weight"):
        found_of("device", results_on("cpu")).table(["data_weight"])


def test_quality_is_called_by_its_name_where_all_have_the_same_metric() -> None:
    (page, *_) = found_of("batch_size", results_on("cpu")).table(["quality"])

    assert not any("quality" in str(header) for header in page.header)


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


@pytest.mark.parametrize(
    ("status", "words"),
    [("skipped", "skipped: no CUDA compiler"), ("failed", "failed"), ("oom", "out of memory")],
)
def test_what_was_skipped_has_its_reason_and_what_failed_that_it_failed(
    status: str, words: str
) -> None:
    assert why_missing_or_skipped({"status": status, "reason": "no CUDA compiler"}) == words


def test_a_device_without_a_floor_is_named_where_another_has_one() -> None:
    on_cpu = loops_of().machine.tables.own_loops["device"] == "cpu"

    assert "No bound is known on CPU" in " ".join(
        loops_of(floor_us=on_cpu.map({True: float("nan"), False: 2.0})).without_floor
    )
    assert loops_of(floor_us=2.0).without_floor == []


def test_loops_are_in_the_order_of_their_points() -> None:
    found = loops_of(SIZES)

    ordered = found.loops_by_points
    for loop in {found.loop_of(row) for row in ordered}:
        points = [row["points"] for row in ordered if found.loop_of(row) == loop]
        assert points == sorted(points)
    assert len(ordered) == len(found.rows)


def test_passes_and_points_are_given_by_their_least_and_most() -> None:
    assert (loops_of().passes, loops_of().points) == ("20 to 200", "4,000,000")
    assert loops_of(SIZES).points == "8000 to 4,000,000"


def test_devices_are_headings_where_there_are_several() -> None:
    both, alone = (loops_of(devices=devices) for devices in (("cpu", "cuda"), ("cuda",)))

    assert {both.loop_heading(row) for row in both.rows} == {"CPU", "CUDA"}
    assert {alone.loop_heading(row) for row in alone.rows} == {""}


def test_that_the_bound_is_no_training_is_said_where_there_is_one() -> None:
    on_gpu, on_cpu = (loops_of(devices=(device,)).loop_notes for device in ("cuda", "cpu"))

    assert "is no training" in " ".join(on_gpu)
    assert on_cpu == []


def test_an_experiment_without_loops_has_none_to_show() -> None:
    found = found_of("workers", results_on("cpu"))

    assert (found.loops, found.passes) == ([], "no")


def test_the_sections_of_the_loops_have_their_times() -> None:
    times, sizes = (printed(name, "cpu", "cuda") for name in (LOOPS, SIZES))

    assert f"{LOOPS}_times" in times
    assert f"{SIZES}_sizes" in sizes
