"""An optimization is read back from its name, a ladder leads step by step, and what cannot be
together is refused.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.errors import ConfigError
from gpu_report.study.options import (
    LOWER_PRECISIONS,
    NO_OPTIONS,
    OPTIONS,
    Optimization,
    check_options,
    joined,
    ladder,
    option_names,
)

some_options = st.sets(st.sampled_from(list(OPTIONS))).map(joined)
optimizations = st.builds(
    Optimization, workers=st.integers(0, 64), accumulation=st.integers(1, 64), options=some_options
)


@given(optimizations)
def test_an_optimization_is_read_back_from_its_name(optimization: Optimization) -> None:
    assert Optimization.from_name(optimization.name) == optimization


@given(optimizations, st.randoms())
def test_the_parts_of_a_name_may_come_in_any_order(
    optimization: Optimization, chance: object
) -> None:
    parts = list(option_names(optimization.name))
    chance.shuffle(parts)  # type: ignore[attr-defined]

    assert Optimization.from_name("+".join(parts) or NO_OPTIONS) == optimization


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "turbo",
            r"'turbo' in 'turbo' is unknown; use some of workers<number>, accumulate<number>, "
            r"tf32, fp16, bf16, pinned",
        ),
        ("pinned+workers", "'workers' in 'pinned.workers' is unknown"),
        ("workers0", "'workers0': give workers once, with a number of 1 or more"),
        ("accumulate1", "give accumulate once, with a number of 2 or more"),
        ("workers2+workers4", "give workers once"),
        ("pinned+pinned", "give pinned once"),
        ("", "'' in '' is unknown"),
    ],
)
def test_a_name_that_means_nothing_or_two_things_is_refused(name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Optimization.from_name(name)


def test_a_ladder_has_each_step_alone_with_all_before_it_and_left_out_of_the_whole() -> None:
    assert ladder(["bf16", "workers4", "fused", "compile"]) == [
        "none",
        "bf16",
        "workers4",
        "fused",
        "compile",
        "bf16+workers4",
        "bf16+workers4+fused",
        "bf16+workers4+fused+compile",
        "workers4+fused+compile",
        "bf16+fused+compile",
        "bf16+workers4+compile",
    ]


def test_a_step_takes_the_place_of_what_it_makes_redundant() -> None:
    assert ladder(["tf32", "pinned", "bf16", "resident"])[-3:] == [
        "tf32+pinned",
        "bf16+pinned",
        "bf16+resident",
    ]


@given(st.lists(st.sampled_from([*LOWER_PRECISIONS, *OPTIONS]), min_size=1, unique=True))
def test_a_ladder_names_nothing_twice(steps: list[str]) -> None:
    names = ladder(steps)

    assert names[0] == NO_OPTIONS
    assert len(names) == len(set(names)) <= 3 * len(steps)


@pytest.mark.parametrize(
    ("options", "facts", "problem"),
    [
        ("turbo", {}, "'turbo' is unknown; use some of: pinned"),
        ("fused+pinned", {}, r"'fused.pinned' is to be written 'pinned.fused'"),
        ("prefetch+resident", {}, "resident leaves nothing to do for prefetch"),
        ("graphs", {"device": "cpu"}, "graphs needs an accelerator; with device: cpu leave it out"),
        (
            "graphs",
            {"precision": "fp16"},
            "graphs cannot be captured with precision fp16, .*; take bf16",
        ),
        (
            "graphs+checkpoint",
            {},
            "graphs cannot be captured with checkpoint, .*; leave one of them out",
        ),
        (
            "highscale",
            {"precision": "bf16"},
            "highscale is for precision fp16; with bf16 no loss is scaled",
        ),
        ("openmp", {}, "openmp is for the CPU; with device: cuda leave it out"),
        (
            "persistent",
            {"device": "cpu"},
            "persistent needs an accelerator; with device: cpu leave it out",
        ),
        (
            "openmp",
            {"device": "cpu", "workers": 2},
            "openmp is a whole loop of its own, .*; take it alone",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: str, facts: dict[str, str | int], problem: str
) -> None:
    given_facts = {"workers": 0, "precision": "fp32", "device": "cuda", **facts}

    with pytest.raises(ConfigError, match=problem) as caught:
        check_options(options, **given_facts)  # type: ignore[arg-type]

    assert "\n" not in str(caught.value)


def test_what_an_option_replaces_exists() -> None:
    for option in OPTIONS.values():
        assert set(option.replaces) <= {*OPTIONS, "workers"}, option
