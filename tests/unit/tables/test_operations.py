"""The costliest operations and the category shares are those on the variant's own device."""

import pytest

from gpu_report.traces.operations import CATEGORY_TIMES, OPERATIONS
from gpu_report.traces.phases import PHASES
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables
from tests.tabulated import tabulate_category_speedups, tabulate_profiles
from tests.trace_frames import make_trace_tables, with_failed_check

CPU, CUDA = "cnn-medium-cpu-b64-w0-fp32-e3", "cnn-medium-cuda1-b64-w0-fp32-e3"
UNET_CPU, UNET_CUDA = "unet-64px-cpu-b4-w0-fp32-e3", "unet-64px-cuda-b4-w0-fp32-e3"


@pytest.mark.parametrize(
    ("spoils", "step", "table"),
    [
        ("operations on device", -1, "top_operations"),
        ("operations on device", 1, "top_operations"),
        ("operations.self_ms", -1, "top_operations"),
        ("operations", -1, "top_operations"),
        ("phases on device", -1, "phases"),
    ],
)
def test_times_on_the_device_that_are_not_reliable_are_left_out_and_no_others(
    spoils: str, step: int, table: str
) -> None:
    traces = {
        slug: with_failed_check(make_trace_tables(slug), spoils, step=step)
        for slug in (CUDA, UNET_CPU)
    }

    for each in ("top_operations", "phases"):
        shown = set(tabulate_profiles(each, traces)["variant"])
        assert (CUDA not in shown) == (each == table)
        assert UNET_CPU in shown or "on device" not in spoils


def test_the_costliest_operations_have_the_times_of_a_step() -> None:
    tables = make_trace_tables(CUDA)
    (row, *_) = sorted(
        [row for row in tables[OPERATIONS] if row["device"] != "cpu"],
        key=lambda row: (-row["self_ms"], row["name"]),
    )
    steps = len(tables[STEPS])

    found = tabulate_profiles("top_operations", {CUDA: tables}).iloc[0]

    assert (steps > 1, found["name"], found["self_share"]) == (True, row["name"], row["self_share"])
    assert found["ms_per_step"] == row["total_ms"] / steps
    assert found["self_ms_per_step"] == row["self_ms"] / steps


def in_categories(slug: str, device: str, **times_ms: float) -> TraceTables:
    """The trace of three steps that took so long in all."""
    rows = [
        {"device": device, "category": category, "calls": 3, "self_ms": time_ms, "share": 0.1}
        for category, time_ms in times_ms.items()
    ]
    return {**make_trace_tables(slug), CATEGORY_TIMES: CATEGORY_TIMES.checked(rows)}


def test_a_category_gains_what_a_step_spends_less_in_it_on_the_accelerator() -> None:
    longer = "cnn-medium-cuda1-b64-w0-fp32-e5x20"
    on_cpu = in_categories(CPU, "cpu", convolution=90.0, loss=3.0, other=6.0)
    traces = {
        CPU: on_cpu,
        longer: in_categories(longer, "cuda", convolution=3.0, loss=6.0, copy=1.0),
    }

    table = tabulate_category_speedups(traces, loops=())

    assert list(zip(table["category"], table["cpu_ms"], table["device_ms"], strict=True)) == [
        ("convolution", 30.0, 1.0),
        ("loss", 1.0, 2.0),
    ]
    assert list(table["speedup"]) == [30.0, 0.5]
    assert set(table["variant"]) == {longer}
    assert set(table["cpu_variant"]) == {CPU}


def test_only_the_same_configuration_is_compared_and_no_custom_training_loop() -> None:
    other = "cnn-medium-cuda1-b32-w0-fp32-e3"
    traces = {slug: make_trace_tables(slug) for slug in (CPU, CUDA, other)}

    assert set(tabulate_category_speedups(traces, loops=())["variant"]) == {CUDA}
    assert tabulate_category_speedups(traces, loops={CPU}).empty
    assert tabulate_category_speedups(traces, loops={CUDA}).empty


def test_a_phase_that_took_no_time_has_no_shares() -> None:
    tables = make_trace_tables(UNET_CUDA)
    nothing = dict.fromkeys(("self_ms", "share", "convolution_ms", "cudnn_ms"), 0.0)
    empty = [{**row, **nothing} for row in tables[PHASES]]

    table = tabulate_profiles("phases", {UNET_CUDA: {**tables, PHASES: empty}})

    assert table[["convolution_share", "cudnn_share"]].isna().all().all()
