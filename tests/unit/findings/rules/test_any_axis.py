from typing import Any

import pytest

from gpu_report.findings.derive import derive_findings
from tests.unit.findings.editing import ACROSS_WORKLOADS, GENERIC, Case, Edit, base, edited, figure, unpaired_quality

GROUP = "cnn_small_cpu"


def numbers(seed: int, **cells: object) -> Edit:
    return Edit(table=GENERIC, where={"seed": seed}, cells=cells)


def images(**cells: object) -> Edit:
    return Edit(table=ACROSS_WORKLOADS, where={"workload": "image_files"}, cells=cells)


ACROSS = "cpu"
FASTEST = numbers(2, **figure("speedup", 1.5, 0.1))
LOST = {"status": "oom", "reason": "out of memory"}

CASES = [
    Case(finding=f"{GENERIC}_best/{GROUP}", verdict="yes", edits=[FASTEST]),
    Case(
        finding=f"{GENERIC}_best/{GROUP}",
        verdict="no",
        edits=[numbers(seed, **figure("speedup", 0.8, 0.1)) for seed in (1, 2)],
    ),
    Case(
        finding=f"{GENERIC}_best/{GROUP}",
        verdict="not resolved",
        edits=[numbers(2, **figure("speedup", 1.5, 0.6))],
    ),
    Case(
        finding=f"{GENERIC}_best/{GROUP}",
        verdict="not measured",
        edits=[numbers(seed, **LOST) for seed in (1, 2)],
    ),
    Case(
        finding=f"{GENERIC}_quality_cost/{GROUP}",
        verdict="yes",
        edits=[FASTEST, numbers(2, **unpaired_quality(0.7, 0.01))],
    ),
    Case(finding=f"{GENERIC}_quality_cost/{GROUP}", verdict="no", edits=[FASTEST]),
    Case(
        finding=f"{GENERIC}_quality_cost/{GROUP}",
        verdict="not resolved",
        edits=[FASTEST, numbers(2, **unpaired_quality(0.83, 0.1))],
    ),
    Case(
        finding=f"{GENERIC}_quality_cost/{GROUP}",
        verdict="not measured",
        edits=[FASTEST, numbers(2, **unpaired_quality(float("nan")))],
    ),
    Case(
        finding=f"{GENERIC}_memory_cost/{GROUP}",
        verdict="yes",
        edits=[FASTEST, numbers(2, **figure("memory_peak_mib", 900, 5))],
    ),
    Case(finding=f"{GENERIC}_memory_cost/{GROUP}", verdict="no", edits=[FASTEST]),
    Case(
        finding=f"{GENERIC}_memory_cost/{GROUP}",
        verdict="not resolved",
        edits=[FASTEST, numbers(2, **figure("memory_peak_mib", 350, 60))],
    ),
    Case(finding=f"{GENERIC}_memory_cost/{GROUP}", verdict="not measured", edits=[numbers(0, **LOST)]),
    Case(finding=f"{ACROSS_WORKLOADS}_best/{ACROSS}", verdict="yes"),
    Case(finding=f"{ACROSS_WORKLOADS}_best/{ACROSS}", verdict="no", edits=[images(**figure("speedup", 0.5))]),
    Case(finding=f"{ACROSS_WORKLOADS}_best/{ACROSS}", verdict="not resolved", edits=[images(marks="background load")]),
    Case(finding=f"{ACROSS_WORKLOADS}_best/{ACROSS}", verdict="not measured", edits=[images(**LOST)]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_an_experiment_that_no_rule_knows_is_recommended_its_best_value() -> None:
    found = Case(finding=f"{GENERIC}_best/{GROUP}", verdict="yes", edits=[FASTEST]).derive()

    assert found.question == "Which seed trains fastest?"
    assert found.recommendation == "Train image CNN with seed 2 instead of seed 0."
    assert found.gain == 1.5


def test_workloads_are_compared_in_speed_without_advice_and_not_in_quality() -> None:
    tables, study = base()
    found = [
        finding for finding in derive_findings(tables, study.experiments) if finding.experiment == ACROSS_WORKLOADS
    ]

    assert [finding.id for finding in found] == [
        f"{ACROSS_WORKLOADS}_{name}/{ACROSS}" for name in ("best", "backward", "convolutions")
    ]
    assert found[0].statement.startswith("Training was fastest with image CNN on JPEG files")
    assert not found[0].recommendation


def test_workloads_that_solve_different_tasks_are_not_ranked_by_speed() -> None:
    tables, study = base()
    other = Edit(table=ACROSS_WORKLOADS, where={"workload": "lstm"}, cells={"quality_chance": 0.1})

    found = derive_findings(edited(tables, other), study.experiments)

    assert f"{ACROSS_WORKLOADS}_best/{ACROSS}" not in [finding.id for finding in found]


def test_noise_in_time_casts_no_doubt_on_quality() -> None:
    noisy = numbers(2, marks="background load")

    found = Case(finding=f"{GENERIC}_quality_cost/{GROUP}", verdict="no", edits=[FASTEST, noisy]).derive()

    assert found.verdict == "no"


def test_what_may_be_as_fast_as_the_fastest_is_named_beside_it() -> None:
    near = {**figure("throughput_per_s", 1900.0, 200.0), **figure("speedup", 1.9, 0.1)}
    far = {**figure("throughput_per_s", 500.0, 10.0), **figure("speedup", 0.5, 0.1)}
    top = {**figure("throughput_per_s", 2000.0, 200.0), **figure("speedup", 2.0, 0.1)}
    cells = {"bf16": top, "fp16": near, "tf32": far}
    edits = [Edit(table="precision", where={"precision": name}, cells=values) for name, values in cells.items()]

    found = Case(finding="precision_best/unet_64px_cuda", verdict="yes", edits=edits).derive()

    assert found.statement.endswith("; not significantly slower: precision fp16.")


def test_what_is_in_doubt_is_not_called_as_fast_as_the_fastest() -> None:
    far = {**figure("throughput_per_s", 500.0, 10.0), **figure("speedup", 0.5, 0.1), "marks": "background load"}
    top = {**figure("throughput_per_s", 2000.0, 200.0), **figure("speedup", 2.0, 0.1)}
    cells: dict[str, dict[str, Any]] = {"bf16": top, "fp16": {**far, "marks": ""}, "tf32": far}
    edits = [Edit(table="precision", where={"precision": name}, cells=values) for name, values in cells.items()]

    found = Case(finding="precision_best/unet_64px_cuda", verdict="yes", edits=edits).derive()

    assert found.statement.endswith("; compared with doubts: precision tf32.")
