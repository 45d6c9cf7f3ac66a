"""Telling what ended a training: memory that ran out, a mistake in the workload, or someone outside."""

import re
import traceback
from pathlib import Path
from typing import Final

import torch

from gpu_report.measure.messages import Stopped
from gpu_report.measure.out_of_memory import asked_mib, host_out_of_memory
from gpu_report.records import OutOfMemory

_CPU_ALLOCATION: Final = re.compile(r"can't allocate memory|not enough memory", re.IGNORECASE)
_KILLED_WORKER: Final = re.compile(r"DataLoader worker .*killed by signal: (?:Killed|Terminated|Interrupt)")
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+), in (\S+)$', re.MULTILINE)
_DEVICE_ALLOCATION: Final = re.compile(
    r"CU(?:DNN|BLAS)_STATUS_\w*ALLOC\w*_FAILED|CUDA error: out of memory|backend out of memory"
)
_MIB: Final = 2**20
_MIB_PER_GIB: Final = 1024


def classify(error: BaseException) -> Stopped:
    """What an exception that ended a training means for its record.

    Memory that runs out while a step is captured breaks the capture, and ending that raises an error of its own; so
    what an exception was raised upon counts as well.
    """
    error = next(filter(_is_out_of_memory, _chain(error)), error)
    if _is_device_out_of_memory(error):
        # What follows is advice on settings of the allocator.
        reason = one_line(error).partition(" If reserved")[0]
        return Stopped(status="oom", reason=reason, out_of_memory=_device_out_of_memory(str(error)))
    if _is_host_out_of_memory(error):
        there_was = host_out_of_memory(str(error))
        free_gib, total_gib = (there_was.free_mib or 0.0) / _MIB_PER_GIB, there_was.total_mib / _MIB_PER_GIB
        reason = f"{one_line(error) or 'out of memory'}; {free_gib:.1f} of {total_gib:.1f} GiB were available"
        return Stopped(status="oom", reason=reason, out_of_memory=there_was)
    reason = f"{type(error).__name__}: {one_line(error)} ({_place(error)})"
    return Stopped(status="failed", reason=reason, killed_worker=any(map(_is_killed_worker, _chain(error))))


def _is_out_of_memory(error: BaseException) -> bool:
    return _is_device_out_of_memory(error) or _is_host_out_of_memory(error)


def _is_host_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and _CPU_ALLOCATION.search(str(error)) is not None


def _is_device_out_of_memory(error: BaseException) -> bool:
    """Libraries that PyTorch calls for memory of their own report its lack in an error of their own."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and _DEVICE_ALLOCATION.search(str(error)) is not None


def _device_out_of_memory(message: str) -> OutOfMemory:
    """What a message says was asked for, and what the device in use has now."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    module = torch.get_device_module(accelerator) if accelerator else None
    if module is None or not hasattr(module, "mem_get_info"):
        # Apple's GPU shares the host's memory.
        return host_out_of_memory(message)
    try:
        free_bytes, total_bytes = module.mem_get_info()
    except RuntimeError:
        # After some errors a device answers no more; its properties are known from before.
        free_bytes, total_bytes = None, module.get_device_properties().total_memory
    return OutOfMemory(
        asked_mib=asked_mib(message),
        free_mib=None if free_bytes is None else round(free_bytes / _MIB, 1),
        total_mib=round(total_bytes / _MIB, 1),
    )


def one_line(error: BaseException) -> str:
    """The message in one line; of an error from a loader worker, the worker's own message."""
    lines = str(error).strip().splitlines()
    if len(lines) > 1 and "in DataLoader worker process" in lines[0]:
        return lines[-1].partition(": ")[2] or lines[-1]
    return " ".join(line.strip() for line in lines)


def _place(error: BaseException) -> str:
    """Where it happened: the innermost frame that is not PyTorch's own, as a person looks for it there."""
    frames = [(frame.filename, str(frame.lineno), frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    # An error from a loader worker brings its traceback as text.
    frames += [(match[1], match[2], match[3]) for match in _FRAME.finditer(str(error))]
    ours = [frame for frame in frames if "/torch/" not in Path(frame[0]).as_posix()]
    file, line, function = (ours or frames)[-1]
    return f"{Path(file).name}, line {line}, in {function}"


def _is_killed_worker(error: BaseException) -> bool:
    return _KILLED_WORKER.search(str(error)) is not None


def _chain(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
