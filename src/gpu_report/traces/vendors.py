"""What NVIDIA, AMD and Intel call the same things in a trace, and what their devices compute in.

One table of names per vendor, which categories, waits, libraries, quality checks and advice read.
Traces of AMD's devices use CUDA's kinds (`cuda_runtime`) with HIP's names.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

Rules = Sequence[tuple[str, re.Pattern[str]]]


def compiled(*rules: tuple[str, str]) -> Rules:
    """Answers with the patterns of names that they are given for."""
    return tuple((answer, re.compile(pattern)) for answer, pattern in rules)


def first_fit(name: str, rules: Rules) -> str | None:
    """The answer of the first pattern that fits the name; None where none fits."""
    return next((answer for answer, pattern in rules if pattern.search(name)), None)


VENDORS: Final[Mapping[str, Mapping[str, str]]] = {
    "NVIDIA": {
        "calls": r"(cuda|cu)[A-Z]\w+",
        "launching": r"(cuda|cu)\w*Launch(?!HostFunc)\w*",
        "replaying": r"(cuda|cu)GraphLaunch\w*",
        "waiting": r"(cuda|cu)(\w*Synchronize|Memcpy(?!\w*Async)\w*)",
        "allocating": r"(cuda(Malloc|MallocHost|HostAlloc|Free|FreeHost)|cuMem(Alloc|Free|Create"
        r"|Map|Unmap|Release|HostAlloc|AllocHost|FreeHost|SetAccess))(_\w+)?",
        "begins capture": r"(cuda|cu)StreamBeginCapture\w*",
        "ends capture": r"(cuda|cu)StreamEndCapture\w*",
        "copies": r"^(?i:memcpy)(\d+\w*)?\b",
        "fills": r"^(?i:memset)(\d+\w*)?\b",
    },
    "AMD": {
        "calls": r"hip[A-Z]\w+",
        "launching": r"hip\w*Launch(?!HostFunc)\w*",
        "replaying": r"hipGraphLaunch\w*",
        "waiting": r"hip(\w*Synchronize|Memcpy(?!\w*Async)\w*)",
        "allocating": r"hip(ExtMalloc\w*|Malloc|HostMalloc|HostAlloc|Free|HostFree|MemCreate|MemMap"
        r"|MemUnmap|MemRelease|MemSetAccess)(_\w+)?",
        "begins capture": r"hipStreamBeginCapture\w*",
        "ends capture": r"hipStreamEndCapture\w*",
        "copies": r"^MEMORY_COPY|^Copy(Host|Device|Peer)\w*To|^__amd_rocclr_copy",
        "fills": r"^MEMORY_FILL|^FillBuffer|^__amd_rocclr_fill",
    },
    "Intel": {
        "calls": r"(ze|ur)[A-Z]\w+",
        "launching": r"(ze|ur)\w*Launch\w*",
        "replaying": r"urCommandBufferEnqueue\w*",
        "waiting": r"ze\w*Synchronize|ur(QueueFinish|EventWait)",
        "allocating": r"zeMem(Alloc|Free)\w*|urUSM(Device|Host|Shared)?(Alloc|Free)\w*",
        "begins capture": r"urCommandBufferCreate\w*",
        "ends capture": r"urCommandBufferFinalize\w*",
        "copies": r"^(?i:memcpy)\b",
        "fills": r"^(?i:memset)\b",
    },
}
"""Patterns of whole names of driver calls: all of them, those that launch a kernel or a graph, that
replay a graph, that return only when the device is done (a copy that is not asynchronous waits:
CUDA Runtime API, "API synchronization behavior"), that take memory from the driver or give it back,
and between which launches run nothing, as a graph is captured. Then parts of names of what a
profiler may show as a kernel, and is a copy or a fill.
"""


NAMES: Final = {
    purpose: re.compile("|".join(f"(?:{names[purpose]})" for names in VENDORS.values()))
    for purpose in VENDORS["NVIDIA"]
}
"""The patterns of all vendors together, by what the calls are for."""

TO_DEVICE: Final = "to device"
_DIRECTIONS: Final = compiled(
    ("within host", r"\b[HM](to|2)[HM]\b|(?i:Host_?To_?Host)"),
    (TO_DEVICE, r"\b[HM](to|2)[DAP]\b|(?i:Host_?To_?(Device|Array|Peer))"),
    ("to host", r"\b[DAP](to|2)[HM]\b|(?i:(Device|Array|Peer)_?To_?Host)"),
    ("between devices", r"\bP(to|2)[DAP]\b|\b[DA](to|2)P\b|(?i:Peer_?To|To_?Peer)"),
    ("within device", r"\b[DA](to|2)[DA]\b|(?i:(Device|Array)_?To_?(Device|Array))"),
)
"""Of a copy by its name. An array (`A`) is on the device, `M` is the host's memory, `P` a peer's.

CUDA writes such as `Memcpy HtoD (Pinned -> Device)`, HIP also `CopyHostToDevice`, XPU `Memcpy M2D`.
"""


class CopyKind(NamedTuple):
    """What a copy's name says; both are as the table COPIES of kernels has them."""

    direction: str
    host_memory: str


def copy_kind(name: str) -> CopyKind:
    """What is known of a copy by its name."""
    direction = first_fit(name, _DIRECTIONS)
    if direction in ("between devices", "within device"):
        return CopyKind(direction, "")
    memory = re.search(r"(?i)pageable|pinned|managed", name)
    return CopyKind(direction or "unknown", memory[0].lower() if memory else "unknown")


PINNING: Final = re.compile(r"\w*Host\w*")
"""Of the calls for `allocating`, those for memory of the host: they hold up the thread that calls
them alone.
"""

COMMUNICATION: Final = re.compile(
    r"\b_?(nccl|rccl|oneccl)|\bx?ccl::|(?i:nvshmem|rocshmem|ishmem|mscclpp|deep_?ep\b)"
    r"|\bep::(internode|intranode)(_ll)?::|^vllm::(all_reduce|all_gather|reduce_scatter)\b"
    r"|multimem_(all|one_shot|reduce)|(one|two)_shot_all_?reduce|cross_device_reduce"
    r"|symm_mem::(?!fused)|_C_custom_ar::|(?i:quick_?(all)?reduce|allreduce_prototype)"
    r"|^(gloo|c10d|_c10d_functional|_dtensor)::?|record_param_comms"
)
"""Operations and kernels that exchange between processes: by libraries of the vendors, PyTorch's
symmetric memory, NVSHMEM and its kin, and the all-reduces of serving engines.
"""


_IN_BF16: Final = "Train in bfloat16 with torch.autocast."
_IN_FP16: Final = (
    "Train in float16 with torch.autocast and torch.amp.GradScaler: these tensor cores have "
    "neither bfloat16 nor TF32."
)
IN_BF16_OR_TF32: Final = "Train in bfloat16 with torch.autocast, or allow TF32: {tf32}."
MATRIX_CORES: Final = compiled(
    (
        "",
        r"GTX 16\d\d|MX4\d\d|\bT(400|500|600|1000|1200|2000)\b|MI(25|50|60)\b|Vega"
        r"|Radeon VII|Radeon.*(RX )?[56]\d{3}\b|UHD|Iris|(AMD|Radeon).* 10\.\d+$",
    ),
    (_IN_BF16, r"Intel|(AMD|Instinct|Radeon|\bMI\d{2,3}).* (9|\d\d+)\.\d+$"),
    ("", r"AMD|Instinct|Radeon|\bMI\d{2,3}"),
    (_IN_FP16, r" 7\.\d+$"),
    (IN_BF16_OR_TF32, r" ([89]|\d\d+)\.\d+$"),
)
"""How a training comes to use a device's matrix cores, by its name and, after a space, its
computing capability; an empty text where it has none.

Of NVIDIA, 7.0 (Volta) and 7.5 (Turing) multiply 16-bit floats alone, 8.0 and newer also bfloat16
and TF32 (CUDA C++ Programming Guide, "Compute Capabilities"). Which of AMD's have matrix cores
follows from the name: a version of 9 is that of MI50 and of MI300X; 10 are RDNA and RDNA 2.
"""

LIBRARIES: Final = compiled(
    ("driver", rf"{NAMES['copies'].pattern}|{NAMES['fills'].pattern}"),
    ("NCCL", r"(?i)[nr]ccl"),
    ("oneCCL", r"\bx?ccl::|oneccl"),
    ("Triton", r"^triton_"),
    ("native", r"^(void )?(\w+ )?at(::native|::cuda|_cuda_detail)::"),
    ("cuDNN", r"(?i)cudnn"),
    ("MIOpen", r"(?i)miopen|^naive_conv|^igemm_(fwd|bwd|wrw)|^gcnAsm"),
    ("rocBLAS", r"^Cijk_|(?i:rocblas|hipblas)"),
    (
        "cuBLAS",
        r"(?i)cublas|^nvjet|gemv(x|NSP|2[TN])|^(void )?gemmS?N_|splitKreduce|^(void "
        r")?sgemm_|^(void )?gemm_kernel",
    ),
    (
        "cuBLAS",
        r"^(void )?(maxwell|volta|turing|ampere|hopper|sm\d\d)_\w*gemm|^void gemmk1_|^void "
        r"dot_kernel",
    ),
    (
        "cuDNN",
        r"[wd]grad\w*_(alg|engine|\d)|implicit_(con|gem)|precomputed_con|winograd|\bDSE::|\bfft2d_|flip_filter",
    ),
    (
        "cuDNN",
        r"elementWise_[bf]p|elemWiseRNN|RNN_bidirectional|PersistRnn|pointwise_mult_and_sum_complex",
    ),
    (
        "cuDNN",
        r"(?i)n(chw|hwc)To(Folded)?N|foldedNhwc|nhwcAddPadding|tensorTransformGeneric|[fdw](prop|grad)_",
    ),
    ("CUTLASS", r"cutlass"),
    (
        "native",
        r"\(anonymous namespace\)::|pytorch_flash|flash_(fwd|bwd)|multi_tensor_apply|\bcub::",
    ),
)
ON_TENSOR_CORES: Final = compiled(
    (
        "no",
        rf"{NAMES['copies'].pattern}|{NAMES['fills'].pattern}|(?i:nccl)|_[fdh]fma_|simt|splitKreduce|ReduceSplitK",
    ),
    ("no", r"(Sub|Op)Tensor(Op|\d)"),
    ("yes", r"^Cijk_\w*_MI\d|gtcx\d?|xdl|mfma|(?i:wmma)"),
    (
        "yes",
        r"tensor_?op|TensorOp|[hi]mma|wgmma|gmma|[hs]1688|[hs]16816|(h|s|i)884|i8816|i16832|nvjet|_tensor\d+x\d+x\d+",
    ),
    ("yes", r"xmma_\w*_(f16f16|bf16bf16|f32f32_tf32|tf32f32|e4m3|e5m2|i8i8)\w*_warpgroupsize"),
    (
        "yes",
        r"pytorch_flash|flash_(fwd|bwd)_(kernel|dot|splitkv)|fmha_cutlass[FB]_b?f16_aligned_\w+_sm(7[05]|80)",
    ),
    ("unknown", r"^triton_tem_|at::native::\S*(gemm|mma|mm_kernel|[aA]ttention)"),
    ("no", r"^(void )?at(::native|_cuda_detail)::"),
    (
        "no",
        r"_[sdcz]cudnn_|(dgrad|wgrad_alg\d)_engine<float|pointwise_mult_and_sum_complex|flip_filter|scalePackedTensor",
    ),
    (
        "no",
        r"(?<![a-z0-9])[sdcz]gemm|_[sdcz]gemm(?!\w*tensor)|^triton_(poi|per|red)_|winograd|\bfft2d_|\bDSE::|gemv",
    ),
    (
        "no",
        r"elementwise_kernel|reduce_kernel|multi_tensor_apply|CatArray|softmax_warp|batch_norm|layer_norm|max_pool",
    ),
    (
        "no",
        r"cudnn::bn_|(?i:n(chw|hwc)To(Folded)?N|foldedNhwcTo)|indexSelect|nll_loss|\bcub::|elementWise_[bf]p|elemWiseRNN",
    ),
)
"""`ffma` names multiply-adds on the ordinary cores, also in kernels whose `xmma` looks like that of
tensor cores. Numbers such as `s16816` are the shape of the tensor cores' instruction. Of what
TorchInductor generates for Triton, only its templates (`triton_tem`) multiply matrices. Of AMD's,
`MI16x16` is the shape of the instruction, `gtcx` and `xdl` name the generators for matrix cores,
and MIOpen's `SubTensorOp` is elementwise.
"""

LIBRARIES_OF_XPU: Final = compiled(("oneDNN", r"^gemm_kernel|^gen_|jit_\w*(gemm|conv)|\bgemmstone"))
"""Names that mean something else on Intel's devices than on others."""
