"""The arithmetic of a precision: IEEE single precision, TF32, or half precision by autocast with or
without scaling.

set_up_arithmetic -> Arithmetic -> autocast() around the model, scaler around the backward pass and
the optimizer
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn
from torch.amp import GradScaler
from torch.backends import cuda

from gpu_report.workloads.protocol import WorkloadError

_AUTOCAST: Final[Mapping[str, torch.dtype]] = {"fp16": torch.float16, "bf16": torch.bfloat16}
_TF32_CAPABILITY: Final = (8, 0)
"""CUDA compute capability of the first devices with TF32:
https://docs.nvidia.com/cuda/cuda-c-programming-guide
"""
ATTENTION_SWITCHES: Final[Mapping[str, tuple[Callable[[bool], None], Callable[[], bool]]]] = {
    "math": (cuda.enable_math_sdp, cuda.math_sdp_enabled),
    "efficient": (cuda.enable_mem_efficient_sdp, cuda.mem_efficient_sdp_enabled),
    "flash": (cuda.enable_flash_sdp, cuda.flash_sdp_enabled),
    "cudnn": (cuda.enable_cudnn_sdp, cuda.cudnn_sdp_enabled),
}
"""Kernels of PyTorch's scaled dot-product attention, on the CPU too: what allows each in this
process, and what says whether it is allowed. `math` is the formula, operator by operator.
"""
_FP8_MULTIPLE: Final = 16
"""Of which the sides of a matrix must be multiples, to be multiplied in FP8."""


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """How a training computes; the scaler passes everything through where the precision needs no
    scaling.
    """

    device_type: str
    autocast_type: torch.dtype | None
    scaler: GradScaler

    def autocast(self) -> AbstractContextManager[object]:
        """For the forward pass only, as torch.amp asks."""
        if self.autocast_type is None:
            return nullcontext()
        return torch.autocast(self.device_type, self.autocast_type)


def set_up_arithmetic(
    precision: str, device: torch.device, *, first_scale: float = 2.0**16
) -> Arithmetic:
    """Switch TF32 on for tf32 and off for everything else, process-wide: cuDNN would use it by
    default.
    """
    # The newer fp32_precision settings leave allow_tf32 in a state that PyTorch refuses to read.
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    return Arithmetic(
        device_type=device.type,
        autocast_type=_AUTOCAST.get(precision),
        scaler=GradScaler(device.type, init_scale=first_scale, enabled=precision == "fp16"),
    )


def unchanged_arithmetic(device: torch.device) -> Arithmetic:
    """As this process is set, without autocast of ours and without scaling."""
    return Arithmetic(
        device_type=device.type, autocast_type=None, scaler=GradScaler(device.type, enabled=False)
    )


def why_not_computed(precision: str, device: torch.device) -> str:
    """Why the device cannot compute in the precision, in one line; empty if it can. Touches the
    device.
    """
    if precision == "tf32" and not has_capability(device, _TF32_CAPABILITY):
        return f"{device} has no TF32 arithmetic; it came with CUDA compute capability 8.0"
    if (
        precision == "bf16"
        and device.type == "cuda"
        and not torch.cuda.is_bf16_supported(including_emulation=False)
    ):
        return f"{device} has no bfloat16 arithmetic of its own"
    return ""


def multiply_in_fp8(model: nn.Module, *, emulate: bool = False) -> None:
    """Have linear layers multiply in FP8, forward and backward, as torchao's training does.

    A layer that shares its weights, such as the output layer of a language model, is left as it is.
    `emulate` computes the same, rounded values in a longer format, on any device.

    Raises:
        WorkloadError: no layer can.
    """
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    from torchao.float8.float8_linear import Float8Linear

    owners = Counter(id(each) for part in model.modules() for each in part.parameters(False))
    convert_to_float8_training(
        model,
        config=Float8LinearConfig(emulate=emulate),
        module_filter_fn=lambda layer, _: (
            owners[id(layer.weight)] == 1
            and all(side % _FP8_MULTIPLE == 0 for side in layer.weight.shape)
        ),
    )
    if not any(isinstance(part, Float8Linear) for part in model.modules()):
        raise WorkloadError(
            "options: fp8 finds no linear layer of its own weights whose sides are multiples of "
            f"{_FP8_MULTIPLE}; leave it out"
        )


def has_capability(device: torch.device, least: tuple[int, int]) -> bool:
    """Whether it is an NVIDIA GPU of this CUDA compute capability or a higher one."""
    return (
        device.type == "cuda"
        and not torch.version.hip
        and torch.cuda.get_device_capability(device) >= least
    )
