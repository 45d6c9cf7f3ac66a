"""Names of operations and kernels, as found in real traces, fall into the category a reader
expects.
"""

from pathlib import Path

import pytest

from gpu_report.traces.attribution import CATEGORY_NAMES, attribute_device, attribute_host
from gpu_report.traces.categories import CATEGORIES, OTHER, category_by_itself, category_by_name
from gpu_report.traces.reading import read_trace
from tests.unit.traces.by_hand import FIXTURES

EXPECTED = {
    "convolution": [
        "aten::mkldnn_convolution",
        "sm90_xmma_wgrad_indexed_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32",
        "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>",
        "sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_cudnn",
        "void cask_plugin__5x_cudnn::xmma__5x_cudnn::init_device_workspace_kernel<dgrad>",
        "miopenSp3AsmConv_v21_1_3_gfx9_fp32_stride1",
        "triton_tem_fused_convolution_3",
    ],
    "matrix product": [
        "aten::bmm",
        "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(Params)",
        "void sgemm_largek_lds64<true, false, 5, 5, 4, 4, 4, 34>(float*)",
        "triton_tem_fused_addmm_0",
        "Cijk_Ailk_Bljk_SB_MT64x64x16",
    ],
    "recurrent": [
        "aten::mkldnn_rnn_layer",
        "aten::gru",
        "void elemWiseRNNcell<float, float, float, (cudnnRNNMode_t)2>",
        "void LSTM_elementWise_bp1<float, float, float>(int, int)",
        "void GENERIC_elementWise_bp2<float, float, float, 4>",
    ],
    "attention": [
        "aten::_flash_attention_forward",
        "flash_fwd_kernel",
        "void cudnn::fusion::compute_dot_do_o<true>(void const*, void const*, void*)",
    ],
    "normalisation": ["aten::native_batch_norm_backward", "NativeGroupNormBackward0"],
    "activation": ["aten::relu_"],
    "elementwise": ["aten::randn", "aten::addcdiv_", "triton_poi_fused_convolution_3"],
    "reduction": [
        "aten::argmax",
        "triton_per_fused_convolution_backward_2",
        "void at_cuda_detail::cub::detail::scan::DeviceScanKernel<at_cuda_detail::cub::detail>",
    ],
    "pooling": ["aten::upsample_bilinear2d"],
    "embedding": ["aten::embedding_dense_backward"],
    "optimizer": ["aten::_fused_adamw_", "Optimizer.step#Adam.step"],
    "loss": ["aten::mse_loss"],
    "data loading": ["enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"],
    "copy": ["aten::unflatten_dense_tensors", "memcpy32_post"],
    "communication": ["nccl:all_reduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"],
    "runtime": ["hipLaunchKernel"],
    None: ["my_operation"],
}


@pytest.mark.parametrize("category", EXPECTED)
def test_a_name_falls_into_its_category(category: str | None) -> None:
    assert {name: category_by_name(name) for name in EXPECTED[category]} == dict.fromkeys(
        EXPECTED[category], category
    )


NAMES_BY_THEMSELVES = {
    "copy": ["aten::view", "TBackward0", "detach"],
    "dispatch": ["Torch-Compiled Region: 0/0", "CompiledFunction", "TorchDynamo Cache Lookup"],
    None: ["my_operation", "review", "SplitterBackwardPass", "aten::record_stream"],
}


def test_a_name_that_shows_nothing_has_a_category_by_itself() -> None:
    for category, names in NAMES_BY_THEMSELVES.items():
        assert [category_by_name(name) for name in names] == [None] * len(names)
        assert [category_by_itself(name) for name in names] == [category] * len(names)


def test_every_category_but_other_has_names_that_fall_into_it() -> None:
    assert {*EXPECTED, *NAMES_BY_THEMSELVES} - {None} == set(CATEGORIES) - {OTHER}


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.gz")), ids=lambda path: path.name)
def test_no_name_of_a_recorded_trace_is_other_and_only_driver_calls_are_runtime(path: Path) -> None:
    trace = read_trace(path)
    calls = attribute_host(trace)
    work = attribute_device(trace, calls)
    other, runtime = (CATEGORY_NAMES.index(name) for name in (OTHER, "runtime"))

    names = [*calls.spans.name[calls.in_step & (calls.category == other)]]
    names += [*work.name[work.category == other]]
    assert {trace.names[name] for name in names} == set()
    assert calls.is_driver_call[calls.category == runtime].all()
