"""Telling what ended a training: memory that ran out, a mistake in the workload, or someone outside."""

import re
import traceback
from pathlib import Path
from typing import Final

import psutil
import torch

from gpu_report.measure.messages import Stopped

_CPU_ALLOCATION: Final = re.compile(r"can't allocate memory|not enough memory", re.IGNORECASE)
_KILLED_WORKER: Final = re.compile(r"DataLoader worker .*killed by signal: (?:Killed|Terminated|Interrupt)")
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+), in (\S+)$', re.MULTILINE)
_GIB: Final = 2**30


def classify(error: BaseException) -> Stopped:
    """What an exception that ended a training means for its record."""
    if isinstance(error, torch.OutOfMemoryError):
        return Stopped(status="oom", reason=one_line(error))
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _CPU_ALLOCATION.search(str(error))):
        memory = psutil.virtual_memory()
        had = f"{memory.available / _GIB:.1f} of {memory.total / _GIB:.1f} GiB were available"
        return Stopped(status="oom", reason=f"{one_line(error) or 'out of memory'}; {had}")
    reason = f"{type(error).__name__}: {one_line(error)} ({_place(error)})"
    return Stopped(status="failed", reason=reason, killed_worker=any(map(_is_killed_worker, _chain(error))))


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
