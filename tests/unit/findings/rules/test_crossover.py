import pytest

from tests.unit.findings.editing import Case, Edit, figure

FINDING = "crossover_crossover/cnn_small_cuda"


def crossing(**cells: object) -> Edit:
    return Edit(table="crossovers", where={"experiment": "crossover"}, cells=cells)


CASES = [
    Case(finding=FINDING, verdict="yes"),
    Case(finding=FINDING, verdict="no", edits=[crossing(verdict="cpu always")]),
    Case(finding=FINDING, verdict="not resolved", edits=[crossing(verdict="unclear")]),
    Case(
        finding=FINDING,
        verdict="not resolved",
        edits=[Edit(table="crossover", where={"batch_size": 16}, cells={"marks": "background load"})],
    ),
    Case(finding="crossover_crossover", verdict="not measured", edits=[crossing(experiment="another")]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_crossing_is_told_with_its_interval() -> None:
    found = Case(finding=FINDING, verdict="yes", edits=[crossing(**figure("batch_size", 12.0, 2.0))]).derive()

    assert "from batch size 12.0 (95 % interval 10.0 to 14.0, 5 processes) on" in found.statement


def test_an_accelerator_that_always_wins_has_no_crossing_to_tell() -> None:
    found = Case(finding=FINDING, verdict="yes", edits=[crossing(verdict="accelerator always")]).derive()

    assert "at every batch size measured, 1 to 256" in found.statement
    assert "from batch size" not in found.recommendation


def test_single_batch_sizes_are_not_recommended_where_the_crossing_is() -> None:
    found = Case(finding="crossover_faster/cnn_small_batch_256", verdict="yes").derive()

    assert not found.recommendation
