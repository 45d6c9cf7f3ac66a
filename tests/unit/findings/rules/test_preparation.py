import pytest

from tests.unit.findings.editing import Case, Edit, figure

GROUP = "unet_64px_cuda"
FINDING = f"optimization_preparing/{GROUP}"


def compiled(**cells: object) -> Edit:
    return Edit(table="optimization", where={"optimization": "fused+resident+compile"}, cells=cells)


FASTER = figure("speedup", 1.5, 0.1)
NOTHING_PREPARED = [
    Edit(table="optimization", where={"optimization": name}, cells={"preparation_cold_s": 0.0})
    for name in ("compile", "fused+resident+compile")
]
CASES = [
    Case(finding=FINDING, verdict="yes", edits=[compiled(**FASTER, break_even_steps=100.0)]),
    Case(finding=FINDING, verdict="no", edits=[compiled(**FASTER, break_even_steps=1000.0)]),
    Case(
        finding=FINDING,
        verdict="no",
        edits=[compiled(**figure("speedup", 0.9, 0.05), break_even_steps=float("nan"))],
    ),
    Case(
        finding=FINDING, verdict="not resolved", edits=[compiled(**figure("speedup", 1.0, 0.1), break_even_steps=100.0)]
    ),
    Case(finding="optimization_preparing", verdict="not measured", edits=NOTHING_PREPARED),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_steps_that_pay_stand_beside_those_of_the_training_and_in_epochs() -> None:
    late = compiled(**FASTER, break_even_steps=1000.0)

    found = Case(finding=FINDING, verdict="no", edits=[late]).derive()

    assert "after 1000 steps, which are 15.9 epochs, and the training had 189 steps in 3 epochs only" in found.statement


def test_a_training_that_is_slower_never_repays() -> None:
    slower = compiled(**figure("speedup", 0.9, 0.05), break_even_steps=float("nan"))

    found = Case(finding=FINDING, verdict="no", edits=[slower]).derive()

    assert "it saves no time that could repay it" in found.statement


def test_the_fastest_is_recommended_only_for_trainings_long_enough_to_repay_it() -> None:
    found = Case(finding=FINDING, verdict="no", edits=[compiled(**FASTER, break_even_steps=1000.0)]).derive()

    assert found.recommendation.endswith("only in trainings of more than 1000 steps.")


def test_it_is_told_how_many_of_those_that_prepare_repaid_it() -> None:
    late = compiled(**FASTER, break_even_steps=1000.0)
    alone = Edit(table="optimization", where={"optimization": "compile"}, cells={**FASTER, "break_even_steps": 100.0})

    found = Case(finding=FINDING, verdict="no", edits=[late, alone]).derive()

    assert found.statement.endswith("Within the training 1 of 2 prepared variants did.")
