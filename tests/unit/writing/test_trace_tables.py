import math
from typing import Any

import pytest

from gpu_report.glossary import Row
from gpu_report.tables.traces import STEP_PARTS
from gpu_report.writing.table_block import TableBlock
from gpu_report.writing.trace_tables import (
    DOUBTS,
    doubts_table,
    kernels_table,
    shares_table,
)

SLOWED = "a profiled step took 2.40 times a timed one"


def variant(workload: str = "unet", device: str = "cuda", **more: Any) -> Row:
    names = {"unet": "U-Net", "lstm": "bidirectional LSTM"}
    return {
        "variant": f"{workload}-{device}-b16-w0-fp32-e3",
        "workload": workload,
        "workload_title": names[workload],
        "size": "default",
        "device": device,
        "precision": "fp32",
        "options": "none",
        "workers": 0,
        **more,
    }


def steps(**changes: Any) -> Row:
    """A row of STEP_SHARES of a variant on an accelerator, half of it kernels."""
    known = {
        "wall_ms": 12.5,
        **{f"{part}_share": 0.0 for part in STEP_PARTS},
        "device_busy_share": 0.52,
        "device_idle_share": 0.48,
        "exposed_copy_share": 0.02,
        "launches_per_step": 250.0,
        "short_share": 0.4,
        "launch_bound_share": 0.12,
        DOUBTS: "",
    }
    return variant(**{**known, **changes})


def spoiled_steps(**changes: Any) -> Row:
    shares = {name: math.nan for name in steps() if name.endswith("_share") or name == "launches_per_step"}
    return steps(**{**shares, DOUBTS: SLOWED, **changes})


def kernel(name: str, **changes: Any) -> Row:
    known = {
        "rank": 1,
        "name": name,
        "category": "convolution",
        "library": "cuDNN",
        "tensor_cores": "yes",
        "operation": "aten::conv2d",
        "module": "",
        "source": "",
        "share": 0.3,
    }
    return variant(**{**known, **changes})


def printed(block: TableBlock) -> list[str]:
    """The cells of each row, apart by blanks."""
    rows = [" ".join(map(str, row.cells)) for row in block.rows]
    return [row.replace(r"\gpurepbreak{}", "").replace(r"\_", "_").replace("~", " ") for row in rows]


def test_numbers_that_are_not_reliable_are_words_with_the_reason_below() -> None:
    block = shares_table([steps(), spoiled_steps(workload="lstm")], source="step_shares.csv")

    reliable, spoiled = printed(block)
    assert "52.0" in reliable
    assert "not reliable" not in reliable
    assert r"12.5 \multicolumn{7}{c}{\itshape not reliable}" in spoiled
    assert [str(note) for note in block.notes] == [rf"\textsuperscript{{a}} {SLOWED}."]


def test_a_single_number_that_is_not_reliable_leaves_those_beside_it() -> None:
    doubted = steps(workload="lstm", short_share=math.nan, **{DOUBTS: "one launch is lost"})

    (_, row) = printed(shares_table([steps(), doubted], source=""))

    assert r"250 \multicolumn{1}{c}{\itshape not reliable} 12.0" in row


def test_what_the_cpu_does_not_have_is_not_called_unreliable() -> None:
    of_device = dict.fromkeys(("device_busy_share", "device_idle_share", "exposed_copy_share", "short_share"), math.nan)
    on_cpu = steps(device="cpu", launches_per_step=math.nan, launch_bound_share=math.nan, **of_device)
    slowed = {**on_cpu, "loader_share": math.nan, DOUBTS: SLOWED}

    told, spoiled, _ = printed(shares_table([on_cpu, slowed, steps()], source=""))

    assert "not reliable" not in told
    assert r"\multicolumn{1}{c}{\itshape not reliable}" in spoiled
    assert spoiled.count(r"\textendash{}") == told.count(r"\textendash{}") == 6


def test_on_the_cpu_alone_the_table_of_steps_is_silent_about_accelerators() -> None:
    missing = {name: math.nan for name in steps() if name.startswith(("device_", "exposed_", "launch", "short"))}

    block = shares_table([steps(**{**missing, "device": "cpu"})], source="")

    assert [str(header) for header in block.header] == [
        "workload",
        "configuration",
        r"\shortstack{profiled\\step}",
        "loader",
    ]
    assert "accelerator" not in block.caption


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("void fill<float>(int, float*)", "fill<float>"),
        ("void at::(anonymous)::add(int)", "at::(anonymous)::add"),
        ("void apply<f(int)>(g(float))", "apply<f(int)>"),
        ("sm80_xmma_gemm", "sm80_xmma_gemm"),
        ("Memset (Device)", "Memset (Device)"),
        ("void )", "void )"),
    ],
)
def test_a_kernel_is_named_without_what_it_returns_and_takes(name: str, shown: str) -> None:
    (row,) = printed(kernels_table([kernel(name)], spoiled={}, source=""))

    for character in "<>":
        shown = shown.replace(character, {"<": r"\textless{}", ">": r"\textgreater{}"}[character])
    assert rf"\gpurepname{{{shown}}}" in row


def test_a_kernel_is_told_with_its_launch_and_the_line_of_the_users_code() -> None:
    with_source, with_module = printed(
        kernels_table(
            [
                kernel("fill", source="train.py(7): step", module="Conv_0", tensor_cores="unknown"),
                kernel("fill", module="Conv_0"),
            ],
            spoiled={},
            source="",
        )
    )

    assert "aten::conv2d, train.py(7): step" in with_source
    assert "cuDNN ? " in with_source
    assert "aten::conv2d, Conv_0" in with_module


def test_what_launched_a_kernel_is_not_reliable_where_its_trace_cannot_tell() -> None:
    row = kernel("fill", category="", operation="")

    (text,) = printed(kernels_table([row], spoiled={row["variant"]: frozenset({"category", "operation"})}, source=""))

    assert text.count("not reliable") == 2


def test_checks_are_told_with_how_many_failed_them_and_what_is_left_out() -> None:
    steps_lost: Row = {"check": "device work", "spoils": "idle, steps.kernel_ms, steps.other_ms"}
    rows = [variant(**steps_lost), variant(**steps_lost), variant("lstm", **steps_lost)]

    device_work, text = printed(doubts_table([*rows, variant(check="text", spoils="")], source=""))

    assert "device work 2 " in device_work
    assert "idle, steps (kernel_ms, other_ms)" in device_work
    assert "text 1 " in text
    assert "nothing" in text
