import math
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.figures import labels
from gpu_report.study.options import OPTIONS, ladder
from gpu_report.words import shorten


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
    short = shorten(labels.printable(text), most)

    assert len(short) <= most
    assert "\n" not in short


def test_a_workload_that_could_not_be_built_borrows_its_title() -> None:
    frame = variants({}, {"workload_title": "cnn"}, {"workload": "mine", "workload_title": "mine"})

    assert labels.with_titles(frame, frame)["workload_title"].tolist() == [
        "image CNN",
        "image CNN",
        "mine",
    ]


def test_only_marks_that_cast_doubt_are_doubts() -> None:
    assert labels.doubts(
        ["projected;single", "other settings;background load", "high variance"]
    ) == [
        "background load",
        "other settings",
    ]


def test_two_configurations_of_a_cpu_are_distinguished_below_one_heading() -> None:
    tuned = {"precision": "bf16", "options": "channelslast", "optimization": "channelslast"}
    frame = variants({}, {"device": "cuda"}, tuned)

    shown = labels.with_row_labels(
        frame.assign(group="cnn", is_baseline=[True, False, False]), "device"
    )

    assert shown["heading"].tolist() == ["Image CNN"] * 3
    assert shown["label"].tolist() == [
        "CPU, fp32, eager baseline",
        "GPU, fp32, eager baseline",
        "CPU, bf16, channelslast",
    ]


def test_configurations_with_many_options_each_have_a_name_of_their_own() -> None:
    steps = ["channelslast", "fused", "resident", "graphs", "compile"]
    left_out = ["+".join(each for each in steps if each != step) for step in steps]
    rows = [{"options": options, "optimization": options} for options in left_out]

    frame = labels.with_labels(variants(*rows))

    assert len({*labels.full_names(frame)}) == len(steps)
    assert frame["label"][1].endswith("channelslast+resident+graphs+compile")


def test_a_training_that_devices_share_is_labelled_so_beside_no_other() -> None:
    shared = variants({"device": "cuda", "parallelism": "ddp2"})
    both = pd.concat([shared, variants({"device": "cuda", "batch_size": 16})], ignore_index=True)

    assert labels.with_labels(shared)["label"].tolist() == [
        "GPU, DistributedDataParallel on 2 devices"
    ]
    assert labels.with_labels(both)["label"].tolist() == [
        "GPU, batch 32 per GPU, DistributedDataParallel on 2 devices",
        "GPU, batch\N{NO-BREAK SPACE}16, one process",
    ]


def test_the_batch_of_each_gpu_is_named_beside_the_length_of_a_shared_training() -> None:
    shared = variants({"device": "cuda", "parallelism": "ddp2"})
    alone = variants({"device": "cuda", "batch_size": 16}).assign(epochs=5, steps_per_epoch=4.0)

    found = labels.with_labels(pd.concat([shared, alone], ignore_index=True))["label"]

    assert "batch 32 per GPU" in found[0]
    assert "whole epochs" in found[0]
    assert "epochs of 4" in found[1].replace("\N{NO-BREAK SPACE}", " ")


def test_configurations_that_each_add_a_step_make_a_ladder() -> None:
    path = ["none", "tf32", "bf16", "bf16+flash", "bf16+flash+fused", "bf16+flash+fused+compile"]

    found = labels.ladder_steps_of(path)

    assert [step.title for step in found] == [
        "bf16",
        "flash attention",
        "fused optimizer",
        "torch.compile",
    ]
    assert [step.cumulative for step in found] == path[2:]


def test_a_step_whose_steps_below_were_not_measured_names_all_that_it_adds() -> None:
    alone = ["bf16", "resident", "fused", "graphs"]
    steps = labels.ladder_steps_of([*alone, "bf16+fused+resident+graphs"])

    found = labels.cumulative_labels([*alone, "bf16+fused+resident+graphs"], steps)

    assert found == {"bf16": "+ bf16", "bf16+fused+resident+graphs": "+ fused+resident+graphs"}


@pytest.mark.parametrize(
    "names",
    [
        ["graphs", "efficient+graphs", "flash+graphs", "cudnn+graphs"],
        ["flash+fused+compile", "flash+fp8+fused+compile"],
        ["none", "checkpoint", "accumulate4"],
    ],
)
def test_configurations_side_by_side_make_no_ladder(names: list[str]) -> None:
    assert labels.ladder_steps_of(names) == []


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
