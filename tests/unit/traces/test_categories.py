"""Names of operations and kernels, as found in real traces, fall into the category a reader
expects.
"""

import numpy as np
import pytest

from gpu_report.traces.attribution import CATEGORY_NAMES, attribute_device, attribute_host
from gpu_report.traces.categories import CATEGORIES, OTHER, category_by_itself, category_by_name
from gpu_report.traces.reading import read_trace
from gpu_report.traces.trace import Flags, Integers, Spans, Trace
from tests.unit.traces.by_hand import (
    FIXTURES,
    MAIN,
    kernel,
    launch,
    operation,
    recorded,
    span,
    step,
    trace_of,
)
from tests.unit.traces.conftest import RecordedTrace

EXPECTED = {
    "convolution": [
        "aten::conv2d",
        "aten::_convolution",
        "aten::mkldnn_convolution",
        "aten::cudnn_convolution_transpose",
        "autograd::engine::evaluate_function: ConvolutionBackward0",
        "sm90_xmma_wgrad_indexed_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32",
        "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>",
        "sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_cudnn",
        "void "
        "cask_plugin__5x_cudnn::xmma__5x_cudnn::init_device_workspace_kernel<xmma__5x_cudnn::dgrad>",
        "void nhwcAddPaddingKernel<__nv_bfloat16, __nv_bfloat16, float, true, "
        "(cudnnKernelDataType_t)0>",
        "miopenSp3AsmConv_v21_1_3_gfx9_fp32_stride1",
        "triton_tem_fused_convolution_3",
    ],
    "matrix product": [
        "aten::mm",
        "aten::addmm",
        "aten::bmm",
        "aten::linear",
        "aten::matmul",
        "AddmmBackward0",
        "MmBackward0",
        "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(Params)",
        "void sgemm_largek_lds64<true, false, 5, 5, 4, 4, 4, 34>(float*)",
        "nvjet_sm90_tst_512x64_64x2_2x1_v_ssched_bz_coopB_NTN",
        "triton_tem_fused_addmm_0",
        "Cijk_Ailk_Bljk_SB_MT64x64x16",
    ],
    "recurrent": [
        "aten::lstm",
        "aten::_cudnn_rnn_backward",
        "aten::mkldnn_rnn_layer",
        "aten::gru",
        "CudnnRnnBackward0",
        "void elemWiseRNNcell<float, float, float, (cudnnRNNMode_t)2>",
        "void LSTM_elementWise_bp1<float, float, float>(int, int)",
        "void GENERIC_elementWise_bp2<float, float, float, 4>",
    ],
    "attention": [
        "aten::scaled_dot_product_attention",
        "aten::_flash_attention_forward",
        "flash_fwd_kernel",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0",
        "void cudnn::fusion::compute_dot_do_o<true>(void const*, void const*, void*)",
    ],
    "normalisation": [
        "aten::native_batch_norm_backward",
        "aten::layer_norm",
        "NativeGroupNormBackward0",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>",
    ],
    "activation": [
        "aten::relu_",
        "aten::clamp_min_",
        "aten::threshold_backward",
        "aten::_log_softmax",
        "aten::dropout",
    ],
    "elementwise": [
        "aten::add_",
        "aten::mul",
        "aten::randn",
        "torch::autograd::AccumulateGrad",
        "aten::addcdiv_",
        "triton_poi_fused_12",
        "triton_poi_fused_convolution_3",
    ],
    "reduction": [
        "aten::sum",
        "aten::mean",
        "MeanBackward1",
        "aten::argmax",
        "triton_red_fused_5",
        "triton_per_fused_convolution_backward_2",
        "void "
        "at_cuda_detail::cub::detail::scan::DeviceScanKernel<at_cuda_detail::cub::detail::scan::policy_hub<long>>",
    ],
    "pooling": [
        "aten::max_pool2d_with_indices",
        "AdaptiveAvgPool2DBackward0",
        "aten::upsample_bilinear2d",
    ],
    "embedding": [
        "aten::embedding_dense_backward",
        "EmbeddingBackward0",
        "void at::native::(anonymous namespace)::krn_partials_per_segment<long>(long*, long "
        "const*, long const*, long)",
    ],
    "optimizer": ["aten::_foreach_addcdiv_", "aten::_fused_adamw_", "Optimizer.step#Adam.step"],
    "loss": [
        "aten::nll_loss2d_forward",
        "aten::cross_entropy_loss",
        "aten::mse_loss",
        "NllLossBackward0",
    ],
    "data loading": ["enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"],
    "copy": [
        "aten::copy_",
        "torch.distributed.ddp.reducer::copy_bucket_to_grad",
        "aten::unflatten_dense_tensors",
        "aten::cat",
        "aten::fill_",
        "aten::item",
        "Memcpy HtoD (Pinned -> Device)",
        "CatBackward0",
        "memset32",
        "memcpy32_post",
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, "
        "long, long, long, bool)",
    ],
    "communication": [
        "nccl:all_reduce",
        "c10d::allreduce_",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
    ],
    "runtime": ["cudaLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel", "cudaStreamSynchronize"],
    None: ["aten::empty", "aten::view", "aten::as_strided", "detach", "TBackward0", "my_operation"],
}


@pytest.mark.parametrize("category", EXPECTED)
def test_a_name_falls_into_its_category(category: str | None) -> None:
    assert {name: category_by_name(name) for name in EXPECTED[category]} == dict.fromkeys(
        EXPECTED[category], category
    )


NAMES_BY_THEMSELVES = {
    "copy": [
        "aten::view",
        "aten::_unsafe_view",
        "aten::transpose",
        "aten::select_backward",
        "aten::empty_strided",
        "TBackward0",
        "autograd::engine::evaluate_function: UnsafeViewBackward0",
        "autograd::engine::evaluate_function: TransposeBackward0",
        "detach",
    ],
    "dispatch": [
        "Torch-Compiled Region: 0/0",
        "CompiledFunction",
        "autograd::engine::evaluate_function: CompiledFunctionBackward",
        "TorchDynamo Cache Lookup",
        "## Call CompiledFxGraph fxyz",
        "autograd::engine::evaluate_function: MyFunctionBackward",
    ],
    None: ["my_operation", "review", "SplitterBackwardPass", "aten::record_stream"],
}


@pytest.mark.parametrize(
    ("name", "category"),
    [(name, category) for category, names in NAMES_BY_THEMSELVES.items() for name in names],
)
def test_a_name_that_shows_nothing_has_a_category_by_itself(
    name: str, category: str | None
) -> None:
    assert category_by_name(name) is None
    assert category_by_itself(name) == category


def test_every_category_but_other_has_names_that_fall_into_it() -> None:
    assert {*EXPECTED, *NAMES_BY_THEMSELVES} - {None} == set(CATEGORIES) - {OTHER}


def test_only_calls_into_the_driver_are_runtime() -> None:
    for path in FIXTURES.glob("*.gz"):
        calls = attribute_host(read_trace(path))
        assert (calls.is_driver_call[calls.category == CATEGORY_NAMES.index("runtime")]).all(), (
            path.name
        )


def test_a_view_takes_the_category_of_the_operation_it_runs_in_and_its_own_outside_of_all() -> None:
    trace = trace_of(
        step(1, 0, 100),
        operation("aten::linear", 0, 10),
        operation("aten::t", 2, 5),
        operation("aten::transpose", 3, 3),
        operation("aten::reshape", 20, 10),
        operation("my_view", 22, 5),
        operation("my_operation", 40, 10),
    )
    calls = attribute_host(trace)

    assert [CATEGORY_NAMES[number] for number in calls.category] == [
        *3 * ["matrix product"],
        *2 * ["copy"],
        "other",
    ]


def test_a_driver_call_whose_name_the_profiler_did_not_know_is_one_of_the_runtime() -> None:
    unknown = span("cuda_runtime", "INVALID", 20, 5, on=MAIN, correlation=7)
    trace = trace_of(step(1, 0, 100), operation("my_operation", 10, 50), unknown)

    assert [CATEGORY_NAMES[number] for number in attribute_host(trace).category] == [
        "other",
        "runtime",
    ]


def test_a_kernel_of_compiled_code_counts_by_its_own_name() -> None:
    trace = trace_of(
        step(1, 0, 100),
        operation("CompiledFunction", 0, 50),
        launch(1, 5),
        kernel("triton_red_fused_native_batch_norm_1", 10, 5, correlation=1),
    )
    work = attribute_device(trace, attribute_host(trace))

    assert [CATEGORY_NAMES[number] for number in work.category] == ["normalisation"]


OTHER_NAMES: dict[str, set[str]] = {
    "unet_cuda": set(),
    "lstm_cuda": set(),
    "transformer_fp16_cuda": set(),
    "unet_compiled_cuda": set(),
    "unet_graph_cuda": set(),
    "ddp_cuda": set(),
}
"""What is other in each trace; a name that joins has a rule missing, or is written down here."""


@pytest.mark.parametrize(("fixture", "names"), OTHER_NAMES.items())
def test_the_names_that_are_other_are_known(fixture: str, names: set[str]) -> None:
    trace = recorded(fixture)

    assert names_of_other(trace) == names


def test_every_trace_for_the_tests_has_its_names_that_are_other_written_down() -> None:
    assert {path.name.split(".")[0] for path in FIXTURES.glob("*.gz")} == set(OTHER_NAMES)


@pytest.mark.parametrize("fixture", OTHER_NAMES)
def test_little_of_a_gpu_trace_is_other(fixture: str) -> None:
    assert largest_other_share(recorded(fixture)) < 0.03


def test_little_of_a_cpu_trace_is_other(recorded_trace: RecordedTrace) -> None:
    assert largest_other_share(read_trace(recorded_trace.path)) < 0.03


def times_by_category(trace: Trace) -> list[tuple[Spans, Integers, Flags]]:
    """Of the host and of the device: the events, the time that counts of each, and which
    are other.
    """
    calls = attribute_host(trace)
    work = attribute_device(trace, calls)
    other = CATEGORY_NAMES.index(OTHER)
    host = calls.spans.chosen(calls.in_step)
    return [
        (host, calls.self_ns[calls.in_step], calls.category[calls.in_step] == other),
        (work.spans, work.spans.duration_ns, work.category == other),
    ]


def names_of_other(trace: Trace) -> set[str]:
    return {
        trace.names[name]
        for spans, _, is_other in times_by_category(trace)
        for name in np.unique(spans.name[is_other])
    }


def largest_other_share(trace: Trace) -> float:
    return max(
        float(time_ns[is_other].sum() / time_ns.sum())
        for _, time_ns, is_other in times_by_category(trace)
        if time_ns.any()
    )
