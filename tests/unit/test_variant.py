import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.errors import ConfigError
from gpu_report.variant import Variant

names = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
variants = st.builds(
    Variant,
    workload=names,
    size=st.just("default") | st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True),
    device=st.sampled_from(["cpu", "cuda", "cuda:1", "xpu:3", "mps"]),
    batch_size=st.integers(1, 10**6),
    workers=st.integers(0, 256),
    precision=st.sampled_from(["fp32", "bf16"]),
    epochs=st.integers(2, 500),
    steps_per_epoch=st.none() | st.integers(1, 10**5),
    seed=st.integers(0, 10**6),
)


@given(variants)
def test_a_variant_is_read_back_from_its_name(variant: Variant) -> None:
    assert Variant.from_slug(variant.slug) == variant


@given(variants, variants)
def test_different_variants_have_different_names(one: Variant, other: Variant) -> None:
    assert (one.slug == other.slug) == (one == other)


def test_the_name_is_readable() -> None:
    variant = Variant(workload="unet", size="64px", device="cuda:1", batch_size=8, epochs=3, steps_per_epoch=6)

    assert variant.slug == "unet-64px-cuda1-b8-w0-fp32-e3x6"


def test_text_that_names_no_variant_is_refused() -> None:
    with pytest.raises(ConfigError, match="'unet-gpu' is not a variant's name"):
        Variant.from_slug("unet-gpu")


def test_a_workload_whose_name_would_not_be_read_back_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be named"):
        Variant(workload="My-Net", device="cpu", batch_size=8, epochs=2)
