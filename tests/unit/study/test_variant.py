from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.errors import ConfigError
from gpu_report.study.options import OPTIONS, joined
from gpu_report.study.strategies import SINGLE, STRATEGIES
from gpu_report.study.variant import Variant

names = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)


@st.composite
def draw_variants(draw: st.DrawFn) -> Variant:
    """Any that may be: options fit the device, the precision and the loader's processes; a loop is
    alone.
    """
    device = draw(st.sampled_from(["cpu", "cuda", "cuda:1", "xpu:3", "mps"]))
    precision = draw(st.sampled_from(["fp32", "tf32", "fp16", "bf16"]))
    fitting = [
        name
        for name, option in OPTIONS.items()
        if not (option.accelerator_only and device == "cpu")
        and not (option.cpu_only and device != "cpu")
        and not (name == "graphs" and precision == "fp16")
        and not (name == "highscale" and precision != "fp16")
    ]
    chosen = draw(st.sets(st.sampled_from(fitting)))
    loop = next((name for name in chosen if OPTIONS[name].is_loop), None)
    chosen = {loop} if loop else chosen
    if "graphs" in chosen:
        chosen -= {"checkpoint"}
    replaced = {useless for name in chosen for useless in OPTIONS[name].replaces}
    accumulation = draw(st.integers(1, 64))
    strategies = [
        name
        for name, strategy in STRATEGIES.items()
        if not (strategy.accelerator_only and device == "cpu")
        and not ({*chosen, precision} & set(strategy.excludes))
        and (name == SINGLE or not (loop or ":" in device))
    ]
    if ":" in device or loop:
        chosen = {name for name in chosen if not OPTIONS[name].ddp_only}
    elif any(OPTIONS[name].ddp_only for name in chosen):
        strategies = ["ddp"]
    strategy = draw(st.sampled_from(strategies))
    devices = 1 if strategy == SINGLE else draw(st.integers(STRATEGIES[strategy].least, 16))
    return Variant(
        strategy=strategy,
        devices=devices,
        workload=draw(names),
        size=draw(st.just("default") | st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True)),
        device=device,
        batch_size=accumulation * devices * draw(st.integers(1, 10**5)),
        workers=0 if loop or "workers" in replaced else draw(st.integers(0, 256)),
        precision=precision,
        epochs=draw(st.integers(2, 500)),
        steps_per_epoch=draw(st.none() | st.integers(1, 10**5)),
        seed=draw(st.integers(0, 10**6)),
        accumulation=accumulation,
        options=joined(chosen - replaced),
    )


variants = draw_variants()


@given(variants)
def test_a_variant_is_read_back_from_its_name(variant: Variant) -> None:
    assert Variant.from_slug(variant.slug) == variant


@given(variants, variants)
def test_different_variants_have_different_names(one: Variant, other: Variant) -> None:
    assert (one.slug == other.slug) == (one == other)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"accumulation": 3},
            "accumulation: 3 parts of equal size do not make a batch of 8; take a divisor",
        ),
        ({"accumulation": 0}, "accumulation: 0 parts"),
        ({"options": "pinned"}, "pinned needs an accelerator"),
        ({"workload": "My-Net"}, "cannot be named"),
        ({"options": "resident", "workers": 2}, "resident leaves nothing to do for workers"),
    ],
)
def test_a_variant_that_cannot_be_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Variant(**{"workload": "cnn", "device": "cpu", "batch_size": 8, "epochs": 2, **changes})


@pytest.mark.parametrize(
    ("slug", "problem"),
    [
        ("cnn-cuda-b8a0-w0-fp32-e2", "accumulation: 0 parts"),
        ("cnn-cuda-b8-w0-fp32-e2-turbo", "turbo"),
        ("unet-gpu", "'unet-gpu' is not a configuration's name"),
    ],
)
def test_text_that_names_no_variant_is_refused(slug: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Variant.from_slug(slug)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"devices": 2}, "cannot be named"),
        ({"strategy": "horovod"}, "use one of"),
        ({"strategy": "dp", "devices": 1}, "at least 2 devices"),
        ({"strategy": "dp", "devices": 2, "device": "cpu"}, "take ddp, fsdp or pipeline"),
        ({"strategy": "split", "devices": 2, "options": "compile"}, "leave one of them out"),
        ({"strategy": "pipeline", "devices": 2, "options": "checkpoint"}, "leave one of them out"),
        ({"strategy": "ddp", "devices": 3}, "take a multiple"),
        ({"strategy": "ddp", "devices": 2, "device": "cuda:1"}, "write device: cuda"),
        ({"strategy": "fsdp", "devices": 2, "precision": "fp16"}, "leave one of them out"),
        ({"strategy": "ddp", "devices": 2, "options": "triton"}, "cannot be trained with triton"),
    ],
)
def test_a_strategy_that_cannot_train_so_is_refused(changes: dict[str, Any], problem: str) -> None:
    fields = {"workload": "unet", "device": "cuda", "batch_size": 8, "epochs": 1, **changes}
    with pytest.raises(ConfigError, match=problem):
        Variant(**fields)
