"""What traces of other vendors, engines and shapes come to: each is written by hand, with the
values that follow from its own times.
"""

from collections import defaultdict
from typing import Any

import pytest

from gpu_report.errors import TraceError
from gpu_report.storage.columns import Table
from gpu_report.traces.advice import ADVICE
from gpu_report.traces.grouping import Row
from gpu_report.traces.idle import IDLE, LAUNCHES
from gpu_report.traces.kernels import COPIES, KERNELS
from gpu_report.traces.operations import CATEGORY_TIMES
from gpu_report.traces.quality import QUALITY, Gate
from gpu_report.traces.ranges import waits
from gpu_report.traces.ranks import COLLECTIVES, RANKS
from gpu_report.traces.steps import DEVICES, STEPS
from gpu_report.traces.tables import TraceTables, tabulate_trace
from tests.unit.traces.by_hand import (
    MAIN,
    STREAM,
    RawEvent,
    kernel,
    launch,
    mark,
    operation,
    span,
    step,
    trace_of,
)

MI300X = {"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4}
H100 = {"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}
V100 = {"id": 0, "name": "Tesla V100-SXM2-32GB", "computeMajor": 7, "computeMinor": 0}
GTX = {"id": 0, "name": "NVIDIA GeForce GTX 1660 Ti", "computeMajor": 7, "computeMinor": 5}
RDNA2 = {"id": 0, "name": "AMD Radeon Graphics", "computeMajor": 10, "computeMinor": 3}
FURY = {"id": 0, "name": "AMD Radeon R9 Fury", "computeMajor": 8, "computeMinor": 0}
MI50 = {"id": 0, "name": "AMD Instinct MI50", "computeMajor": 9, "computeMinor": 0}


def tables(*events: RawEvent, device: dict[str, Any] = H100) -> TraceTables:
    return tabulate_trace(trace_of(*events, deviceProperties=[device]))


def work(
    number: int,
    name: str,
    start_us: float,
    duration_us: float,
    *,
    by: str = "aten::mm",
    kind: str = "kernel",
    call: str = "cudaLaunchKernel",
    stream: tuple[int, int] = (0, 7),
) -> list[RawEvent]:
    """Device work, and just before it the call that launched it within an operation."""
    return [
        operation(by, start_us - 6, 4),
        span("cuda_runtime", call, start_us - 5, 2, on=MAIN, correlation=number),
        span(kind, name, start_us, duration_us, on=stream, correlation=number),
    ]


def failed(found: TraceTables) -> list[str]:
    return [row["check"] for row in found[QUALITY] if not row["passed"]]


def advised(found: TraceTables) -> dict[str, str]:
    return {row["rule"]: row["advice"] for row in found[ADVICE]}


def on_device(found: TraceTables) -> dict[str, float]:
    return {
        row["category"]: row["self_ms"] for row in found[CATEGORY_TIMES] if row["device"] != "cpu"
    }


def only(found: TraceTables, table: Table) -> dict[str, Any]:
    (row,) = found[table]
    return dict(row)


COLLECTIVE_KERNELS = {
    "void multimem_all_reduce_kernel<c10::BFloat16, 16>": "symm_mem::multimem_all_reduce_",
    "void two_shot_all_reduce_kernel_inplace<float>": "symm_mem::two_shot_all_reduce_",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>": "_C_custom_ar::all_reduce",
    "void deep_ep::intranode::dispatch<8, 768, 8192>": "deep_ep::dispatch",
    "void nvshmemi_alltoall_kernel": "nvshmem",
    "void mscclpp::allreduce6<__half>": "allreduce",
    "void dpsk::ep::internode::combine<8, false, __nv_bfloat16>": "FusedCombine",
    "ccl::v1::allreduce_scaleout_kernel<float>": "aten::add",
    "a_kernel_whose_name_says_nothing": "record_param_comms",
}


@pytest.mark.parametrize("name", COLLECTIVE_KERNELS)
def test_a_collective_is_known_by_its_kernel_or_by_the_operation_around_it(name: str) -> None:
    found = tables(step(1, 0, 1000), *work(1, name, 100, 700, by=COLLECTIVE_KERNELS[name]))

    row = only(found, STEPS)
    assert row["kernel_ms"] == 0.0
    assert row["exposed_communication_ms"] == pytest.approx(0.7, abs=0.005)
    assert on_device(found) == {"communication": 0.7}


def test_a_collective_inside_the_optimizer_is_communication() -> None:
    found = tables(
        step(1, 0, 1000),
        mark("Optimizer.step#ZeroRedundancyOptimizer.step", 50, 900),
        *work(1, "void multi_tensor_apply_kernel", 100, 100, by="aten::_foreach_add_"),
        *work(2, "ncclDevKernel_Broadcast_RING_LL", 300, 400, by="record_param_comms"),
    )

    assert on_device(found) == {"communication": 0.4, "optimizer": 0.1}


def test_a_copy_beside_a_collective_hides_none_of_it() -> None:
    found = tables(
        step(1, 0, 1000),
        *work(1, "sm90_xmma_gemm_bf16bf16", 50, 500),
        *work(2, "ncclDevKernel_AllGather_RING_LL", 600, 200, by="record_param_comms"),
        *work(3, "Memcpy DtoD (Device -> Device)", 620, 180, kind="gpu_memcpy", stream=(0, 30)),
    )

    assert "communication" in advised(found)
    (finding,) = [row for row in found[ADVICE] if row["rule"] == "communication"]
    assert finding["value"] == pytest.approx(0.2)


def test_an_exchange_on_the_host_is_advised_where_kernels_do_not_hide_it() -> None:
    found = tables(
        step(1, 0, 1000), *work(1, "gemm", 50, 500), operation("gloo:all_reduce", 450, 400)
    )

    assert only(found, STEPS)["exposed_communication_ms"] == 0.3
    assert "communication" in advised(found)


def test_a_copy_that_an_exchange_launches_is_communication_in_every_table() -> None:
    copy = "Memcpy DtoD (Device -> Device)"
    found = tables(
        step(1, 0, 1000), *work(1, copy, 100, 300, by="c10d::allreduce_", kind="gpu_memcpy")
    )

    row = only(found, STEPS)
    assert (row["memcpy_ms"], row["communication_ms"]) == (0.0, pytest.approx(0.3))
    assert on_device(found) == {"communication": 0.3}


def test_sends_and_receives_under_an_all_to_all_are_one() -> None:
    """Its kernel is named after what it is made of; `tests/unit/traces/test_ranks.py` has waits."""
    found = tabulate_trace(
        trace_of(
            step(1, 0, 1000),
            operation("c10d::alltoall_base_", 90, 8),
            *work(1, "ncclDevKernel_SendRecv", 100, 300, by="record_param_comms"),
            distributedInfo={"backend": "nccl", "rank": 0, "world_size": 1},
        )
    )

    assert only(found, COLLECTIVES)["operation"] == "all-to-all"


AMD_KERNELS = {
    "Cijk_Ailk_Bljk_BBS_BH_MT256x224x64_MI16x16x1_SN": ("rocBLAS", "yes"),
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32": ("MIOpen", "yes"),
    "SubTensorOpWithScalar1d": ("unknown", "no"),
}


def test_kernels_of_amd_are_known_to_use_matrix_cores_or_not() -> None:
    found = tables(
        step(1, 0, 1000),
        *(
            event
            for number, name in enumerate(AMD_KERNELS, start=1)
            for event in work(number, name, 100 * number, 50)
        ),
        device=MI300X,
    )

    kernels = {row["name"]: (row["library"], row["tensor_cores"]) for row in found[KERNELS]}
    assert kernels == AMD_KERNELS


@pytest.mark.parametrize(
    ("device", "remedy"),
    [
        (V100, "GradScaler"),
        (H100, "bfloat16"),
        (MI300X, "bfloat16"),
        (MI50, None),
        (GTX, None),
        (RDNA2, None),
        (FURY, None),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_a_remedy_is_offered_only_where_the_device_has_it(
    device: dict[str, Any], remedy: str | None
) -> None:
    found = tables(step(1, 0, 1000), *work(1, "volta_sgemm_128x64_nn", 50, 900), device=device)

    assert ("tensor cores" in advised(found)) == (remedy is not None)
    assert remedy is None or remedy in advised(found)["tensor cores"]


def test_copies_and_fills_that_rocm_writes_as_kernels_are_none() -> None:
    found = tables(
        step(1, 0, 1000),
        *work(1, "Cijk_Ailk_Bljk_MI16x16x16x1", 100, 300),
        *work(2, "MEMORY_COPY_HOST_TO_DEVICE", 450, 200, by="aten::copy_", call="hipMemcpyAsync"),
        *work(3, "__amd_rocclr_fillBufferAligned.kd", 700, 50, by="aten::zero_"),
        device=MI300X,
    )

    row = only(found, STEPS)
    assert (row["kernel_ms"], row["memcpy_ms"], row["memset_ms"]) == (0.3, 0.2, 0.05)
    assert only(found, COPIES)["direction"] == "to device"


def test_a_kernel_of_oneccl_is_from_there() -> None:
    found = tables(step(1, 0, 1000), *work(1, "oneccl_allreduce_kernel", 100, 500))

    assert only(found, KERNELS)["library"] == "oneCCL"


def test_a_gemm_kernel_of_intel_is_none_of_nvidias() -> None:
    on_xpu = span("xpu_runtime", "urEnqueueKernelLaunch", 95, 2, on=MAIN, correlation=1)
    found = tables(step(1, 0, 1000), on_xpu, kernel("gemm_kernel", 100, 500, correlation=1))

    assert only(found, KERNELS)["library"] == "oneDNN"


@pytest.mark.parametrize("call", ["hipMemcpyWithStream", "urEventWait", "cudaStreamSynchronize"])
def test_a_waiting_call_of_any_vendor_is_found_by_idle_time_and_advice(call: str) -> None:
    found = tables(
        step(1, 0, 1000),
        *work(1, "Cijk_MI16x16x16x1", 50, 650),
        operation("aten::item", 60, 660),
        span("cuda_runtime", call, 70, 640, on=MAIN, correlation=9),
        *work(2, "Cijk_MI16x16x16x1", 900, 50),
        device=MI300X,
    )

    idle: dict[str, float] = defaultdict(float)
    for row in found[IDLE]:
        idle[row["cause"]] += row["total_ms"]
    assert idle["synchronisation"] == pytest.approx(0.2)
    assert "synchronising calls" in advised(found)


COPYING_CALLS: dict[str, tuple[str, str, tuple[int, int], list[Row]]] = {
    "an upload of AMD": ("hipMemcpyWithStream", "MEMORY_COPY_HOST_TO_DEVICE", MAIN, []),
    "a copy to pageable memory": (
        "cudaMemcpyAsync",
        "Memcpy DtoH (Device -> Pageable)",
        MAIN,
        [{"operation": "aten::to", "source": "", "calls": 1, "total_ns": 400_000}],
    ),
    "a copy on another thread": (
        "cudaMemcpy",
        "Memcpy DtoH (Device -> Pageable)",
        (100, 101),
        [],
    ),
}


@pytest.mark.parametrize("case", COPYING_CALLS)
def test_idle_time_and_advice_know_the_same_waits(case: str) -> None:
    call, copy, thread, expected = COPYING_CALLS[case]
    trace = trace_of(
        step(1, 0, 1000),
        operation("aten::to", 60, 500, on=thread),
        span("cuda_runtime", call, 70, 400, on=thread, correlation=9),
        span("gpu_memcpy", copy, 80, 300, on=STREAM, correlation=9),
    )

    assert waits(trace) == expected


def test_memory_taken_from_the_driver_is_the_cause_and_its_own_advice() -> None:
    found = tables(
        step(1, 0, 1000),
        operation("aten::empty", 10, 900),
        span("cuda_runtime", "cudaFree", 20, 600, on=MAIN),
        span("cuda_runtime", "cudaMalloc", 630, 200, on=MAIN),
        *work(1, "sm90_xmma_gemm_bf16bf16", 950, 50),
    )

    assert next(iter(advised(found))) == "allocator"


def test_a_gap_is_cut_where_its_work_was_launched() -> None:
    found = tables(
        step(1, 0, 1000),
        *work(1, "gemm", 10, 90),
        operation("aten::add", 134, 4),
        launch(2, 135, 2),
        kernel("add", 900, 100, correlation=2),
    )

    causes = {(row["cause"], row["total_ms"]) for row in found[IDLE]}
    assert {("host", 0.035), ("launch", 0.765)} <= causes


def test_a_host_that_takes_long_between_launches_is_launch_bound_and_one_that_paused_is_not() -> (
    None
):
    slow = tables(
        step(1, 0, 10_000),
        *(event for number in range(30) for event in work(number + 1, "k", 320 * number + 10, 5)),
    )
    paused = tables(
        step(1, 0, 10_000), *work(1, "k", 10, 5), *work(2, "k", 30, 5), *work(3, "k", 9_000, 900)
    )

    pause_of_each_step = tables(
        *(step(number + 1, 1000 * number, 1000) for number in range(20)),
        *(
            event
            for number in range(20)
            for event in work(number + 1, "k", 1000 * number + 10, 500)
        ),
    )

    assert only(slow, LAUNCHES)["launch_bound_share"] > 0.9
    assert all(row["launch_bound_share"] < 0.02 for row in pause_of_each_step[LAUNCHES])
    assert only(paused, LAUNCHES)["launch_bound_share"] < 0.01


def test_each_device_of_a_process_has_its_own_share_and_they_are_never_joined() -> None:
    found = tables(
        step(1, 0, 1000),
        *work(1, "gemm", 10, 490, stream=(0, 7)),
        *work(2, "gemm", 500, 250, stream=(1, 7)),
    )

    busy = {row["device"]: row["busy_ms"] for row in found[DEVICES]}
    assert busy == {"cuda:0": 0.49, "cuda:1": 0.25}
    assert "one device" in failed(found)
    assert not Gate(found).trusts(RANKS, "exposed_ms")
    assert not Gate(found).trusts(COLLECTIVES, "exposed_ms")
    assert "accelerator busy" not in advised(found)


def test_devices_are_in_the_order_of_their_numbers_and_one_without_a_number_has_none() -> None:
    found = tables(
        step(1, 0, 1000),
        *(event for each in (10, 2) for event in work(each, "gemm", 10, 400, stream=(each, 7))),
    )
    nameless = tables(step(1, 0, 1000), kernel("gemm", 10, 400, on=(None, 7)))

    assert [row["device"] for row in found[DEVICES]] == ["cuda:2", "cuda:10"]
    assert [row["device"] for row in nameless[DEVICES]] == ["accelerator"]


def test_copies_without_a_number_of_their_launch_replace_no_lost_kernel() -> None:
    copy = span("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 600, 90, on=STREAM, correlation=0)
    found = tables(step(1, 0, 1000), *work(1, "gemm", 50, 300), launch(2, 380, 2), copy)

    assert "work of the launches" in failed(found)


def test_a_little_work_on_another_device_takes_no_share_away() -> None:
    found = tables(
        step(1, 0, 1000),
        *work(1, "gemm", 10, 490),
        *work(2, "Memset (Device)", 500, 3, kind="gpu_memset", stream=(1, 7)),
    )

    assert failed(found) == []


def test_a_cpu_training_on_a_machine_with_a_gpu_keeps_its_numbers() -> None:
    found = tables(
        step(1, 0, 1000),
        span("cpu_op", "enumerate(DataLoader)#_Iter.__next__", 0, 200, on=MAIN),
        operation("aten::addmm", 200, 700),
        span("cuda_runtime", "cudaDeviceSynchronize", 990, 5, on=MAIN),
    )

    assert failed(found) == []
    assert list(advised(found)) == ["data loader"]


def captured(*, kernels_of_each: tuple[int, ...], first_of_each: str = "") -> list[RawEvent]:
    """A graph that is captured in the first step, and one that is replayed in each, with that many
    kernels and the first named so.
    """
    events = [
        span("cuda_runtime", "cudaStreamBeginCapture_v10000", 10, 2, on=MAIN),
        *(launch(900 + number, 20 + 4 * number, 2) for number in range(10)),
        span("cuda_runtime", "cudaStreamEndCapture", 80, 2, on=MAIN),
    ]
    for number, count in enumerate(kernels_of_each):
        begin = 1000 * number
        events += [
            step(number + 1, begin, 1000),
            span(
                "cuda_runtime", "cudaGraphLaunch", begin + 100, 3, on=MAIN, correlation=number + 1
            ),
            *(
                kernel(
                    first_of_each[number] if first_of_each and not each else "k",
                    begin + 110 + 20 * each,
                    15,
                    correlation=number + 1,
                )
                for each in range(count)
            ),
        ]
    return events


@pytest.mark.parametrize(
    ("counts", "is_whole"), [((10, 10, 10), True), ((10, 10, 4), False), ((10, 0, 10), False)]
)
def test_launches_of_a_capture_are_not_lost_and_kernels_of_a_replay_are(
    counts: tuple[int, ...], *, is_whole: bool
) -> None:
    checks = failed(tables(*captured(kernels_of_each=counts)))

    assert "kernels of the graphs" not in checks if is_whole else "kernels of the graphs" in checks
    assert not is_whole or "work of the launches" not in checks


def test_graphs_that_take_turns_at_one_place_of_the_step_are_no_loss() -> None:
    whole = captured(kernels_of_each=(10, 4, 10, 4), first_of_each="abab")
    lossy = captured(kernels_of_each=(10, 4, 10, 2), first_of_each="abab")

    assert "kernels of the graphs" not in failed(tables(*whole))
    (check,) = [row for row in tables(*lossy)[QUALITY] if row["check"] == "kernels of the graphs"]
    assert check["value"] == 0.5


def test_collectives_without_a_number_of_their_launch_are_no_loss() -> None:
    found = tables(
        step(1, 0, 1000),
        *work(1, "Cijk_MI16x16x16x1", 50, 300),
        launch(2, 380, 2),
        kernel("ncclDevKernel_Generic_4", 400, 300, correlation=0),
        device=MI300X,
    )

    assert failed(found) == ["launch of the work"]
    assert only(found, STEPS)["exposed_communication_ms"] == 0.3


def test_an_unfinished_mark_takes_nothing_away() -> None:
    unfinished = {**mark("[pl][profile]run_training_epoch", 5, 1), "dur": -1}
    found = tables(step(1, 0, 1000), *work(1, "gemm", 50, 800), unfinished)

    assert failed(found) == []


def test_a_kernel_without_its_end_takes_the_share_of_each_device_away() -> None:
    unfinished = {**kernel("gemm", 5, 1), "dur": -1}
    found = tables(step(1, 0, 1000), *work(1, "gemm", 50, 800), unfinished)

    assert failed(found) == ["durations"]
    assert not Gate(found).trusts(DEVICES, "busy_ms")


def test_one_wait_at_the_end_of_a_recording_is_no_advice() -> None:
    found = tables(
        *(event for number in range(20) for event in work(number + 1, "k", 100 * number + 10, 90)),
        span("cuda_runtime", "cudaDeviceSynchronize", 1_990, 30, on=MAIN),
    )

    assert "synchronising calls" not in advised(found)


def test_of_two_marks_of_one_step_the_outer_counts() -> None:
    trace = trace_of(step(1, 0, 100), step(1, 1, 98), step(2, 100, 100), step(2, 101, 98))

    assert [(each.number, each.end_ns - each.start_ns) for each in trace.steps] == [
        (1, 100_000),
        (2, 100_000),
    ]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"pid": 200, "tid": 200}, "2 training processes (100, 200)"),
        ({"ts": 50}, "or before another step has ended"),
        ({"name": "ProfilerStep#1"}, "ProfilerStep#1 begins again"),
    ],
)
def test_several_trainings_in_one_file_are_refused_by_name(
    second: dict[str, Any], said: str
) -> None:
    with pytest.raises(TraceError) as refused:
        trace_of(step(1, 0, 100), {**step(2, 100, 100), **second})

    assert said in str(refused.value)


def test_a_kernel_at_time_zero_is_refused_where_times_count_from_days_before() -> None:
    two_days_us = 2 * 24 * 3600e6

    with pytest.raises(TraceError, match="begins 2 days before"):
        trace_of(step(1, two_days_us, 1000), kernel("gemm", 0, 100))


def test_ranks_merged_into_one_file_are_refused_without_steps_too() -> None:
    with pytest.raises(TraceError, match=r"2 training processes \(100, 200\)"):
        trace_of(operation("aten::mm", 10, 10), operation("aten::mm", 10, 10, on=(200, 200)))

    assert len(trace_of(operation("mm", 10, 10), operation("mm", 10, 10, on=(None, 1))).calls) == 2


def test_a_recording_without_steps_ends_with_its_work_and_not_with_a_watchdog() -> None:
    watchdog = span("cuda_runtime", "cudaEventQuery", 900, 10, on=(100, 555))
    row = only(tables(*work(1, "gemm", 106, 300), watchdog), STEPS)

    assert row["wall_ms"] == pytest.approx(0.306)  # from the operation, 6 us before the kernel


def test_a_last_step_in_which_nothing_is_called_is_none() -> None:
    found = tables(step(1, 0, 500), *work(1, "gemm", 106, 300), step(2, 510, 5))

    assert [row["step"] for row in found[STEPS]] == [1]
    assert failed(found) == []


def test_one_short_kernel_of_unknown_kind_hides_no_lack_of_tensor_cores() -> None:
    events = [
        *work(1, "volta_scudnn_128x64_relu", 106, 600, by="aten::cudnn_convolution"),
        *work(2, "cask_cudnn::computeOffsetsKernel", 720, 20, by="aten::cudnn_convolution"),
    ]
    found = tables(step(1, 0, 1000), *events, device=V100)

    assert "GradScaler" in advised(found)["tensor cores"]


@pytest.mark.parametrize(
    ("around", "remedy"),
    [("autograd::engine::evaluate_function: A", "more samples"), ("aten::a", "fewer")],
)
def test_a_model_that_is_not_trained_is_offered_no_larger_batch_to_hide_its_exchange(
    around: str, remedy: str
) -> None:
    found = tables(
        step(1, 0, 1000),
        operation(around, 20, 10),
        *work(1, "gemm", 106, 300),
        *work(2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 500, 300, by="c10d::allreduce_"),
    )

    assert remedy in advised(found)["communication"]


def test_what_the_host_does_to_launch_an_exchange_is_not_exposed_and_gloos_is() -> None:
    def exposed(*events: RawEvent) -> float:
        row = only(tables(step(1, 0, 1000), *work(1, "gemm", 106, 300), *events), STEPS)
        return float(row["exposed_communication_ms"])

    nccl = work(2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 600, 100, by="nccl:all_reduce")
    assert exposed(*nccl) == pytest.approx(0.1)
    assert exposed(*nccl, operation("gloo:all_reduce", 800, 50)) == pytest.approx(0.15)
