"""Names of kernels tell their library and whether they run on tensor cores, or that they do not tell it."""

from pathlib import Path

import pytest

from gpu_report.traces.kernels import UNKNOWN, library_of, on_tensor_cores
from gpu_report.traces.reading import read_trace

FIXTURES = sorted((Path(__file__).parents[2] / "data" / "traces").glob("*.gz"))

KERNELS = [
    ("Memcpy HtoD (Pageable -> Device)", "driver", "no"),
    ("Memset (Device)", "driver", "no"),
    ("memcpy32_post", "driver", "no"),
    ("CopyHostToDevice", "driver", "no"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", "NCCL", "no"),
    ("triton_poi_fused__native_batch_norm_legit_functional_relu_3", "Triton", "no"),
    ("triton_red_fused_convolution_backward_2", "Triton", "no"),
    ("triton_tem_fused_mm_native_batch_norm_1", "Triton", UNKNOWN),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array", "native", "no"),
    ("void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<at_cuda", "native", "no"),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 7, true, false>", "native", "no"),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false>", "native", "yes"),
    ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float)", "cuDNN", "no"),
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
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816wgrad_optimized_bf16_256x64_32x4_nhwc_align8>",
        "cuDNN",
        "yes",
    ),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64", "cuDNN", "yes"),
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
        "std::enable_if<true, void>::type internal::gemvx::kernel<int, int, float, cublasGemvTensorBatched>",
        "cuBLAS",
        "no",
    ),
    ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_nn_align4>", "CUTLASS", "yes"),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nt_align1>", "CUTLASS", "no"),
    ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel", "CUTLASS", "yes"),
    ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel", "CUTLASS", UNKNOWN),
    ("Cijk_Ailk_Bljk_HHS_BH_MT128x64x32_SE", "rocBLAS", UNKNOWN),
    ("MIOpenConvUni.kd miopenSp3AsmConv", "MIOpen", UNKNOWN),
    ("my_own_kernel(float*)", UNKNOWN, UNKNOWN),
]


@pytest.mark.parametrize(("name", "library", "tensor_cores"), KERNELS)
def test_a_kernels_name_tells_its_library_and_whether_it_uses_tensor_cores(
    name: str, library: str, tensor_cores: str
) -> None:
    assert (library_of(name), on_tensor_cores(name)) == (library, tensor_cores)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name.partition(".")[0])
def test_in_our_traces_every_kernel_has_a_library_and_most_of_the_time_is_told_on_which_cores(path: Path) -> None:
    trace = read_trace(path)
    runs = [
        (trace.names[name], duration_ns)
        for name, duration_ns in zip(trace.work.name.tolist(), trace.work.duration_ns.tolist(), strict=True)
    ]

    untold_ns = sum(duration_ns for name, duration_ns in runs if on_tensor_cores(name) == UNKNOWN)

    assert {name for name, _ in runs if library_of(name) == UNKNOWN} == set()
    assert untold_ns < 0.03 * sum(duration_ns for _, duration_ns in runs)
