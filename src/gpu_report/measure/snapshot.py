"""What PyTorch's allocator did: its figures, and a snapshot of one step for the viewer at https://pytorch.org/memory_viz.

Figures and snapshot exist where PyTorch drives a CUDA device; there are none on the CPU.
"""

from pathlib import Path
from typing import Final

import torch

from gpu_report.errors import FileWriteError
from gpu_report.measure.batches import example_batch
from gpu_report.measure.clocks import synchronize
from gpu_report.measure.training import Training, eager_step, train_step
from gpu_report.records import AllocatorSummary

SNAPSHOT_FILE: Final = "snapshot.pickle"

_MOST_EVENTS: Final = 20_000
"""Allocations and frees that a snapshot holds, the last ones of the step; keeps the file to some MiB."""

_MIB: Final = 2**20


def forget_allocations(device: torch.device) -> None:
    """Begin the allocator's figures anew, from nothing but what is in use now."""
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
    """Train one more step on a full batch, write what the allocator did in it, and return the file's name.

    A captured step allocates nothing when it is launched, so it is the eager one then. Empty where there is no such
    allocator, where the loop is the workload's own, or the eager step does not fit into the device's memory.

    Raises:
        FileWriteError: the snapshot cannot be written.
    """
    if training.device.type != "cuda" or training.own_loop is not None:
        return ""
    batch = example_batch(training.train_data, training.variant.batch_size)
    step = eager_step if training.captured else train_step
    torch.cuda.memory._record_memory_history(max_entries=_MOST_EVENTS, stacks="python")
    try:
        step(training, batch)
        synchronize(training.device)
        _write(folder / SNAPSHOT_FILE)
    except torch.OutOfMemoryError:
        return ""
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    return SNAPSHOT_FILE


def _write(path: Path) -> None:
    try:
        torch.cuda.memory._dump_snapshot(str(path))  # type: ignore[no-untyped-call]
    except OSError as error:
        path.unlink(missing_ok=True)
        raise FileWriteError(
            f"cannot write memory snapshot {path}: {error.strerror}; free some space, then run the same command again"
        ) from error
