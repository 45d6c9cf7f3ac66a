import pytest

from tests.unit.findings.editing import Case, Edit, figure

LOST = {"status": "failed", "reason": "RuntimeError: a DataLoader worker was killed"}


def loaders(workers: int, **cells: object) -> Edit:
    return Edit(table="workers", where={"workers": workers}, cells=cells)


def throughputs(*rates: float, spread: float = 1.0) -> list[Edit]:
    pairs = zip((0, 2, 4, 8), rates, strict=True)
    return [loaders(workers, **figure("throughput_per_s", rate, spread)) for workers, rate in pairs]


def speedups(*ratios: float, spread: float = 0.05) -> list[Edit]:
    pairs = zip((2, 4, 8), ratios, strict=True)
    return [loaders(workers, **figure("speedup", ratio, spread)) for workers, ratio in pairs]


ALONE = [loaders(workers, **LOST) for workers in (2, 4, 8)]
BEST_FOUR = throughputs(100, 200, 300, 290)
GROUP = "image_files_cuda"
HELP, ENOUGH, WAIT = f"workers_help/{GROUP}", f"workers_enough/{GROUP}", f"workers_data_wait/{GROUP}"
CASES = [
    Case(finding=HELP, verdict="yes", edits=[*BEST_FOUR, *speedups(2.0, 3.0, 2.9)]),
    Case(finding=HELP, verdict="no", edits=[*BEST_FOUR, *speedups(0.7, 0.8, 0.7)]),
    Case(finding=HELP, verdict="not resolved", edits=[*BEST_FOUR, *speedups(1.0, 1.1, 1.0, spread=0.2)]),
    Case(finding=HELP, verdict="not resolved", edits=[*BEST_FOUR, loaders(0, marks="background load")]),
    Case(finding=HELP, verdict="not measured", edits=ALONE),
    Case(finding=ENOUGH, verdict="yes", edits=BEST_FOUR),
    Case(finding=ENOUGH, verdict="yes", edits=throughputs(300, 200, 200, 200)),
    Case(finding=ENOUGH, verdict="no", edits=throughputs(100, 200, 300, 400)),
    Case(finding=ENOUGH, verdict="not resolved", edits=throughputs(100, 200, 300, 315, spread=10)),
    Case(finding=ENOUGH, verdict="not measured", edits=ALONE),
    Case(
        finding=WAIT,
        verdict="yes",
        edits=[*BEST_FOUR, loaders(0, **figure("data_wait_share", 0.5, 0.02))],
    ),
    Case(
        finding=WAIT,
        verdict="no",
        edits=[*BEST_FOUR, loaders(0, **figure("data_wait_share", 0.1, 0.01))],
    ),
    Case(
        finding=WAIT,
        verdict="not resolved",
        edits=[*BEST_FOUR, loaders(0, **figure("data_wait_share", 0.14, 0.05))],
    ),
    Case(finding=WAIT, verdict="not measured", edits=ALONE),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_fewest_processes_within_five_per_cent_of_the_fastest_are_recommended() -> None:
    edits = [*throughputs(100, 295, 300, 300), *speedups(2.95, 3.0, 3.0)]

    found = Case(finding=ENOUGH, verdict="yes", edits=edits).derive()

    assert found.recommendation == "Load image CNN on JPEG files with 2 DataLoader workers."
    assert found.gain == 2.95


def test_loading_in_the_training_process_is_recommended_where_it_is_fastest() -> None:
    edits = [*throughputs(300, 200, 240, 200), *speedups(0.67, 0.8, 0.67)]

    found = Case(finding=HELP, verdict="no", edits=edits).derive()

    assert found.recommendation == "Load image CNN on JPEG files with 0 DataLoader workers."
    assert found.gain == 1.25


def test_a_wait_is_told_before_and_after() -> None:
    edits = [*BEST_FOUR, loaders(0, **figure("data_wait_share", 0.5, 0.02))]

    found = Case(finding=WAIT, verdict="yes", edits=edits).derive()

    assert "50.0 % (95 % interval 48.0 to 52.0, 5 processes) of the time with 0 DataLoader workers" in found.statement
    assert "8.0 % with 4 DataLoader workers" in found.statement
