"""Peak memory of a training: the allocator's figure on an accelerator, the peak resident set on the CPU."""

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import torch

from gpu_report.records import MemoryKind

_MIB: Final = 2**20
_STATUS: Final = Path("/proc/self/status")
_RESET: Final = Path("/proc/self/clear_refs")
_RESET_PEAK: Final = "5"


class MemoryMeter(Protocol):
    """Follows one process's highest use of memory."""

    kind: MemoryKind

    def reset(self) -> None:
        """Begin anew from what is in use now."""

    def peak_mib(self) -> float:
        """The highest use since the reset."""


class ResidentMemory:
    """The process's resident set, loader workers not included.

    Linux resets the peak on request (`man 5 proc`, clear_refs); elsewhere, and in containers
    that forbid it, the peak is the one since the process began.
    """

    kind: MemoryKind = "resident set"

    def reset(self) -> None:
        with suppress(OSError):
            _RESET.write_text(_RESET_PEAK, "ascii")

    def peak_mib(self) -> float:
        match = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text("utf-8")) if _STATUS.exists() else None
        if match:
            return int(match.group(1)) * 1024 / _MIB
        import resource

        unit_bytes = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes / _MIB


class AllocatorMemory:
    """What PyTorch's allocator handed out to tensors on one accelerator."""

    kind: MemoryKind = "allocator"

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset(self) -> None:
        torch.accelerator.reset_peak_memory_stats(self._device)

    def peak_mib(self) -> float:
        return torch.accelerator.max_memory_allocated(self._device) / _MIB


def memory_meter(device: torch.device) -> MemoryMeter:
    """The meter that belongs to the device; Apple's GPU shares the host's memory and has no allocator figures."""
    return ResidentMemory() if device.type in {"cpu", "mps"} else AllocatorMemory(device)
