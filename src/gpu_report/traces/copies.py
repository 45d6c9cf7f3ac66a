"""How much was copied to, from, within and between devices, and how fast: by the names that the profiler gives copies.

Of CUDA they are such as `Memcpy HtoD (Pinned -> Device)`, of HIP also `CopyHostToDevice`, of XPU `Memcpy M2D`.
"""

import re
from collections import defaultdict
from typing import Final, NamedTuple

import numpy as np

from gpu_report.columns import Table, number, text, whole
from gpu_report.traces.attribution import DeviceWork, HostCalls
from gpu_report.traces.grouping import BYTES_PER_MIB, NS_PER_MS, Row, distinct, fits, is_among
from gpu_report.traces.trace import NONE, Flags, Trace, WorkSpans

COPIES: Final = Table(
    name="copies",
    meaning="One row per direction and kind of host memory of the copies that the steps launched.",
    columns=(
        text("direction", "to device, to host, within device, between devices, within host, or unknown."),
        text("host_memory", "pageable, pinned, managed, or unknown; empty where the host takes no part."),
        whole("copies", "1", "Number of copies."),
        number("size_mib", "MiB", "Bytes of all of them; missing where one has none written."),
        number("total_ms", "ms", "Sum of their run times."),
        number("gb_per_s", "GB/s", "Bytes over run time."),
    ),
)

TO_DEVICE: Final = "to device"
COPY_KIND: Final = "gpu_memcpy"
"""The profiler's own word for a copy."""

_ENDS: Final = re.compile(
    r"\b(?P<source>[HMDAP])(?:to|2)(?P<target>[HMDAP])\b|"
    r"(?P<source_word>Host|Device|Array|Peer)To(?P<target_word>Host|Device|Array|Peer)"
)
_HOST_MEMORY: Final = re.compile(r"(?i)pageable|pinned|managed")


class CopyKind(NamedTuple):
    """What a copy's name says; both are as COPIES has them."""

    direction: str
    host_memory: str


def copy_kind(name: str) -> CopyKind:
    """Take a copy's name apart; an array (`A`) is on the device, `M` is the host's memory, `P` a peer's."""
    ends = _ENDS.search(name)
    if ends is None:
        return CopyKind("unknown", "unknown")
    source = (ends["source"] or ends["source_word"])[0]
    target = (ends["target"] or ends["target_word"])[0]
    from_host, to_host = source in "HM", target in "HM"
    memory = _HOST_MEMORY.search(name)
    host_memory = memory[0].lower() if memory else "unknown"
    if from_host and to_host:
        return CopyKind("within host", host_memory)
    if from_host or to_host:
        return CopyKind("to host" if to_host else TO_DEVICE, host_memory)
    return CopyKind("between devices" if "P" in (source, target) else "within device", "")


def copy_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of COPIES, the longest time first."""
    copies = work.spans.chosen(is_copy(trace, work.spans))
    names_of = defaultdict(list)
    for name in distinct(copies.name).tolist():
        names_of[copy_kind(trace.names[name])].append(name)
    rows = [
        {**kind._asdict(), **_sums(copies.chosen(is_among(copies.name, np.array(names, dtype=np.int64))))}
        for kind, names in names_of.items()
    ]
    return sorted(rows, key=lambda row: (-row["total_ms"], row["direction"], row["host_memory"]))


def is_copy(trace: Trace, spans: WorkSpans) -> Flags:
    """Which pieces of device work are copies."""
    return fits(trace.kinds, spans.kind, COPY_KIND.__eq__)


def _sums(copies: WorkSpans) -> Row:
    time_ns = int(copies.duration_ns.sum())
    size_bytes = None if (copies.size_bytes == NONE).any() else int(copies.size_bytes.sum())
    return {
        "copies": len(copies),
        "size_mib": None if size_bytes is None else size_bytes / BYTES_PER_MIB,
        "total_ms": time_ns / NS_PER_MS,
        "gb_per_s": None if size_bytes is None or not time_ns else size_bytes / time_ns,
    }
