"""A variant's phases are those on its own device, with their shares of convolutions and of cuDNN."""

import pytest

from gpu_report.tables import tabulate_phases
from gpu_report.traces.phases import PHASES
from gpu_report.traces.tables import EMPTY_TABLES
from tests.trace_frames import make_trace_tables, with_failed_check

CPU, CUDA = "unet-64px-cpu-b4-w0-fp32-e3", "unet-64px-cuda-b4-w0-fp32-e3"


def test_the_phases_of_a_variant_share_the_time_on_its_own_device() -> None:
    table = tabulate_phases({slug: make_trace_tables(slug) for slug in (CPU, CUDA)})

    assert dict(table.groupby("variant")["share"].sum()) == pytest.approx({CPU: 1.0, CUDA: 1.0})
    assert list(table.loc[table["variant"] == CUDA, "phase"]) == ["data", "forward", "backward", "optimizer", "other"]


def test_convolutions_are_a_share_of_their_phase() -> None:
    table = tabulate_phases({CUDA: make_trace_tables(CUDA)}).set_index("phase")

    assert table.loc["forward", "convolution_share"] == pytest.approx(0.6)
    assert table.loc["optimizer", "convolution_share"] == 0
    assert table.loc["forward", "cudnn_share"] == pytest.approx(0.6 * 700 / 780)


def test_the_cpu_has_no_share_of_cudnn() -> None:
    assert tabulate_phases({CPU: make_trace_tables(CPU)})["cudnn_share"].isna().all()


def test_a_phase_that_took_no_time_has_no_shares() -> None:
    tables = make_trace_tables(CUDA)
    nothing = dict.fromkeys(("self_ms", "share", "convolution_ms", "cudnn_ms"), 0.0)
    empty = [{**row, **nothing} for row in tables[PHASES]]

    table = tabulate_phases({CUDA: {**tables, PHASES: empty}})

    assert table[["convolution_share", "cudnn_share"]].isna().all().all()


def test_a_variant_without_a_trace_has_no_rows() -> None:
    assert tabulate_phases({CUDA: EMPTY_TABLES}).empty


def test_phases_whose_times_on_the_device_are_not_reliable_are_left_out() -> None:
    traces = {slug: with_failed_check(make_trace_tables(slug), "phases on device") for slug in (CPU, CUDA)}

    assert set(tabulate_phases(traces)["variant"]) == {CPU}
