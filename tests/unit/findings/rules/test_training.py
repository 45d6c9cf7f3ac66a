import pytest

from tests.unit.findings.editing import Case, Edit, figure


def lstm(device: str, **cells: object) -> Edit:
    return Edit(table="variants", where={"workload": "lstm", "device": device}, cells=cells)


def qualities(cpu: float, cuda: float, spread: float = 0.001) -> list[Edit]:
    return [lstm("cpu", **figure("quality", cpu, spread)), lstm("cuda", **figure("quality", cuda, spread))]


LEARNS = "study_learns/lstm"
CASES = [
    Case(finding=LEARNS, verdict="yes", edits=qualities(0.8, 0.34)),
    Case(finding=LEARNS, verdict="yes", edits=qualities(0.8, 1.0)),
    Case(finding=LEARNS, verdict="no", edits=qualities(0.34, 0.35)),
    Case(finding=LEARNS, verdict="no", edits=qualities(1.0, 0.999)),
    Case(finding=LEARNS, verdict="not resolved", edits=qualities(0.34, 0.37, spread=0.05)),
    Case(finding=LEARNS, verdict="not measured", edits=qualities(float("nan"), float("nan"))),
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
