"""The kernels of a trace: times, delays, launch sizes and origins, and what their names show."""

from typing import Any

import pytest

from gpu_report.traces.kernels import UNKNOWN, library_of, on_tensor_cores
from gpu_report.traces.vendors import copy_kind

Row = dict[str, Any]


KERNELS = [
    ("CopyHostToDevice", "driver", "no"),
    (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
        "NCCL",
        "no",
    ),
    ("triton_tem_fused_mm_native_batch_norm_1", "Triton", UNKNOWN),
    (
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false>",
        "native",
        "yes",
    ),
    (
        "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "cuBLAS",
        "yes",
    ),
    ("nvjet_sm90_hsh_64x8_64x16_2x4_h_bz_NNT", "cuBLAS", "yes"),
    ("ampere_sgemm_128x64_tn", "cuBLAS", "no"),
    (
        "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel",
        "CUTLASS",
        "yes",
    ),
    ("Cijk_Ailk_Bljk_HHS_BH_MT128x64x32_SE", "rocBLAS", UNKNOWN),
    ("my_own_kernel(float*)", UNKNOWN, UNKNOWN),
]


@pytest.mark.parametrize(("name", "library", "tensor_cores"), KERNELS)
def test_a_kernels_name_shows_its_library_and_whether_it_uses_tensor_cores(
    name: str, library: str, tensor_cores: str
) -> None:
    assert (library_of(name), on_tensor_cores(name)) == (library, tensor_cores)


@pytest.mark.parametrize(
    ("name", "direction", "host_memory"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "to device", "pinned"),
        ("Memcpy HtoD (Pageable -> Device)", "to device", "pageable"),
        ("Memcpy DtoD (Device -> Device)", "within device", ""),
        ("Memcpy PtoP (Device -> Device)", "between devices", ""),
        ("CopyHostToDevice", "to device", "unknown"),
        ("hipMemcpyHostToDevice", "to device", "unknown"),
        ("Memcpy <unknown> (Unknown -> Unknown)", "unknown", "unknown"),
    ],
)
def test_a_copys_name_shows_its_direction_and_the_kind_of_host_memory(
    name: str, direction: str, host_memory: str
) -> None:
    assert copy_kind(name) == (direction, host_memory)
