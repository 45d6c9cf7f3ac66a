"""The least that reading a trace takes with msgspec: typed events in pieces, then operators,
kernels and steps.

What `benchmarks/traces.py` compares with. It reads sound traces of today's PyTorch and checks
nothing: no gate, no stacks, no memory, no shapes, times as the floats they are, and a cut wherever
PyTorch's own layout has one.
"""

from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec

_BLOCK_BYTES: Final = 1 << 18
_BETWEEN: Final = b"},\n  {"
_HOST: Final = {"cpu_op", "cuda_runtime", "cuda_driver"}
_DEVICE: Final = {"kernel", "gpu_memcpy", "gpu_memset"}


class _Arguments(msgspec.Struct, gc=False):
    correlation: int = 0


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = 0.0
    dur: float = 0.0
    args: _Arguments | None = None


class _Sums:
    """Calls, time, and time without what is called, by name."""

    def __init__(self) -> None:
        self.calls: defaultdict[str, int] = defaultdict(int)
        self.total_us: defaultdict[str, float] = defaultdict(float)
        self.self_us: defaultdict[str, float] = defaultdict(float)


def summarise(path: Path) -> tuple[_Sums, _Sums, list[tuple[str, float, float]]]:
    """Operators, kernels, and each step's wall and kernel time in microseconds."""
    threads: defaultdict[object, list[_Event]] = defaultdict(list)
    kernels, steps, launched, work = _Sums(), [], {}, []
    for events in _pieces(path):
        for event in events:
            if event.cat in _HOST:
                threads[event.tid].append(event)
                if event.args and event.args.correlation:
                    launched[event.args.correlation] = event.ts
            elif event.cat in _DEVICE:
                kernels.calls[event.name] += 1
                kernels.total_us[event.name] += event.dur
                work.append((event.args.correlation if event.args else 0, event.dur))
            elif event.cat == "user_annotation" and event.name.startswith("ProfilerStep#"):
                steps.append(event)
    operators = _Sums()
    for calls in threads.values():
        _add_thread(operators, calls)
    return operators, kernels, _steps(steps, launched, work)


def _pieces(path: Path) -> Iterator[list[_Event]]:
    decoder = msgspec.json.Decoder(list[_Event])
    with path.open("rb") as file:
        rest = file.read(_BLOCK_BYTES)
        rest = rest[rest.index(b"{", rest.index(b'"traceEvents"')) :]
        while block := file.read(_BLOCK_BYTES):
            rest += block
            cut = rest.rindex(_BETWEEN)
            yield decoder.decode(b"[" + rest[: cut + 1] + b"]")
            rest = rest[cut + 2 :]
        yield decoder.decode(b"[" + rest[: rest.rindex(b"]") + 1])


def _add_thread(sums: _Sums, calls: list[_Event]) -> None:
    calls.sort(key=attrgetter("ts"))
    opened: list[tuple[str, float]] = []
    for call in calls:
        while opened and opened[-1][1] <= call.ts:
            opened.pop()
        sums.calls[call.name] += 1
        sums.total_us[call.name] += call.dur
        sums.self_us[call.name] += call.dur
        if opened:
            sums.self_us[opened[-1][0]] -= call.dur
        opened.append((call.name, call.ts + call.dur))


def _steps(
    steps: list[_Event], launched: dict[int, float], work: list[tuple[int, float]]
) -> list[tuple[str, float, float]]:
    steps.sort(key=attrgetter("ts"))
    moments = sorted(
        (launched.get(correlation, 0.0), duration_us) for correlation, duration_us in work
    )
    found, place = [], 0
    for step in steps:
        kernel_us = 0.0
        while place < len(moments) and moments[place][0] < step.ts + step.dur:
            kernel_us += moments[place][1]
            place += 1
        found.append((step.name, step.dur, kernel_us))
    return found
