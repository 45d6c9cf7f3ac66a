"""The kernels of a trace: times, delays, launch sizes and origins, and what their names show."""

from pathlib import Path
from typing import Any

import pytest

from gpu_report.traces.kernels import (
    UNKNOWN,
    copy_kind,
    copy_rows,
    kernel_rows,
    library_of,
    on_tensor_cores,
)
from gpu_report.traces.reading import read_trace
from tests.unit.traces.by_hand import (
    FIXTURES,
    MAIN,
    STREAM,
    RawEvent,
    kernel,
    launch,
    made_by,
    operation,
    recorded,
    span,
    step,
    trace_of,
)

Row = dict[str, Any]


def run(name: str, start_us: float, duration_us: float, correlation: int, **more: Any) -> RawEvent:
    event = kernel(name, start_us, duration_us, correlation=correlation)
    event["args"].update(more)
    return event


def test_a_row_holds_all_that_the_trace_says_of_a_kernel() -> None:
    gemm = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4>"
    sizes = {"grid": [4, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 25}
    trace = trace_of(
        step(1, 0, 9000),
        span("python_function", "train.py(80): main", 0, 9000, on=MAIN),
        span("python_function", "nn.Module: Linear_0", 0, 3000, on=MAIN),
        operation("aten::mm", 0, 1000),
        launch(1, 10, 2),
        launch(2, 20, 2),
        launch(3, 30, 2),
        run(gemm, 20, 10, 1, **sizes),
        run(gemm, 40, 30, 2, **sizes),
        run(gemm, 80, 20, 3, **{**sizes, "grid": [8, 1, 1], "est. achieved occupancy %": 75}),
    )

    assert made_by(kernel_rows, trace) == [
        {
            "name": gemm,
            "category": "matrix product",
            "calls": 3,
            "total_ms": 0.06,
            "mean_us": 20.0,
            "share": 1.0,
            "p10_us": 10.0,
            "median_us": 20.0,
            "p90_us": 30.0,
            "launch_delay_us": 18.0,
            "library": "CUTLASS",
            "tensor_cores": "yes",
            "grid": "[4, 1, 1]",
            "block": "[128, 1, 1]",
            "occupancy": 0.25,
            "operation": "aten::mm",
            "module": "Linear_0",
            "source": "train.py(80): main",
        }
    ]


def test_what_the_trace_does_not_say_is_missing() -> None:
    (row,) = made_by(kernel_rows, trace_of(step(1, 0, 9000), kernel("k", 10, 1, correlation=4)))

    assert (row["launch_delay_us"], row["occupancy"]) == (None, None)
    assert [row[column] for column in ("grid", "block", "operation", "module", "source")] == [
        ""
    ] * 5


def test_a_kernel_that_starts_before_its_launch_returns_has_not_waited() -> None:
    events = (
        step(1, 0, 9000),
        operation("aten::mm", 0, 100),
        launch(1, 10, 50),
        kernel("k", 20, 5, correlation=1),
    )

    (row,) = made_by(kernel_rows, trace_of(*events))

    assert row["launch_delay_us"] == 0.0


def test_a_kernel_that_two_kinds_of_operation_launch_is_in_two_rows() -> None:
    rows = made_by(
        kernel_rows,
        trace_of(
            step(1, 0, 20_000),
            operation("aten::add", 0, 1000),
            launch(1, 100),
            operation("aten::_foreach_add_", 2000, 1000),
            launch(2, 2100),
            kernel("elementwise_kernel", 5000, 1000, correlation=1),
            kernel("elementwise_kernel", 7000, 3000, correlation=2),
        ),
    )

    assert [(row["category"], row["calls"], row["total_ms"], row["share"]) for row in rows] == [
        ("optimizer", 1, 3.0, 0.75),
        ("elementwise", 1, 1.0, 0.25),
    ]


def test_the_operation_that_launched_most_time_is_named_even_if_another_launched_more() -> None:
    (row,) = made_by(
        kernel_rows,
        trace_of(
            step(1, 0, 20_000),
            span("python_function", "nn.Module: Often_0", 0, 1000, on=MAIN),
            operation("aten::add", 0, 900),
            launch(1, 100),
            launch(2, 200),
            span("python_function", "nn.Module: Long_0", 2000, 1000, on=MAIN),
            operation("aten::mul", 2000, 900),
            launch(3, 2100),
            kernel("elementwise_kernel", 5000, 10, correlation=1),
            kernel("elementwise_kernel", 6000, 10, correlation=2),
            kernel("elementwise_kernel", 7000, 30, correlation=3),
        ),
    )

    assert (row["operation"], row["module"]) == ("aten::mul", "Long_0")


def test_the_most_frequent_launch_is_one_pair_of_grid_and_block() -> None:
    pairs = [
        ([1, 1, 1], [64, 1, 1]),
        ([2, 1, 1], [32, 1, 1]),
        ([2, 1, 1], [64, 1, 1]),
        ([1, 1, 1], [64, 1, 1]),
    ]
    runs = [
        run("k", 10 * number, 1, number, grid=grid, block=block)
        for number, (grid, block) in enumerate(pairs, start=1)
    ]

    (row,) = made_by(kernel_rows, trace_of(step(1, 0, 9000), *runs))

    assert (row["grid"], row["block"]) == ("[1, 1, 1]", "[64, 1, 1]")


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_kernels_of_real_layers_come_from_their_module_forward_and_backward(fixture: str) -> None:
    rows = made_by(kernel_rows, recorded(fixture))

    modules = {
        row["operation"]: row["module"].rpartition("_")[0]
        for row in rows
        if row["category"] != "optimizer"
    }

    layer = {
        "aten::cudnn_convolution": "Conv2d",
        "aten::convolution_backward": "Conv2d",
        "aten::cudnn_batch_norm": "BatchNorm2d",
        "aten::cudnn_batch_norm_backward": "BatchNorm2d",
        "aten::_cudnn_rnn": "LSTM",
        "aten::_cudnn_rnn_backward": "LSTM",
    }
    found = {operation: module for operation, module in modules.items() if operation in layer}
    assert found
    assert found == {operation: layer[operation] for operation in found}
    assert {row["source"].rpartition(": ")[2] for row in rows if row["module"]} == {"forward"}


KERNELS = [
    ("Memcpy HtoD (Pageable -> Device)", "driver", "no"),
    ("Memset (Device)", "driver", "no"),
    ("memcpy32_post", "driver", "no"),
    ("CopyHostToDevice", "driver", "no"),
    (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
        "NCCL",
        "no",
    ),
    ("triton_poi_fused__native_batch_norm_legit_functional_relu_3", "Triton", "no"),
    ("triton_red_fused_convolution_backward_2", "Triton", "no"),
    ("triton_tem_fused_mm_native_batch_norm_1", "Triton", UNKNOWN),
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
        "std::array",
        "native",
        "no",
    ),
    (
        "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<at_cuda",
        "native",
        "no",
    ),
    (
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 7, true, false>",
        "native",
        "no",
    ),
    (
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false>",
        "native",
        "yes",
    ),
    (
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float)",
        "cuDNN",
        "no",
    ),
    ("void wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int, int, int)", "cuDNN", "no"),
    ("void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*, int)", "cuDNN", "no"),
    ("void LSTM_elementWise_bp1<float, float, float>(int, int, float*)", "cuDNN", "no"),
    (
        "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize256x64x8_stage3_warpsize2x2x1_g1_ffma_"
        "aligna4_alignc4_execute_kernel__5x_cudnn",
        "cuDNN",
        "no",
    ),
    (
        "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1_g1_"
        "execute_segment_k_off_kernel__5x_cudnn",
        "cuDNN",
        "yes",
    ),
    (
        "void "
        "cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816wgrad_optimized_bf16_256x64_32x4_nhwc_align8>",
        "cuDNN",
        "yes",
    ),
    (
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64",
        "cuDNN",
        "yes",
    ),
    (
        "sm80_xmma_gemm_cf32cf32_f32f32_cf32_nt_n_tilesize64x64x8_stage3_warpsize2x2x1_ffma_aligna8_alignc8_"
        "execute_kernel__5x_cublas",
        "cuBLAS",
        "no",
    ),
    (
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize32x32x64_stage3_warpsize2x2x1_tensor16x8x8_aligna4_alignc4_"
        "execute_kernel__5x_cublas",
        "cuBLAS",
        "yes",
    ),
    (
        "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__"
        "5x_cublas",
        "cuBLAS",
        "yes",
    ),
    ("nvjet_sm90_hsh_64x8_64x16_2x4_h_bz_NNT", "cuBLAS", "yes"),
    ("ampere_sgemm_128x64_tn", "cuBLAS", "no"),
    ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "cuBLAS", "yes"),
    ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "cuBLAS", "yes"),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "cuBLAS", "yes"),
    ("volta_h884gemm_64x128_ldg8_tn", "cuBLAS", "yes"),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float>", "cuBLAS", "no"),
    (
        "std::enable_if<true, void>::type internal::gemvx::kernel<int, int, float, "
        "cublasGemvTensorBatched>",
        "cuBLAS",
        "no",
    ),
    ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4>", "CUTLASS", "yes"),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nt_align1>", "CUTLASS", "no"),
    (
        "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel",
        "CUTLASS",
        "yes",
    ),
    (
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel",
        "CUTLASS",
        UNKNOWN,
    ),
    ("Cijk_Ailk_Bljk_HHS_BH_MT128x64x32_SE", "rocBLAS", UNKNOWN),
    ("MIOpenConvUni.kd miopenSp3AsmConv", "MIOpen", UNKNOWN),
    ("my_own_kernel(float*)", UNKNOWN, UNKNOWN),
]


@pytest.mark.parametrize(("name", "library", "tensor_cores"), KERNELS)
def test_a_kernels_name_shows_its_library_and_whether_it_uses_tensor_cores(
    name: str, library: str, tensor_cores: str
) -> None:
    assert (library_of(name), on_tensor_cores(name)) == (library, tensor_cores)


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*.gz")), ids=lambda path: path.name.partition(".")[0]
)
def test_in_our_traces_every_kernel_has_a_library_and_most_of_the_time_is_reported_on_which_cores(
    path: Path,
) -> None:
    trace = read_trace(path)
    runs = [
        (trace.names[name], duration_ns)
        for name, duration_ns in zip(
            trace.work.name.tolist(), trace.work.duration_ns.tolist(), strict=True
        )
    ]

    untold_ns = sum(duration_ns for name, duration_ns in runs if on_tensor_cores(name) == UNKNOWN)

    assert {name for name, _ in runs if library_of(name) == UNKNOWN} == set()
    assert untold_ns < 0.03 * sum(duration_ns for _, duration_ns in runs)


@pytest.mark.parametrize(
    ("name", "direction", "host_memory"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "to device", "pinned"),
        ("Memcpy HtoD (Pageable -> Device)", "to device", "pageable"),
        ("Memcpy HtoA (Pageable -> Array)", "to device", "pageable"),
        ("Memcpy HtoD (Managed -> Device)", "to device", "managed"),
        ("Memcpy HtoD (Host -> Device)", "to device", "unknown"),
        ("Memcpy DtoH (Device -> Pinned)", "to host", "pinned"),
        ("Memcpy DtoH (Device -> Pageable)", "to host", "pageable"),
        ("Memcpy DtoD (Device -> Device)", "within device", ""),
        ("Memcpy PtoP (Device -> Device)", "between devices", ""),
        ("Memcpy HtoH (Pageable -> Pageable)", "within host", "pageable"),
        ("CopyHostToDevice", "to device", "unknown"),
        ("CopyDeviceToHost", "to host", "unknown"),
        ("CopyDeviceToDevice", "within device", ""),
        ("hipMemcpyHostToDevice", "to device", "unknown"),
        ("Memcpy M2D", "to device", "unknown"),
        ("Memcpy D2M", "to host", "unknown"),
        ("Memcpy <unknown> (Unknown -> Unknown)", "unknown", "unknown"),
    ],
)
def test_a_copys_name_shows_its_direction_and_the_kind_of_host_memory(
    name: str, direction: str, host_memory: str
) -> None:
    assert copy_kind(name) == (direction, host_memory)


def copy(name: str, number: int, duration_us: float, **arguments: int) -> tuple[RawEvent, RawEvent]:
    work = span(
        "gpu_memcpy", name, 10 * number, duration_us, on=STREAM, correlation=number, **arguments
    )
    return launch(number, 5), work


def rows_of_copies(*copies: tuple[RawEvent, RawEvent]) -> list[dict[str, Any]]:
    events = [event for pair in copies for event in pair]
    trace = trace_of(
        step(1, 0, 1000), *events, launch(99, 5), kernel("gemm", 900, 1, correlation=99)
    )
    return made_by(copy_rows, trace)


def test_copies_of_one_kind_are_one_row_whatever_their_names_the_longest_first() -> None:
    upload = "Memcpy HtoD (Pinned -> Device)"

    rows = rows_of_copies(
        copy("Memcpy DtoH (Device -> Pageable)", 1, 1, bytes=2**20),
        copy(upload, 2, 2, bytes=2**20),
        copy(upload, 3, 6, bytes=3 * 2**20),
    )

    assert rows == [
        {
            "direction": "to device",
            "host_memory": "pinned",
            "copies": 2,
            "size_mib": 4.0,
            "total_ms": 0.008,
            "gb_per_s": 4 * 2**20 / 8000,
        },
        {
            "direction": "to host",
            "host_memory": "pageable",
            "copies": 1,
            "size_mib": 1.0,
            "total_ms": 0.001,
            "gb_per_s": 2**20 / 1000,
        },
    ]


def test_a_size_that_is_not_written_leaves_size_and_rate_missing() -> None:
    row, *others = rows_of_copies(
        copy("CopyHostToDevice", 1, 1, bytes=8), copy("CopyHostToDevice", 2, 1)
    )

    assert not others
    assert (row["copies"], row["size_mib"], row["gb_per_s"]) == (2, None, None)


def test_a_copy_that_took_no_time_has_no_rate() -> None:
    (row,) = rows_of_copies(copy("CopyHostToDevice", 1, 0, bytes=2**20))

    assert (row["size_mib"], row["gb_per_s"]) == (1.0, None)


def test_kernels_are_no_copies() -> None:
    assert rows_of_copies() == []
