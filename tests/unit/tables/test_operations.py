"""The costliest operations and the category shares are those on the variant's own device."""

from dataclasses import replace

import pytest

from gpu_report.tables import tabulate_category_shares, tabulate_top_operations
from gpu_report.traces.tables import as_tables, empty_trace_rows
from tests.trace_frames import OPERATIONS, make_trace_tables, with_failed_check

CPU, CUDA = "cnn-medium-cpu-b64-w0-fp32-e3", "cnn-medium-cuda1-b64-w0-fp32-e3"


def test_the_ten_costliest_operations_are_listed_from_the_top() -> None:
    table = tabulate_top_operations({CPU: make_trace_tables(CPU)})

    assert list(table["rank"]) == list(range(1, 11))
    assert list(table["name"]) == list(OPERATIONS)[:10]
    assert table["self_ms"].is_monotonic_decreasing


def test_the_order_of_the_trace_does_not_matter_even_among_equals() -> None:
    tables = make_trace_tables(CPU)
    operations = [{**row, "self_ms": 1.0} for row in tables.operations]

    first, last = (
        tabulate_top_operations({CPU: replace(tables, operations=each)}) for each in (operations, operations[::-1])
    )

    assert first.equals(last)


@pytest.mark.parametrize("slug", [CPU, CUDA])
def test_shares_of_a_variant_sum_to_one_on_its_own_device(slug: str) -> None:
    table = tabulate_category_shares({slug: make_trace_tables(slug)})

    assert table["share"].sum() == pytest.approx(1.0)
    assert table["category"].is_unique


def test_an_accelerators_second_device_is_found_in_the_trace() -> None:
    table = tabulate_top_operations({CUDA: make_trace_tables(CUDA)})

    assert set(table["device"]) == {"cuda:1"}


def test_a_variant_without_a_trace_has_no_rows() -> None:
    empty = as_tables(empty_trace_rows())

    assert tabulate_top_operations({CPU: empty}).empty
    assert tabulate_category_shares({CPU: empty}).empty


@pytest.mark.parametrize("spoiled", ["operations on device", "operations.self_ms", "operations"])
def test_operations_whose_times_on_the_device_are_not_reliable_are_left_out(spoiled: str) -> None:
    tables = with_failed_check(make_trace_tables(CUDA), spoiled)

    assert tabulate_top_operations({CUDA: tables}).empty
    assert not tabulate_category_shares({CUDA: tables}).empty


def test_categories_whose_times_on_the_device_are_not_reliable_are_left_out() -> None:
    tables = with_failed_check(make_trace_tables(CUDA), "categories on device")

    assert tabulate_category_shares({CUDA: tables}).empty
    assert not tabulate_top_operations({CUDA: tables}).empty


def test_what_spoils_times_on_an_accelerator_leaves_those_on_the_cpu() -> None:
    tables = with_failed_check(make_trace_tables(CPU), "operations on device", "categories on device")

    assert len(tabulate_top_operations({CPU: tables})) == 10
    assert not tabulate_category_shares({CPU: tables}).empty


def test_one_spoiled_step_spoils_the_sums_over_all_steps() -> None:
    tables = with_failed_check(make_trace_tables(CUDA), "operations on device", step=1)

    assert tabulate_top_operations({CUDA: tables}).empty
