import pytest

from tests.unit.findings.editing import Case, Edit, figure

LOADERS, LADDER = "workers_busier/image_files_cuda", "optimization_busier/unet_64px_cuda"
FASTEST: dict[str, int | str] = {"workers": 4, "optimization": "fused+resident+compile"}
BASELINE: dict[str, int | str] = {"workers": 0, "optimization": "none"}


def busy(axis: str, value: int | str, percent: float, spread: float = 0.5) -> Edit:
    return Edit(table=axis, where={axis: value}, cells=figure("utilisation_percent", percent, spread))


def before_and_after(axis: str, before: float, after: float, spread: float = 0.5) -> list[Edit]:
    return [busy(axis, BASELINE[axis], before, spread), busy(axis, FASTEST[axis], after, spread)]


def unwatched(axis: str) -> list[Edit]:
    return [Edit(table=axis, where={}, cells=figure("utilisation_percent", float("nan")))]


CASES = [
    case
    for finding, axis in ((LOADERS, "workers"), (LADDER, "optimization"))
    for case in (
        Case(finding=finding, verdict="supported", edits=before_and_after(axis, 40, 80)),
        Case(finding=finding, verdict="contradicted", edits=before_and_after(axis, 80, 40)),
        Case(finding=finding, verdict="inconclusive", edits=before_and_after(axis, 40, 46, spread=3)),
        Case(finding=finding, verdict="not measured", edits=unwatched(axis)),
    )
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_it_is_told_of_the_fastest_before_and_after() -> None:
    found = Case(finding=LOADERS, verdict="supported", edits=before_and_after("workers", 40, 80)).derive()

    assert "4 loader processes: a kernel ran in 80.00 % (95 % interval 79.50 to 80.50, 3 processes)" in found.statement
    assert "instead of 40.00 % (39.50 to 40.50) with 0 loader processes" in found.statement


def test_a_processor_is_not_asked() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        Case(finding="workers_busier/image_files_cpu", verdict="not measured", devices=("cpu",)).derive()
