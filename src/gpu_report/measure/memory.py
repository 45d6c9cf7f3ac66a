"""Memory of a training: its peak on any device, and on CUDA what the allocator did, with a snapshot
of one step.

The peak is the allocator's on an accelerator, the peak resident set on the CPU. The viewer of
snapshots is https://pytorch.org/memory_viz.
"""

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import torch

from gpu_report.errors import FileWriteError
from gpu_report.measure.batches import example_batch
from gpu_report.measure.timing import synchronize
from gpu_report.measure.training import Training, eager_step, train_step
from gpu_report.records.record import AllocatorSummary, MemoryKind

SNAPSHOT_FILE: Final = "snapshot.pickle"

_MOST_EVENTS: Final = 20_000
"""Allocations and frees that a snapshot holds, the last ones of the step; keeps the file to some
MiB.
"""

_MIB: Final = 2**20
_STATUS: Final = Path("/proc/self/status")
_RESET: Final = Path("/proc/self/clear_refs")


class MemoryMeter:
    """The peak of one process: of PyTorch's allocator on the accelerator with most, else of its
    resident set.

    DataLoader workers are not included. Linux resets the peak of the resident set on request (`man
    5 proc`, clear_refs); elsewhere, and in containers that forbid it, the peak is the one since the
    process began.
    """

    def __init__(self, *devices: torch.device) -> None:
        self._devices = devices
        # Apple's GPU shares the host's memory and has no allocator figures.
        self.kind: MemoryKind = "resident set" if devices[0].type in {"cpu", "mps"} else "allocator"

    def reset(self) -> None:
        """Restart from what is in use now."""
        if self.kind == "allocator":
            for device in self._devices:
                torch.accelerator.reset_peak_memory_stats(device)
        else:
            with suppress(OSError):
                _RESET.write_text("5", "ascii")  # of the peak alone

    def peak_mib(self) -> float:
        """The highest use since the reset."""
        if self.kind == "allocator":
            return (
                max(torch.accelerator.max_memory_allocated(device) for device in self._devices)
                / _MIB
            )
        match = (
            re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text("utf-8"))
            if _STATUS.exists()
            else None
        )
        if match:
            return int(match.group(1)) * 1024 / _MIB
        import resource

        unit_bytes = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes / _MIB

    def in_use_mib(self) -> float:
        """What is in use now."""
        if self.kind == "allocator":
            return (
                max(torch.accelerator.memory_allocated(device) for device in self._devices) / _MIB
            )
        return psutil.Process().memory_info().rss / _MIB

    def free_mib(self) -> float:
        """What is left of the first device's memory, or of the host's."""
        if self.kind == "allocator":
            unused = torch.accelerator.memory_reserved(
                self._devices[0]
            ) - torch.accelerator.memory_allocated(self._devices[0])
            return (torch.accelerator.get_memory_info(self._devices[0])[0] + unused) / _MIB
        return psutil.virtual_memory().available / _MIB


def forget_allocations(device: torch.device) -> None:
    """Restart the allocator's figures from what is in use now."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        torch.cuda.reset_accumulated_memory_stats(device)


def summarise_allocator(device: torch.device) -> AllocatorSummary | None:
    """The allocator's figures since they began; None where there is no such allocator.

    Their names: https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html
    """
    if device.type != "cuda":
        return None
    stats = torch.cuda.memory_stats(device)
    return AllocatorSummary(
        allocated_peak_mib=round(stats["allocated_bytes.all.peak"] / _MIB, 3),
        reserved_peak_mib=round(stats["reserved_bytes.all.peak"] / _MIB, 3),
        active_peak_mib=round(stats["active_bytes.all.peak"] / _MIB, 3),
        inactive_split_peak_mib=round(stats["inactive_split_bytes.all.peak"] / _MIB, 3),
        allocations=stats["allocation.all.allocated"],
        retries=stats["num_alloc_retries"],
    )


def snapshot_memory(training: Training, folder: Path) -> str:
    """Train one more step on a full batch, write what the allocator did in it, and return the
    file's name.

    A captured step allocates nothing when it is launched, so it is the eager one then. Empty where
    there is no such allocator, with a custom training loop, with several ranks, of which one might
    run out of memory while the others wait for it, or where the eager step does not fit into the
    device's memory.

    Raises:
        FileWriteError: the snapshot cannot be written.
    """
    if (
        training.device.type != "cuda"
        or training.custom_loop is not None
        or training.world.is_launched
    ):
        return ""
    path = folder / SNAPSHOT_FILE
    batch = example_batch(training.train_data, training.samples_per_step, training.collate)
    step = eager_step if training.captured else train_step
    torch.cuda.memory._record_memory_history(max_entries=_MOST_EVENTS, stacks="python")
    try:
        step(training, batch)
        synchronize(training.device)
        torch.cuda.memory._dump_snapshot(str(path))  # type: ignore[no-untyped-call]
    except torch.OutOfMemoryError:
        return ""
    except OSError as error:
        path.unlink(missing_ok=True)
        raise FileWriteError(
            f"cannot write memory snapshot {path}: {error.strerror}; free some space, then run "
            "the same command again"
        ) from error
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    return SNAPSHOT_FILE
