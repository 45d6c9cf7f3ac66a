"""One experiment for its section: its table, and the rows and notes of custom training loops."""

import math
from dataclasses import replace
from typing import Final

import pytest

from gpu_report.errors import ReportError
from gpu_report.writing.experiment import ExperimentResults, notes_on_short_trainings
from gpu_report.writing.machine import MachineResults
from tests.factories import SCALING, make_study
from tests.report.synthetic import results_of, results_on
from tests.unit.figures.drawn import study_of


def found_of(name: str, machine: MachineResults) -> ExperimentResults:
    (experiment,) = [each for each in make_study().experiments if each.name == name]
    return ExperimentResults(experiment=experiment, machine=machine)


def test_an_experiment_that_the_machine_has_no_variants_of_has_nothing_to_show() -> None:
    found = found_of("precision", results_on("cpu"))

    assert (list(found.rows), found.values, found.table(found.metrics)) == ([], [], [])


def test_a_metric_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ReportError, match="data_weight"):
        found_of("device", results_on("cpu")).table(["data_weight"])


def test_the_table_of_a_ladder_has_its_steps_and_leaves_the_rest_to_the_figure() -> None:
    (block, *_) = found_of("optimization", results_on("cpu", "cuda")).table(["speedup"])
    names = [str(row.cells[0]).replace(r"\gpurepbreak{}", "") for row in block.rows if row.cells]

    assert not any(name.startswith(("channelslast", "fused")) for name in names)
    assert any(name.startswith("bf16+channelslast") for name in names)
    assert "The figure shows the speedup of each option alone" in " ".join(block.notes)


SHORT: Final = {
    "quality_chance": 5.55,
    "quality_better": "lower",
    "quality_name": "loss",
    "workload_title": "GPT-2",
    "optimizer_steps": 6.0,
    "epoch_time_projected": True,
}
"""A row of a training of shortened epochs."""


@pytest.mark.parametrize(
    ("quality", "projected", "said"),
    [
        (
            9.1,
            True,
            "After 6 optimizer steps, the held-out metric of GPT-2 (chance: 5.55) is no better "
            "than chance yet.",
        ),
        (
            9.1,
            False,
            "After 6 optimizer steps, the held-out metric of GPT-2 (chance: 5.55) is no better "
            "than chance yet.",
        ),
        (
            3.2,
            True,
            "After 6 optimizer steps, the held-out metric of GPT-2 is not that of a finished "
            "training.",
        ),
        (3.2, False, ""),
        (math.nan, True, ""),
    ],
)
def test_a_quality_that_shows_no_finished_training_is_no_result_of_one(
    quality: float, said: str, *, projected: bool
) -> None:
    row = {**SHORT, "quality": quality, "epoch_time_projected": projected}

    assert notes_on_short_trainings([row, row]) == [said] * bool(said)


def test_of_a_model_only_the_steps_after_which_it_is_no_better_than_chance_are_called_so() -> None:
    rows = [{**SHORT, "quality": loss, "optimizer_steps": 12 * loss} for loss in (9, 2, 3)]
    rows += [{**rows[1], "workload_title": "U-Net"}]

    assert notes_on_short_trainings(rows) == [
        "After 108 optimizer steps, the held-out metric of GPT-2 (chance: 5.55) is no better than "
        "chance yet.",
        "After 24 to 36 optimizer steps, the held-out metric of GPT-2 and U-Net is not that of a "
        "finished training.",
    ]


@pytest.mark.parametrize("unused", ["other session", "high variance;other session"])
def test_a_setting_that_also_lacks_an_option_is_over_the_row_that_only_lacks_it(
    unused: str,
) -> None:
    grid = {**SCALING["grid"][0], "parallelism": "ddp2", "batch_per_process": 8}
    names = ("resident+graphs", "resident", "resident+unused", "resident+graphs+bucketview")
    asked = {**SCALING, "axis": "optimization", "baseline": names[0]}
    study = study_of(ddp_options={**asked, "grid": [{**grid, "optimization": [*names]}]})
    machine = results_of(study)
    frame = machine.tables.experiments["ddp_options"].assign(session=1, marks="")
    frame.loc[frame["optimization"] != names[0], "session"] = 2
    frame.loc[frame["optimization"] != names[0], "marks"] = unused
    experiments = {**machine.tables.experiments, "ddp_options": frame}
    machine = replace(machine, tables=replace(machine.tables, experiments=experiments))
    found = ExperimentResults(experiment=study.experiments[0], machine=machine)

    rows = {row["optimization"]: row for row in found.settings}

    rates = [rows[name]["throughput_per_s"] for name in names]
    assert rows["resident+unused"]["speedup"] == pytest.approx(rates[2] / rates[1])
    marks = unused.replace("other session", "the speedup is over the row without CUDA graphs")
    assert rows["resident+unused"]["marks"] == marks
    assert rows["resident"]["speedup"] == pytest.approx(rates[1] / rates[0])
    assert rows[names[-1]]["marks"] == unused
