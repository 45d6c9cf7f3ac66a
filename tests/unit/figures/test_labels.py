import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.figures import labels
from gpu_report.study.options import OPTIONS, ladder


def variants(*rows: dict[str, Any]) -> pd.DataFrame:
    fields = {
        "workload": "cnn",
        "workload_title": "image CNN",
        "size": "default",
        "device": "cpu",
        "batch_size": 64,
        "workers": 0,
        "precision": "fp32",
        "epochs": 3,
        "steps_per_epoch": math.nan,
        "seed": 0,
        "accumulation": 1,
        "options": "none",
        "parallelism": "single",
        "optimization": "none",
        "quality_name": "accuracy",
    }
    return pd.DataFrame([{**fields, **row} for row in rows])


@given(text=st.text(max_size=400), most=st.integers(10, 60))
def test_a_name_is_never_longer_than_asked_and_stays_on_one_line(text: str, most: int) -> None:
    short = labels.shortened(text, most_chars=most)

    assert len(short) <= most
    assert "\n" not in short


def test_a_long_name_keeps_both_ends() -> None:
    name = "void at::native::elementwise_kernel<128, 4>" + "x" * 300 + "(int, float)"

    short = labels.shortened(name, most_chars=40)

    assert short.startswith("void at::native::elemen")
    assert short.endswith("(int, float)")


def test_signs_that_tex_and_mathtext_take_for_commands_stay_as_they_are() -> None:
    assert labels.printable("a_b$c^{d}\\e#%&~<>") == "a_b$c^{d}\\e#%&~<>"


def test_a_character_without_glyph_becomes_a_square() -> None:
    assert labels.printable("漢x\x00") == "□x□"


def test_a_label_names_the_device_and_only_what_differs() -> None:
    frame = labels.with_labels(variants({"batch_size": 16}, {"batch_size": 64, "device": "cuda:1"}))

    assert frame["heading"].tolist() == ["Image CNN", "Image CNN"]
    assert frame["label"].tolist() == [
        "CPU, batch\N{NO-BREAK SPACE}16",
        "CUDA 1, batch\N{NO-BREAK SPACE}64",
    ]


def test_what_an_experiment_varies_is_in_neither_heading_nor_label() -> None:
    frame = labels.with_labels(
        variants({"size": "small"}, {"size": "large"}), without=("size", "device")
    )

    assert set(frame["heading"]) == {"Image CNN"}
    assert set(frame["label"]) == {""}


def test_a_workload_that_could_not_be_built_borrows_its_title() -> None:
    frame = variants({}, {"workload_title": "cnn"}, {"workload": "mine", "workload_title": "mine"})

    assert labels.with_titles(frame, frame)["workload_title"].tolist() == [
        "image CNN",
        "image CNN",
        "mine",
    ]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("device", "cuda", "CUDA"),
        ("workers", 1, "1\N{NO-BREAK SPACE}worker"),
        ("batch_size", 4_000_000, "batch\N{NO-BREAK SPACE}4,000,000"),
        ("steps_per_epoch", math.nan, "whole epochs"),
        ("steps_per_epoch", 6.0, "6\N{NO-BREAK SPACE}steps"),
        ("precision", "bf16", "bf16"),
        ("optimization", "none", "eager baseline"),
        ("optimization", "workers1", "1 DataLoader worker"),
        (
            "optimization",
            "accumulate4+checkpoint",
            "accumulation in 4 parts + gradient checkpointing",
        ),
    ],
)
def test_a_value_reads_without_its_column(field: str, value: Any, text: str) -> None:
    assert labels.field_label(field, value) == text


def test_only_marks_that_cast_doubt_are_doubts() -> None:
    assert labels.doubts(
        ["projected;single", "other settings;background load", "high variance"]
    ) == [
        "background load",
        "other settings",
    ]


def test_variants_that_differ_in_options_are_reported_by_their_optimization() -> None:
    frame = variants(
        {"device": "cuda"},
        {"device": "cuda", "workers": 4, "options": "pinned", "optimization": "workers4+pinned"},
    )

    assert labels.with_labels(frame)["label"].tolist() == [
        "CUDA, eager baseline",
        "CUDA, workers4+pinned",
    ]


PLAIN_OPTIONS = [name for name, option in OPTIONS.items() if not option.ddp_only]


@given(
    steps=st.lists(
        st.sampled_from(["workers4", "accumulate2", *PLAIN_OPTIONS]), min_size=2, unique=True
    )
)
def test_the_steps_of_a_ladder_are_found_again_in_their_order(steps: list[str]) -> None:
    names = ladder(steps)

    found = labels.ladder_steps_of(names)

    if found:
        assert [step.individual for step in found] == steps
        assert {step.cumulative for step in found} <= set(names)
        assert all(step.individual in step.cumulative for step in found)
    else:
        assert len(names) == len(steps) + 1, "no step left another one below it"


def test_a_step_that_leaves_nothing_below_to_do_is_taken_alone() -> None:
    found = labels.ladder_steps_of(ladder(["workers4", "pinned", "resident", "fused"]))

    assert [step.cumulative for step in found] == [
        "workers4",
        "workers4+pinned",
        "resident",
        "fused+resident",
    ]


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
    assert labels.ladder_steps_of(names) == []
