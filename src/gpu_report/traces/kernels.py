"""Which kernels, copies and memsets took the device's time: how long, how soon after their launch,
and where from.

work within the steps -> groups by name and category -> times, delays, launch sizes; origins ->
KERNELS
copies -> direction and kind of host memory, by the names that the profiler gives them -> COPIES

Library and tensor cores are recognized by the kernel's name: NVIDIA's, AMD's and PyTorch's own, as
the profiler writes them; the first pattern to fit wins.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

import numpy as np

from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.traces.attribution import (
    CATEGORY_NAMES,
    DeviceWork,
    HostCalls,
    at_positions,
    work_within_steps,
)
from gpu_report.traces.categories import CATEGORY
from gpu_report.traces.grouping import (
    BYTES_PER_MIB,
    NS_PER_MS,
    NS_PER_US,
    Row,
    counts,
    evenly_spaced,
    fits,
    grouped,
    heaviest_text,
    medians,
    numbers_of,
    quantiles,
    rows_of,
    shares,
    sums,
)
from gpu_report.traces.operations import key_of, of_keys
from gpu_report.traces.ranges import module_name, origins
from gpu_report.traces.trace import NONE, Integers, Trace
from gpu_report.traces.vendors import (
    LIBRARIES,
    LIBRARIES_OF_XPU,
    ON_TENSOR_CORES,
    CopyKind,
    copy_kind,
    first_fit,
)

KERNELS: Final = Table(
    name="kernels",
    meaning=(
        "One row per kernel, copy or memset on the accelerator and category, over the work that "
        "ran within the profiled steps: the same that the table steps counts."
    ),
    columns=(
        text("name", "The kernel's name as in the trace."),
        CATEGORY,
        whole("calls", "1", "How often it ran."),
        number(
            "total_ms", "ms", "Sum of its run times within the steps; streams may run side by side."
        ),
        number("mean_us", "us", "total_ms over calls."),
        number("share", "1", "total_ms over the sum of all rows."),
        number("p10_us", "us", "A tenth of the runs took at most so long."),
        number("median_us", "us", "Half of the runs took at most so long."),
        number("p90_us", "us", "Nine tenths of the runs took at most so long."),
        number(
            "launch_delay_us",
            "us",
            "Median time from the end of the launching call to the start of the run.",
        ),
        text(
            "library",
            "Where it comes from: cuDNN, cuBLAS, CUTLASS, Triton, NCCL, native (PyTorch's own), "
            "MIOpen, rocBLAS, oneDNN, oneCCL, driver (copies, fills), or unknown.",
        ),
        text(
            "tensor_cores", "yes, no, or unknown, from the name; missing words are no proof of no."
        ),
        text(
            "grid",
            "Blocks of its most frequent launch, such as [8, 2, 1]; empty where none is written.",
        ),
        text(
            "block", "Threads per block of its most frequent launch; empty where none is written."
        ),
        number(
            "occupancy",
            "1",
            "The profiler's estimate of occupied warps, median; missing where none is written.",
        ),
        text(
            "operation",
            "The operation that launched most of its time; empty where no launch is known.",
        ),
        text(
            "module",
            "The module of the model around that operation, from the stacks; empty without stacks.",
        ),
        text(
            "source",
            "The innermost function of the user's own code around it, with its line; empty "
            "without stacks.",
        ),
    ),
)
COPIES: Final = Table(
    name="copies",
    meaning="One row per direction and kind of host memory of the copies that the steps launched.",
    columns=(
        text(
            "direction",
            "to device, to host, within device, between devices, within host, or unknown.",
        ),
        text(
            "host_memory",
            "pageable, pinned, managed, or unknown; empty where the host takes no part.",
        ),
        whole("copies", "1", "Number of copies."),
        number("size_mib", "MiB", "Bytes of all of them; missing where one has none written."),
        number("total_ms", "ms", "Sum of their run times."),
        number("gb_per_s", "GB/s", "Bytes over run time."),
    ),
)

UNKNOWN: Final = "unknown"
"""What no pattern knows."""


def kernel_rows(trace: Trace, calls: HostCalls, _: DeviceWork) -> list[Row]:
    """The rows of KERNELS, the longest time first, then by name and category.

    They count the work that STEPS counts, where it ran, so that the totals of both agree.
    """
    work, within_ns = work_within_steps(trace, calls)
    keys, group = grouped(key_of(work.name, work.category))
    count, (name, category) = len(keys), of_keys(keys)
    texts, names = (*trace.texts, ""), (*trace.names, "")
    kernels = [trace.names[position] for position in name.tolist()]
    runs, total_ns = counts(group, count), sums(group, within_ns, count)
    p10_ns, median_ns, p90_ns = quantiles(group, work.duration_ns, count)
    known = np.flatnonzero(work.launch != NONE)
    # Work that starts before its call returns has not waited.
    delay_ns = work.start_ns[known] - calls.spans.end_ns[work.launch[known]]
    # Grid and block of the most frequent pair.
    every, ones = max(len(trace.texts), 1), np.ones_like(group)
    sizes, size = grouped(work.grid * every + work.block)
    pairs = [(trace.texts[pair // every], trace.texts[pair % every]) for pair in sizes.tolist()]
    grid, block = np.divmod(sizes[heaviest_text(group, size, ones, count, pairs)], every)
    operation, module, function = _origins(trace, calls, work, group, count)
    rows = rows_of(
        range(count),
        name=kernels,
        category=[CATEGORY_NAMES[position] for position in category.tolist()],
        calls=runs,
        total_ms=total_ns / NS_PER_MS,
        mean_us=total_ns / NS_PER_US / runs,
        share=shares(total_ns),
        p10_us=p10_ns / NS_PER_US,
        median_us=median_ns / NS_PER_US,
        p90_us=p90_ns / NS_PER_US,
        launch_delay_us=medians(group[known], np.maximum(delay_ns, 0) / NS_PER_US, count),
        library=[library_of(kernel, trace.device) for kernel in kernels],
        tensor_cores=list(map(on_tensor_cores, kernels)),
        grid=[evenly_spaced(texts[position]) for position in grid.tolist()],
        block=[evenly_spaced(texts[position]) for position in block.tolist()],
        occupancy=medians(group, work.occupancy_percent, count) / 100,
        operation=[names[position] for position in operation.tolist()],
        module=[module_name(names[position]) for position in module.tolist()],
        source=[names[position] for position in function.tolist()],
    )
    return sorted(rows, key=lambda row: (-row["total_ms"], row["name"], row["category"]))


@cache
def library_of(kernel: str, device: str | None = None) -> str:
    """The name as the column `library` of KERNELS gives it, on the backend that the trace names.

    CUTLASS inside cuDNN is cuDNN; RCCL, which uses NCCL's names, is NCCL.
    """
    on_device = first_fit(kernel, LIBRARIES_OF_XPU) if device == "xpu" else None
    return on_device or first_fit(kernel, LIBRARIES) or UNKNOWN


@cache
def on_tensor_cores(kernel: str) -> str:
    """yes, no, or unknown."""
    return first_fit(kernel, ON_TENSOR_CORES) or UNKNOWN


def _origins(
    trace: Trace, calls: HostCalls, work: DeviceWork, group: Integers, count: int
) -> Iterator[Integers]:
    """The operation that launched most of each row's time; of that part the module, and of that the
    function.

    Of those that tie, the first by name.
    """
    known = np.flatnonzero(work.call != NONE)
    operation = at_positions(calls.spans.name, work.call, missing=NONE)
    for name in (operation, *origins(trace, calls, work.call)):
        best = heaviest_text(group[known], name[known], work.duration_ns[known], count, trace.names)
        known = known[name[known] == best[group[known]]]
        yield best


def copy_rows(trace: Trace, calls: HostCalls, work: DeviceWork) -> list[Row]:
    """The rows of COPIES, the longest time first."""
    copies = work.chosen(fits(trace.kinds, work.kind, "gpu_memcpy".__eq__))
    kinds: dict[CopyKind, int] = {}
    kind = numbers_of(
        trace.names, copies.name, lambda name: kinds.setdefault(copy_kind(name), len(kinds))
    )
    unknown = sums(kind, np.equal(copies.size_bytes, NONE).astype(np.int64), len(kinds)) > 0
    size_bytes = np.where(unknown, np.nan, sums(kind, copies.size_bytes, len(kinds)))
    time_ns = sums(kind, copies.duration_ns, len(kinds))
    rows = rows_of(
        range(len(kinds)),
        direction=[each.direction for each in kinds],
        host_memory=[each.host_memory for each in kinds],
        copies=counts(kind, len(kinds)),
        size_mib=size_bytes / BYTES_PER_MIB,
        total_ms=time_ns / NS_PER_MS,
        gb_per_s=size_bytes / np.where(time_ns > 0, time_ns, np.nan),
    )
    return sorted(rows, key=lambda row: (-row["total_ms"], row["direction"], row["host_memory"]))
