"""Which library a kernel comes from and whether it runs on tensor cores, as far as its name tells: ordered patterns.

Names of NVIDIA's and AMD's libraries and of PyTorch's own kernels, as the profiler writes them; the first to fit wins.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

UNKNOWN: Final = "unknown"
"""What no pattern knows."""

_LIBRARIES: Final[tuple[tuple[str, str], ...]] = (
    ("driver", r"^(?i:mem(cpy|set))|^Copy(Host|Device|Peer)\w*To|^FillBuffer|^__amd_rocclr_"),
    ("NCCL", r"(?i)[nr]ccl"),
    ("Triton", r"^triton_"),
    ("native", r"^(void )?(\w+ )?at(::native|::cuda|_cuda_detail)::"),
    ("cuDNN", r"(?i)cudnn"),
    ("MIOpen", r"(?i)miopen|^naive_conv|^igemm_(fwd|bwd|wrw)|^gcnAsm"),
    ("rocBLAS", r"^Cijk_|(?i:rocblas|hipblas)"),
    (
        "cuBLAS",
        r"(?i)cublas|^nvjet|gemv(x|NSP|2[TN])|^(void )?gemmS?N_|splitKreduce|^(void )?sgemm_|^(void )?gemm_kernel",
    ),
    ("cuBLAS", r"^(void )?(maxwell|volta|turing|ampere|hopper|sm\d\d)_\w*gemm|^void gemmk1_|^void dot_kernel"),
    ("cuDNN", r"[wd]grad\w*_(alg|engine|\d)|implicit_(con|gem)|precomputed_con|winograd|\bDSE::|\bfft2d_|flip_filter"),
    ("cuDNN", r"elementWise_[bf]p|elemWiseRNN|RNN_bidirectional|PersistRnn|pointwise_mult_and_sum_complex"),
    ("cuDNN", r"(?i)n(chw|hwc)To(Folded)?N|foldedNhwc|nhwcAddPadding|tensorTransformGeneric|[fdw](prop|grad)_"),
    ("CUTLASS", r"cutlass"),
    ("native", r"\(anonymous namespace\)::|pytorch_flash|flash_(fwd|bwd)|multi_tensor_apply|\bcub::"),
)

_ON_TENSOR_CORES: Final[tuple[tuple[str, str], ...]] = (
    (
        "no",
        r"^(?i:mem(cpy|set))|^Copy(Host|Device|Peer)|^FillBuffer|(?i:nccl)|_[fdh]fma_|simt|splitKreduce|ReduceSplitK",
    ),
    (
        "yes",
        r"tensor_?op|TensorOp|[hi]mma|wgmma|gmma|[hs]1688|[hs]16816|(h|s|i)884|i8816|i16832|nvjet|_tensor\d+x\d+x\d+",
    ),
    ("yes", r"xmma_\w*_(f16f16|bf16bf16|f32f32_tf32|tf32f32|e4m3|e5m2|i8i8)\w*_warpgroupsize"),
    ("yes", r"pytorch_flash|flash_(fwd|bwd)_(kernel|dot|splitkv)|fmha_cutlass[FB]_b?f16_aligned_\w+_sm(7[05]|80)"),
    (UNKNOWN, r"^triton_tem_|at::native::\S*(gemm|mma|mm_kernel|[aA]ttention)"),
    ("no", r"^(void )?at(::native|_cuda_detail)::"),
    ("no", r"(dgrad|wgrad_alg\d)_engine<float|pointwise_mult_and_sum_complex|flip_filter|scalePackedTensor"),
    ("no", r"(?<![a-z0-9])[sdcz]gemm|_[sdcz]gemm(?!\w*tensor)|^triton_(poi|per|red)_|winograd|\bfft2d_|\bDSE::|gemv"),
    ("no", r"elementwise_kernel|reduce_kernel|multi_tensor_apply|CatArray|softmax_warp|batch_norm|layer_norm|max_pool"),
    (
        "no",
        r"cudnn::bn_|(?i:n(chw|hwc)To(Folded)?N|foldedNhwcTo)|indexSelect|nll_loss|\bcub::|elementWise_[bf]p|elemWiseRNN",
    ),
)
"""`ffma` names multiply-adds on the ordinary cores, also in kernels whose `xmma` looks like that of tensor cores.
Numbers such as `s16816` are the shape of the tensor cores' instruction. Of what TorchInductor generates for Triton,
only its templates (`triton_tem`) multiply matrices."""


@cache
def library_of(kernel: str) -> str:
    """The name as the column `library` of KERNELS gives it.

    CUTLASS that stands inside cuDNN is cuDNN; RCCL, which bears NCCL's names, is NCCL.
    """
    return _first(_COMPILED_LIBRARIES, kernel)


@cache
def on_tensor_cores(kernel: str) -> str:
    """yes, no, or unknown."""
    return _first(_COMPILED_ON_TENSOR_CORES, kernel)


def _first(rules: Sequence[tuple[str, re.Pattern[str]]], kernel: str) -> str:
    return next((answer for answer, pattern in rules if pattern.search(kernel)), UNKNOWN)


_COMPILED_LIBRARIES: Final = tuple((library, re.compile(pattern)) for library, pattern in _LIBRARIES)
_COMPILED_ON_TENSOR_CORES: Final = tuple((answer, re.compile(pattern)) for answer, pattern in _ON_TENSOR_CORES)
