"""Names of operations and kernels, as found in real traces, fall into the category a reader expects."""

from pathlib import Path

import pandas as pd
import pytest

from gpu_report.traces import read_trace, tabulate_trace
from gpu_report.traces.categories import CATEGORIES, OTHER, category_by_name
from tests.unit.traces.conftest import RecordedTrace

FIXTURES = Path(__file__).parents[2] / "data" / "traces"

EXPECTED = {
    "convolution": [
        "aten::conv2d",
        "aten::_convolution",
        "aten::mkldnn_convolution",
        "aten::cudnn_convolution_transpose",
        "autograd::engine::evaluate_function: ConvolutionBackward0",
        "sm90_xmma_wgrad_indexed_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32",
        "void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>",
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
    "attention": ["aten::scaled_dot_product_attention", "aten::_flash_attention_forward", "flash_fwd_kernel"],
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
    "elementwise": ["aten::add_", "aten::mul", "aten::randn", "torch::autograd::AccumulateGrad", "aten::addcdiv_"],
    "reduction": ["aten::sum", "aten::mean", "MeanBackward1", "aten::argmax"],
    "pooling": ["aten::max_pool2d_with_indices", "AdaptiveAvgPool2DBackward0", "aten::upsample_bilinear2d"],
    "embedding": ["aten::embedding_dense_backward", "EmbeddingBackward0"],
    "optimizer": ["aten::_foreach_addcdiv_", "aten::_fused_adamw_", "Optimizer.step#Adam.step"],
    "loss": ["aten::nll_loss2d_forward", "aten::cross_entropy_loss", "aten::mse_loss", "NllLossBackward0"],
    "data loading": ["enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"],
    "copy": ["aten::copy_", "aten::cat", "aten::fill_", "aten::item", "Memcpy HtoD (Pinned -> Device)", "CatBackward0"],
    "communication": ["nccl:all_reduce", "c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"],
    "runtime": ["cudaLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel", "cudaStreamSynchronize"],
    None: ["aten::empty", "aten::view", "aten::as_strided", "detach", "TBackward0", "my_operation"],
}


@pytest.mark.parametrize(
    ("name", "category"), [(name, category) for category, names in EXPECTED.items() for name in names]
)
def test_a_name_falls_into_its_category(name: str, category: str | None) -> None:
    assert category_by_name(name) == category


def test_every_category_but_other_has_names_that_fall_into_it() -> None:
    assert set(EXPECTED) - {None} == set(CATEGORIES) - {OTHER}


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_little_of_a_gpu_trace_is_other(fixture: str) -> None:
    assert largest_other_share(FIXTURES / f"{fixture}.pt.trace.json.gz") < 0.05


def test_little_of_a_cpu_trace_is_other(recorded_trace: RecordedTrace) -> None:
    assert largest_other_share(recorded_trace.path) < 0.05


def largest_other_share(path: Path) -> float:
    categories: pd.DataFrame = tabulate_trace(read_trace(path)).categories
    return max(categories.loc[categories["category"] == OTHER, "share"], default=0.0)
