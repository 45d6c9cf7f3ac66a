import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.figures.rungs import rung_label, rungs_of
from gpu_report.options import OPTIONS, ladder


@given(rungs=st.lists(st.sampled_from(["workers4", "accumulate2", *OPTIONS]), min_size=2, unique=True))
def test_the_rungs_of_a_ladder_are_found_again_in_their_order(rungs: list[str]) -> None:
    names = ladder(rungs)

    found = rungs_of(names)

    if found:
        assert [rung.alone for rung in found] == rungs
        assert {rung.climbed for rung in found} <= set(names)
        assert all(rung.alone in rung.climbed for rung in found)
    else:
        assert len(names) == len(rungs) + 1, "no rung left another one below it"


def test_a_rung_that_leaves_nothing_below_to_do_is_climbed_alone() -> None:
    found = rungs_of(ladder(["workers4", "pinned", "resident", "fused"]))

    assert [rung.climbed for rung in found] == ["workers4", "workers4+pinned", "resident", "fused+resident"]


@pytest.mark.parametrize(
    "names",
    [
        ["none", "checkpoint", "accumulate2", "accumulate4", "accumulate4+checkpoint"],
        ["none", "pinned", "fused"],
        ["none"],
        [],
    ],
)
def test_other_names_make_no_ladder(names: list[str]) -> None:
    assert rungs_of(names) == []


def test_a_climbed_rung_reads_as_what_it_adds() -> None:
    rungs = rungs_of(ladder(["workers4", "pinned"]))

    assert rung_label("workers4+pinned", rungs) == "+ pinned memory"
    assert rung_label("pinned", rungs) == "pinned memory"
    assert rung_label("workers4", rungs) == "4 loader processes"
    assert rung_label("none", rungs) == "plain loop"
