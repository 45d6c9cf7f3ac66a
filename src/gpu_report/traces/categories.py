"""What kind of work an operation, a driver call or a kernel is: one ordered table of patterns; the
first to fit wins.

A name that no pattern fits, such as `aten::empty` or a view, takes the category of the operation it
runs in; by itself it has one of a second table. Inside `Optimizer.step` every operation counts as
optimizer, inside the loader's `__next__` as data loading.
"""

from functools import cache
from typing import Final

from gpu_report.storage.columns import text
from gpu_report.traces.vendors import COMMUNICATION, NAMES, compiled, first_fit

OTHER: Final = "other"

CATEGORIES: Final[dict[str, str]] = {
    "convolution": "Convolutions, forward and backward, with the layout changes their library "
    "makes.",
    "matrix product": "Matrix and vector products, linear layers.",
    "recurrent": "Recurrent layers and their cells (RNN, LSTM, GRU).",
    "attention": "Scaled dot-product attention.",
    "normalisation": "Batch, layer, group and similar normalisations.",
    "activation": "Activation functions, softmax and dropout.",
    "elementwise": "Arithmetic element by element, random numbers, accumulating gradients.",
    "reduction": "Sums, means, extremes, sorting.",
    "pooling": "Pooling and resampling.",
    "embedding": "Embedding look-ups and their gradients.",
    "optimizer": "The optimizer's step and zeroing of gradients.",
    "loss": "Loss functions.",
    "data loading": "Fetching the next batch, and waiting for it.",
    "copy": "Copying, joining, indexing, filling, allocating and reshaping memory, and fetching "
    "single values.",
    "communication": "Exchange between processes.",
    "runtime": "Calls into the accelerator's driver: launches and waits.",
    "dispatch": "PyTorch's own work around operations: autograd's functions, and what compiled "
    "code does around.",
    OTHER: "What no pattern knows.",
}
"""Every category in the order of reading, with its meaning."""

CATEGORY: Final = text("category", "Kind of work, one of gpu_report.traces.categories.CATEGORIES.")

_RULES: Final = compiled(
    ("runtime", rf"^({NAMES['calls'].pattern})$"),
    ("communication", COMMUNICATION.pattern),
    ("data loading", r"^enumerate\(DataLoader\)"),
    (
        "optimizer",
        r"^Optimizer\.|^aten::_(foreach|amp)_|_fused_(adam|sgd|adagrad)|multi_tensor_apply",
    ),
    (
        "attention",
        r"(?i)attention|flash_?attn|flash_(fwd|bwd)|fmha|sdpa|compute_dot_do_o|convert_dq_to",
    ),
    ("recurrent", r"(?i)rnn|lstm|\b_?gru(_|\b)|GruBackward|GENERIC_elementWise"),
    (
        "convolution",
        r"^(?!triton_(poi|per|red)_).*([Cc]onv(olution|olve|_?\d?d|_depthwise|_trans|_tbc)|[Ww]inograd)",
    ),
    ("convolution", r"[fdw](prop|grad)(_|\b)|implicit_gemm|__5x_cudnn|AsmConv|igemm_(fwd|bwd|wrw)"),
    (
        "convolution",
        r"n(chw|hwc)To(Nchw|Nhwc)|n(chw|hwc)AddPadding|tensorTransformGeneric|im2col|col2im",
    ),
    ("normalisation", r"(?i)(batch|layer|group|instance|rms|weight|response)_?norm|\bbn_(fw|bw)"),
    ("pooling", r"(?i)pool|upsample|interpolate|grid_sampl"),
    ("embedding", r"(?i)embedding|krn_partial|partial_segments|compute_grad_weight"),
    ("loss", r"(?i)loss|cross_?entropy|kl_div"),
    (
        "matrix product",
        r"aten::(_scaled_|add|badd)?b?mm_?\b|aten::\w*(matmul|linear|einsum|tensordot|addmm)\w*",
    ),
    (
        "matrix product",
        r"aten::(addmv_?|mv|dot|vdot|ger|outer)\b|(?i:b?mm|linear|mv|dot|matmul)Backward",
    ),
    ("matrix product", r"(?i)gemm|gemv|cutlass|cublas|dot_kernel|nvjet|^Cijk_|^triton_tem\w*mm"),
    (
        "activation",
        r"(?i)relu|[gsc]elu|\belu|silu|sigmoid|tanh|softmax|softplus|threshold|mish|hardswish|dropout",
    ),
    ("activation", r"aten::(bernoulli|clamp_min)_?\b|BernoulliBackward"),
    (
        "reduction",
        r"aten::(nan)?(sum|mean|prod|var|std|median|mode|cumsum|cumprod|logsumexp|norm|linalg_vector_norm)\b",
    ),
    (
        "reduction",
        r"aten::(a?max|a?min|aminmax|arg(max|min|sort)|all|any|topk|sort|unique\w*|bincount|histc)\b",
    ),
    ("reduction", r"(Sum|Mean|Prod|Var|Std|Max|Min|Norm)Backward|reduce_kernel|(?i:radix_?sort)"),
    ("reduction", r"^triton_(red|per|spl)_|\bcub::.*(scan|unique|reduce|segmented_sort)"),
    (
        "copy",
        r"aten::(copy|_to_copy|to|clone|contiguous|cat|stack|repeat|pin_memory|_pin_memory|item)_?\b",
    ),
    (
        "copy",
        r"aten::(_local_scalar_dense|fill|zero|zeros|ones|full|index\w*|gather|scatter\w*|masked_\w+|take|roll)_?\b",
    ),
    (
        "copy",
        r"(Copy|Clone|Cat|Stack|Index|Gather|Scatter|Repeat)\w*Backward|CatArray|[Mm]em(cpy|set)|copy_kernel",
    ),
    ("copy", rf"{NAMES['copies'].pattern}|{NAMES['fills'].pattern}"),
    ("copy", r"::copy_bucket_to_grad$|aten::(un)?flatten_dense_tensors\b"),
    (
        "copy",
        r"aten::(zeros|ones|full)_like\b|index_elementwise|indexSelect|gather_kernel|FillFunctor",
    ),
    (
        "elementwise",
        r"aten::_?(add|sub|rsub|mul|div|pow|square|r?sqrt|exp|log\w*|abs|neg|sign|lerp|addc(mul|div))_?\b",
    ),
    (
        "elementwise",
        r"aten::(eq|ne|lt|le|gt|ge|where|clamp\w*|floor\w*|ceil|round|remainder|reciprocal|sin|cos|erf)_?\b",
    ),
    (
        "elementwise",
        r"aten::(bitwise|logical|is)\w+|aten::(rand\w*|normal|uniform|arange|random|maximum|minimum)_?\b",
    ),
    (
        "elementwise",
        r"(Add|Sub|Mul|Div|Pow|Sqrt|Exp|Log|Abs|Neg|Clamp|Where|Lerp)Backward|AccumulateGrad",
    ),
    ("elementwise", r"elementwise_kernel|distribution_elementwise|^triton_(poi|for)_"),
)

_STANDALONE_RULES: Final = compiled(
    (
        "dispatch",
        r"^Torch-Compiled Region|CompiledFunction(Backward)?$|^(TorchDynamo|AOTDispatcher) "
        r"|^Pregraph bytecode$",
    ),
    ("dispatch", r"^## Call CompiledFxGraph"),
    (
        "copy",
        r"^aten::(\w*view\w*|_?reshape\w*|as_strided|transpose|t|permute|movedim|(un)?squeeze|(un)?flatten)_?$",
    ),
    (
        "copy",
        r"^aten::(expand\w*|select\w*|slice\w*|narrow|chunk|\w*split\w*|unbind|diagonal|unfold|alias|detach)_?$",
    ),
    ("copy", r"^aten::((new_)?empty\w*|resize\w*|set_|lift_fresh)$|^detach_?$"),
    (
        "copy",
        r"\b(\w*View|ReshapeAlias|AsStrided|Transpose|T|Permute|(Uns|S)queeze|Expand|Alias)Backward\d*$",
    ),
    ("copy", r"\b(Select|Slice|\w*Split\w*|Unbind|Diagonal|Unfold)Backward\d*$"),
    ("dispatch", r"^autograd::engine::evaluate_function: "),
)


@cache
def category_by_name(name: str) -> str | None:
    """The category by the name alone, None where no pattern fits."""
    return first_fit(name, _RULES)


@cache
def category_by_itself(name: str) -> str | None:
    """The category of an operation that has none by `category_by_name` or by what it runs in; None
    where none fits.
    """
    return first_fit(name, _STANDALONE_RULES)
