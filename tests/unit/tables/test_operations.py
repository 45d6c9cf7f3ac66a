"""The costliest operations and the category shares are those on the variant's own device."""

import pytest

from gpu_report.tables.operations import TOP
from gpu_report.traces.memory import ALLOCATIONS
from gpu_report.traces.operations import CATEGORY_TIMES
from gpu_report.traces.operations import OPERATIONS as OPERATIONS_TABLE
from gpu_report.traces.phases import PHASES
from gpu_report.traces.tables import EMPTY_TABLES, TraceTables
from tests.tabulated import tabulate_category_speedups, tabulate_profiles
from tests.trace_frames import OPERATIONS, make_trace_tables, with_failed_check

CPU, CUDA = "cnn-medium-cpu-b64-w0-fp32-e3", "cnn-medium-cuda1-b64-w0-fp32-e3"
UNET_CPU, UNET_CUDA = "unet-64px-cpu-b4-w0-fp32-e3", "unet-64px-cuda-b4-w0-fp32-e3"


def test_the_ten_costliest_operations_are_listed_from_the_top() -> None:
    table = tabulate_profiles("top_operations", {CPU: make_trace_tables(CPU)})

    assert list(table["rank"]) == list(range(1, 11))
    assert list(table["name"]) == list(OPERATIONS)[:10]
    assert table["self_ms"].is_monotonic_decreasing


def test_the_order_of_the_trace_does_not_matter_even_among_equals() -> None:
    tables = make_trace_tables(CPU)
    operations = [{**row, "self_ms": 1.0} for row in tables[OPERATIONS_TABLE]]

    first, last = (
        tabulate_profiles("top_operations", {CPU: {**tables, OPERATIONS_TABLE: each}})
        for each in (operations, operations[::-1])
    )

    assert first.equals(last)


@pytest.mark.parametrize("slug", [CPU, CUDA])
def test_shares_of_a_variant_sum_to_one_on_its_own_device(slug: str) -> None:
    table = tabulate_profiles("category_shares", {slug: make_trace_tables(slug)})

    assert table["share"].sum() == pytest.approx(1.0)
    assert table["category"].is_unique


def test_an_accelerators_second_device_is_found_in_the_trace() -> None:
    table = tabulate_profiles("top_operations", {CUDA: make_trace_tables(CUDA)})

    assert set(table["device"]) == {"cuda:1"}


def test_a_variant_without_a_trace_has_no_rows() -> None:
    empty = EMPTY_TABLES

    assert tabulate_profiles("top_operations", {CPU: empty}).empty
    assert tabulate_profiles("category_shares", {CPU: empty}).empty


@pytest.mark.parametrize("spoiled", ["operations on device", "operations.self_ms", "operations"])
def test_operations_whose_times_on_the_device_are_not_reliable_are_left_out(spoiled: str) -> None:
    tables = with_failed_check(make_trace_tables(CUDA), spoiled)

    assert tabulate_profiles("top_operations", {CUDA: tables}).empty
    assert not tabulate_profiles("category_shares", {CUDA: tables}).empty


def test_categories_whose_times_on_the_device_are_not_reliable_are_left_out() -> None:
    tables = with_failed_check(make_trace_tables(CUDA), "categories on device")

    assert tabulate_profiles("category_shares", {CUDA: tables}).empty
    assert not tabulate_profiles("top_operations", {CUDA: tables}).empty


def test_what_invalidates_times_on_an_accelerator_leaves_those_on_the_cpu() -> None:
    tables = with_failed_check(
        make_trace_tables(CPU), "operations on device", "categories on device"
    )

    assert len(tabulate_profiles("top_operations", {CPU: tables})) == 10
    assert not tabulate_profiles("category_shares", {CPU: tables}).empty


def test_one_invalidated_step_invalidates_the_sums_over_all_steps() -> None:
    tables = with_failed_check(make_trace_tables(CUDA), "operations on device", step=1)

    assert tabulate_profiles("top_operations", {CUDA: tables}).empty


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


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_the_operations_that_asked_for_most_memory_are_those_of_the_variants_own_device(
    device: str,
) -> None:
    rows = [
        {
            "device": each,
            "operation": f"aten::{number}",
            **dict.fromkeys(ALLOCATIONS.column_names[2:], 1.0),
        }
        for each in ("cpu", device)
        for number in range(TOP + 2)
    ]

    table = tabulate_profiles(
        "operation_memory", {CUDA: {**make_trace_tables(CUDA), ALLOCATIONS: rows}}
    )

    assert list(table["operation"]) == [f"aten::{number}" for number in range(TOP)]
    assert list(table["rank"]) == list(range(1, TOP + 1))


def test_the_phases_of_a_variant_share_the_time_on_its_own_device() -> None:
    table = tabulate_profiles(
        "phases", {slug: make_trace_tables(slug) for slug in (UNET_CPU, UNET_CUDA)}
    )

    assert dict(table.groupby("variant")["share"].sum()) == pytest.approx(
        {UNET_CPU: 1.0, UNET_CUDA: 1.0}
    )
    assert list(table.loc[table["variant"] == UNET_CUDA, "phase"]) == [
        "data",
        "forward",
        "backward",
        "optimizer",
        "other",
    ]


def test_convolutions_are_a_share_of_their_phase() -> None:
    table = tabulate_profiles("phases", {UNET_CUDA: make_trace_tables(UNET_CUDA)}).set_index(
        "phase"
    )

    assert table.loc["forward", "convolution_share"] == pytest.approx(0.6)
    assert table.loc["optimizer", "convolution_share"] == 0
    assert table.loc["forward", "cudnn_share"] == pytest.approx(0.6 * 700 / 780)


def test_the_cpu_has_no_share_of_cudnn() -> None:
    assert (
        tabulate_profiles("phases", {UNET_CPU: make_trace_tables(UNET_CPU)})["cudnn_share"]
        .isna()
        .all()
    )


def test_a_phase_that_took_no_time_has_no_shares() -> None:
    tables = make_trace_tables(UNET_CUDA)
    nothing = dict.fromkeys(("self_ms", "share", "convolution_ms", "cudnn_ms"), 0.0)
    empty = [{**row, **nothing} for row in tables[PHASES]]

    table = tabulate_profiles("phases", {UNET_CUDA: {**tables, PHASES: empty}})

    assert table[["convolution_share", "cudnn_share"]].isna().all().all()


def test_phases_whose_times_on_the_device_are_not_reliable_are_left_out() -> None:
    traces = {
        slug: with_failed_check(make_trace_tables(slug), "phases on device")
        for slug in (UNET_CPU, UNET_CUDA)
    }

    assert set(tabulate_profiles("phases", traces)["variant"]) == {UNET_CPU}
