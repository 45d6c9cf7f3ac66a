"""An optimization is read back from its name, a ladder climbs rung by rung, and what cannot be
together is refused.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.errors import ConfigError
from gpu_report.study.options import (
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


def test_options_are_named_in_the_order_declared() -> None:
    assert joined(["compile", "pinned"]) == "pinned+compile"
    assert joined([]) == "none"
    assert option_names("none") == ()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "turbo",
            r"'turbo' in 'turbo' is unknown; use some of workers<number>, accumulate<number>, "
            r"pinned",
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


def test_a_ladder_is_the_eager_baseline_each_step_alone_and_each_with_all_before_it() -> None:
    assert ladder(["workers4", "pinned", "fused"]) == [
        "none",
        "workers4",
        "pinned",
        "fused",
        "workers4+pinned",
        "workers4+pinned+fused",
    ]


def test_a_step_takes_down_those_that_it_leaves_nothing_to_do() -> None:
    assert ladder(["workers4+pinned", "fused", "resident"])[-1] == "fused+resident"


def test_a_higher_count_takes_the_place_of_the_lower_one() -> None:
    assert ladder(["accumulate2", "accumulate4"]) == ["none", "accumulate2", "accumulate4"]


@given(st.lists(st.sampled_from(list(OPTIONS)), min_size=1, unique=True))
def test_a_ladder_names_nothing_twice(rungs: list[str]) -> None:
    names = ladder(rungs)

    assert names[0] == NO_OPTIONS
    assert len(names) == len(set(names)) <= 2 * len(rungs)


@pytest.mark.parametrize(
    ("options", "facts", "problem"),
    [
        ("turbo", {}, "'turbo' is unknown; use some of: pinned"),
        ("fused+pinned", {}, r"'fused.pinned' is to be written 'pinned.fused'"),
        ("fused+fused", {}, "is to be written 'fused'"),
        ("prefetch+resident", {}, "resident leaves nothing to do for prefetch"),
        (
            "resident",
            {"workers": 2},
            "resident leaves nothing to do for workers; leave one of them out",
        ),
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
        ("openmp", {"device": "mps"}, "openmp is for the CPU; with device: mps leave it out"),
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
        ("fused+openmp", {"device": "cpu"}, "openmp is a whole loop of its own, .*; take it alone"),
        ("streams+persistent", {}, "streams is a whole loop of its own, .*; take it alone"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: str, facts: dict[str, str | int], problem: str
) -> None:
    given_facts = {"workers": 0, "precision": "fp32", "device": "cuda", **facts}

    with pytest.raises(ConfigError, match=problem) as caught:
        check_options(options, **given_facts)  # type: ignore[arg-type]

    assert "\n" not in str(caught.value)


def test_an_option_that_a_cpu_has_is_accepted_there() -> None:
    check_options(
        "channelslast+fused+resident+compile+checkpoint", workers=0, precision="bf16", device="cpu"
    )


def test_what_an_option_replaces_exists() -> None:
    for option in OPTIONS.values():
        assert set(option.replaces) <= {*OPTIONS, "workers"}, option


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.is_loop])
def test_a_loop_of_the_workload_s_own_is_accepted_alone_on_the_device_that_it_is_for(
    name: str,
) -> None:
    check_options(
        name, workers=0, precision="fp32", device="cpu" if OPTIONS[name].cpu_only else "cuda"
    )


def test_no_option_is_for_the_cpu_alone_and_for_an_accelerator_alone() -> None:
    assert not any(option.cpu_only and option.accelerator_only for option in OPTIONS.values())


def test_a_bound_is_a_loop_or_leaves_out_communication_since_it_does_less_work_than_a_step() -> (
    None
):
    bounds = [option for option in OPTIONS.values() if option.is_bound]

    assert bounds
    assert all(option.is_loop or option.ddp_only for option in bounds)
