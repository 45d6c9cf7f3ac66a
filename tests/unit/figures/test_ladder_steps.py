import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.figures.labels import ladder_step_label, ladder_steps_of
from gpu_report.options import OPTIONS, ladder


@given(steps=st.lists(st.sampled_from(["workers4", "accumulate2", *OPTIONS]), min_size=2, unique=True))
def test_the_rungs_of_a_ladder_are_found_again_in_their_order(steps: list[str]) -> None:
    names = ladder(steps)

    found = ladder_steps_of(names)

    if found:
        assert [step.individual for step in found] == steps
        assert {step.cumulative for step in found} <= set(names)
        assert all(step.individual in step.cumulative for step in found)
    else:
        assert len(names) == len(steps) + 1, "no step left another one below it"


def test_a_rung_that_leaves_nothing_below_to_do_is_climbed_alone() -> None:
    found = ladder_steps_of(ladder(["workers4", "pinned", "resident", "fused"]))

    assert [step.cumulative for step in found] == ["workers4", "workers4+pinned", "resident", "fused+resident"]


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
    assert ladder_steps_of(names) == []


def test_a_climbed_rung_reads_as_what_it_adds() -> None:
    steps = ladder_steps_of(ladder(["workers4", "pinned"]))

    assert ladder_step_label("workers4+pinned", steps) == "+ pinned memory"
    assert ladder_step_label("pinned", steps) == "pinned memory"
    assert ladder_step_label("workers4", steps) == "4 DataLoader workers"
    assert ladder_step_label("none", steps) == "eager baseline"
