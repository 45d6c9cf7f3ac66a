"""What ended a training: memory that ran out, a mistake in the workload, or someone outside.

classify: exception -> Stopped; without_result: exit status -> Stopped; unless_memory_ran_out:
whether the kernel ended a process. Only classifying needs PyTorch.
"""

import re
import signal
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil

from gpu_report.measure.run import Stopped
from gpu_report.records.record import OutOfMemory
from gpu_report.study.control_groups import group_folders

_MIB: Final = 2**20
_MIB_PER_GIB: Final = 1024
_ASKED: Final = re.compile(
    r"tried to allocate (\d+(?:\.\d+)?) (bytes|KiB|MiB|GiB|TiB)\b", re.IGNORECASE
)
_BYTES: Final[Mapping[str, int]] = {
    "bytes": 1,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_CPU_ALLOCATION: Final = re.compile(r"can't allocate memory|not enough memory", re.IGNORECASE)
_DEVICE_ALLOCATION: Final = re.compile(
    r"CU(?:DNN|BLAS)_STATUS_\w*ALLOC\w*_FAILED|CUDA error: out of memory|backend out of memory"
)
_LOST_PROCESS: Final = re.compile(
    r"closed by peer|reset by peer|Connection refused|Connection was likely closed|Broken "
    r"pipe|Timed out waiting|Socket Timeout|wait timeout|NCCL communicator was aborted|remote "
    r"process exit"
)
"""What gloo, NCCL and the store of a process group say when another process is gone or does not
answer.
"""
_DEVICE_BUSY: Final = re.compile(r"CUDA error: CUDA-capable device\(s\) is/are busy or unavailable")
_FROM_OUTSIDE: Final = (
    "SIGKILL",
    "SIGTERM",
    "SIGINT",
    "SIGHUP",
    "SIGQUIT",
    "SIGUSR1",
    "SIGUSR2",
    "SIGXCPU",
)
"""Signals that people, schedulers, limits and the OOM killer send; a program that fails gets
others.
"""
_IN_WORDS: Final = "|".join(
    re.escape(signal.strsignal(signal.Signals[name]) or name) for name in _FROM_OUTSIDE
)
_KILLED_WORKER: Final = re.compile(rf"DataLoader worker .*killed by signal: (?:{_IN_WORDS})")
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+), in (\S+)$', re.MULTILINE)
_VMSTAT: Final = Path("/proc/vmstat")
_LIMITS: Final = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""Of a control group, and what it uses of it: of version 2, and of version 1."""
_CACHED: Final = re.compile(r"^(?:total_)?inactive_file (\d+)$", re.MULTILINE)
_OOM_KILLS: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def classify(error: BaseException) -> Stopped:
    """What an exception that ended a training means for its record.

    Memory that runs out while a step is captured breaks the capture, and ending that raises an
    error of its own; so the causes of an exception count as well.
    """
    chain = _chain(error)
    error = next(
        (each for each in chain if _is_device_out_of_memory(each) or _is_host_out_of_memory(each)),
        error,
    )
    if _is_device_out_of_memory(error):
        # What follows is advice on settings of the allocator.
        reason = one_line(error).partition(" If reserved")[0]
        return Stopped(status="oom", reason=reason, out_of_memory=_device_out_of_memory(str(error)))
    if _is_host_out_of_memory(error):
        memory = host_out_of_memory(str(error))
        free_gib, total_gib = (
            (memory.free_mib or 0.0) / _MIB_PER_GIB,
            memory.total_mib / _MIB_PER_GIB,
        )
        reason = (
            f"{one_line(error) or 'out of memory'}; {free_gib:.1f} of {total_gib:.1f} GiB were "
            "available"
        )
        return Stopped(status="oom", reason=reason, out_of_memory=memory)
    busy = next((found[0] for each in chain if (found := _DEVICE_BUSY.search(str(each)))), "")
    reason = (
        "the GPU is in use by another process and admits one alone (its compute mode in "
        f"nvidia-smi): {busy}"
        if busy
        else f"{type(error).__name__}: {one_line(error)} ({_place(error)})"
    )
    return Stopped(
        status="failed",
        reason=reason,
        interrupted_by="SIGKILL" if any(_KILLED_WORKER.search(str(each)) for each in chain) else "",
        lost_others=any(_has_lost_others(each) for each in chain),
    )


def without_result(who: str, exit_status: int | None) -> Stopped:
    """What it means that this process has ended and sent no result; a negative exit status is that
    of a signal.
    """
    if exit_status is None:
        return Stopped(status="failed", reason=f"{who} ended without a message")
    if exit_status >= 0:
        return Stopped(
            status="failed", reason=f"{who} ended by itself with exit status {exit_status}"
        )
    name = signal.Signals(-exit_status).name
    return Stopped(
        status="failed",
        reason=f"{who} was ended by {name}",
        interrupted_by=name if name in _FROM_OUTSIDE else "",
        crashed=name == "SIGSEGV",
    )


def unless_memory_ran_out(stopped: Stopped, kills_before: int) -> Stopped:
    """The same, or `oom` if the OOM killer has ended a process since `kills_before` was read."""
    if stopped.interrupted_by != "SIGKILL" or read_oom_kills() <= kills_before:
        return stopped
    # What is free now is free because the training is gone.
    memory = host_out_of_memory().model_copy(update={"free_mib": None})
    reason = (
        "the training was killed by the OOM killer; the machine has "
        f"{memory.total_mib / _MIB_PER_GIB:.1f} GiB"
    )
    return replace(stopped, status="oom", reason=reason, interrupted_by="", out_of_memory=memory)


def _has_lost_others(error: BaseException) -> bool:
    from torch import distributed

    by_peers = any(
        "/torch/" in frame.filename for frame in traceback.extract_tb(error.__traceback__)[-1:]
    )
    return (
        by_peers
        and isinstance(error, distributed.DistError | RuntimeError)
        and _LOST_PROCESS.search(str(error)) is not None
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _is_host_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _CPU_ALLOCATION.search(str(error)) is not None
    )


def _is_device_out_of_memory(error: BaseException) -> bool:
    """Libraries that PyTorch calls have errors of their own for memory that they cannot
    allocate.
    """
    import torch

    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and _DEVICE_ALLOCATION.search(str(error)) is not None
    )


def _device_out_of_memory(message: str) -> OutOfMemory:
    """The allocation that the message names, and the memory of the device in use now."""
    import torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    module = torch.get_device_module(accelerator) if accelerator else None
    if module is None or not hasattr(module, "mem_get_info"):
        # Apple's GPU shares the host's memory.
        return host_out_of_memory(message)
    try:
        free_bytes, total_bytes = module.mem_get_info()
    except RuntimeError:
        # After some errors a device does not answer; its properties are known from before.
        free_bytes, total_bytes = None, module.get_device_properties().total_memory
    return OutOfMemory(
        asked_mib=asked_mib(message),
        free_mib=None if free_bytes is None else round(free_bytes / _MIB, 1),
        total_mib=round(total_bytes / _MIB, 1),
    )


def host_out_of_memory(message: str = "") -> OutOfMemory:
    """The allocation that a message names, and the memory of the machine now."""
    memory = psutil.virtual_memory()
    return OutOfMemory(
        asked_mib=asked_mib(message),
        free_mib=round(memory.available / _MIB, 1),
        total_mib=round(memory.total / _MIB, 1),
    )


def asked_mib(message: str) -> float | None:
    """The allocation that PyTorch says it tried, as on the CPU `you tried to allocate 1024
    bytes`.
    """
    match = _ASKED.search(message)
    return round(float(match[1]) * _BYTES[match[2].lower()] / _MIB, 3) if match else None


def one_line(error: BaseException) -> str:
    """The message in one line; of an error from a DataLoader worker, the worker's own message."""
    lines = str(error).strip().splitlines()
    if len(lines) > 1 and "in DataLoader worker process" in lines[0]:
        return lines[-1].partition(": ")[2] or lines[-1]
    return " ".join(line.strip() for line in lines)


def _place(error: BaseException) -> str:
    """Where it happened: the innermost frame outside PyTorch."""
    frames = [
        (frame.filename, str(frame.lineno), frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    # An error from a DataLoader worker brings its traceback as text.
    frames += [(match[1], match[2], match[3]) for match in _FRAME.finditer(str(error))]
    ours = [frame for frame in frames if "/torch/" not in Path(frame[0]).as_posix()]
    file, line, function = (ours or frames)[-1]
    return f"{Path(file).name}, line {line}, in {function}"


def read_oom_kills() -> int:
    """Processes that the kernel's OOM killer has killed so far, summed over every counter that can
    be read.

    The sum has no meaning of its own: a rise between two readings is the evidence.
    """
    files = [
        _VMSTAT,
        # Of version 2, and of version 1.
        *(
            folder / name
            for folder in group_folders("memory")
            for name in ("memory.events", "memory.oom_control")
        ),
    ]
    return sum(map(_kills_in, files))


def available_mib() -> float:
    """Memory that this process may still take without swapping: the machine's, or less where a
    control group says so.

    What the kernel can drop of the group's page cache counts as available.
    """
    available = psutil.virtual_memory().available
    for group in group_folders("memory"):
        for limit_name, usage_name in _LIMITS:
            try:
                limit, usage, kinds = (
                    (group / name).read_text("utf-8").strip()
                    for name in (limit_name, usage_name, "memory.stat")
                )
            except OSError:
                continue
            if limit.isdecimal():
                # Version 1 has the group's own too; what it uses counts the groups inside, and so
                # does the total.
                cached = max(map(int, _CACHED.findall(kinds)), default=0)
                available = min(available, int(limit) - int(usage) + cached)
    return available / _MIB


def _kills_in(path: Path) -> int:
    try:
        match = _OOM_KILLS.search(path.read_text("utf-8"))
    except OSError:
        return 0
    return int(match.group(1)) if match else 0
