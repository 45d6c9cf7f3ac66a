"""The arithmetic of a precision: IEEE single precision, TF32, or half precision by autocast with or
without scaling.

set_up_arithmetic -> Arithmetic -> autocast() around the model, scaler around the backward pass and
the optimizer
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

import torch
from torch.amp import GradScaler

_AUTOCAST: Final[Mapping[str, torch.dtype]] = {"fp16": torch.float16, "bf16": torch.bfloat16}
_TF32_CAPABILITY: Final = (8, 0)
"""CUDA compute capability of the first devices with TF32:
https://docs.nvidia.com/cuda/cuda-c-programming-guide
"""


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
    if precision == "tf32" and not _has_tf32(device):
        return f"{device} has no TF32 arithmetic; it came with CUDA compute capability 8.0"
    if (
        precision == "bf16"
        and device.type == "cuda"
        and not torch.cuda.is_bf16_supported(including_emulation=False)
    ):
        return f"{device} has no bfloat16 arithmetic of its own"
    return ""


def _has_tf32(device: torch.device) -> bool:
    if device.type != "cuda" or torch.version.hip:
        return False
    return torch.cuda.get_device_capability(device) >= _TF32_CAPABILITY
