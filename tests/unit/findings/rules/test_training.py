import pytest

from tests.unit.findings.editing import Case, Edit, figure

LOST = {"status": "failed", "reason": "RuntimeError: boom"}


def lstm(device: str, **cells: object) -> Edit:
    return Edit(table="variants", where={"workload": "lstm", "device": device}, cells=cells)


def lstm_in_batches_of_64(device: str, **cells: object) -> Edit:
    where = {"workload": "lstm", "device": device, "batch_size": 64}
    return Edit(table="variants", where=where, cells=cells)


def everywhere(**cells: object) -> Edit:
    return Edit(table="variants", where={}, cells=cells)


def qualities(cpu: float, cuda: float, spread: float = 0.001) -> list[Edit]:
    return [lstm("cpu", **figure("quality", cpu, spread)), lstm("cuda", **figure("quality", cuda, spread))]


FIRST, LEARNS, PROFILER = "study_first_epoch/cpu", "study_learns/lstm", "study_profiler"
CASES = [
    Case(finding=LEARNS, verdict="yes", edits=qualities(0.8, 0.34)),
    Case(finding=LEARNS, verdict="yes", edits=qualities(0.8, 1.0)),
    Case(finding=LEARNS, verdict="no", edits=qualities(0.34, 0.35)),
    Case(finding=LEARNS, verdict="no", edits=qualities(1.0, 0.999)),
    Case(finding=LEARNS, verdict="not resolved", edits=qualities(0.34, 0.37, spread=0.05)),
    Case(finding=LEARNS, verdict="not measured", edits=qualities(float("nan"), float("nan"))),
    Case(finding=FIRST, verdict="yes"),
    Case(finding=FIRST, verdict="no", edits=[everywhere(**figure("first_epoch_ratio", 1.0, 0.02))]),
    Case(finding=FIRST, verdict="not resolved", edits=[everywhere(**figure("first_epoch_ratio", 1.3, 0.5))]),
    Case(finding="study_first_epoch", verdict="not measured", edits=[everywhere(**LOST)]),
    Case(finding=PROFILER, verdict="yes"),
    Case(finding=PROFILER, verdict="no", edits=[everywhere(profile_overhead=1.02)]),
    Case(
        finding=PROFILER,
        verdict="not resolved",
        edits=[
            everywhere(profile_overhead=float("nan")),
            lstm_in_batches_of_64("cpu", profile_overhead=1.02),
            lstm_in_batches_of_64("cuda", profile_overhead=1.5),
        ],
    ),
    Case(finding=PROFILER, verdict="not measured", edits=[everywhere(profile_overhead=float("nan"))]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_a_task_that_every_variant_solves_is_said_to_tell_nothing() -> None:
    found = Case(finding=LEARNS, verdict="no", edits=qualities(1.0, 1.0, spread=0.0)).derive()

    assert "every variant solves the task" in found.statement


def test_a_task_that_no_variant_learns_is_told_beside_chance() -> None:
    found = Case(finding=LEARNS, verdict="no", edits=qualities(0.34, 0.35)).derive()

    assert "no variant got above chance" in found.statement
    assert "chance is 0.333" in found.statement


def test_the_slowest_first_epoch_is_named() -> None:
    slowest = lstm_in_batches_of_64("cpu", **figure("first_epoch_ratio", 2.5, 0.1))

    found = Case(finding=FIRST, verdict="yes", edits=[slowest]).derive()

    assert "most for bidirectional LSTM on the CPU (batch size 64): 2.50 times" in found.statement


def test_the_slowest_first_epoch_is_one_that_chance_cannot_have_made() -> None:
    noisy = lstm_in_batches_of_64("cpu", **figure("first_epoch_ratio", 9.0, 8.5))
    edits = [everywhere(**figure("first_epoch_ratio", 2.0, 0.1)), noisy]

    found = Case(finding=FIRST, verdict="yes", edits=edits).derive()

    assert "2.00 times" in found.statement
    assert "9.0 times" not in found.statement
