"""What each step's time went into: the device first, then the host; every moment of the step counts
once.

work and calls by class -> Cover of each class -> what each adds to those before it -> STEPS
"""

from itertools import accumulate
from typing import Final

import numpy as np

from gpu_report.storage.columns import Table, number, text
from gpu_report.traces.attribution import DeviceWork, HostCalls, is_of
from gpu_report.traces.grouping import NS_PER_MS, STEP, Row, fits, rows_of
from gpu_report.traces.nesting import Cover, cover_of, outermost
from gpu_report.traces.trace import NONE, Integers, Trace

PARTS_OF_STEP: Final = {
    "kernel_ms": "kernels",
    "memcpy_ms": "copies on the accelerator",
    "memset_ms": "memsets on the accelerator",
    "communication_ms": "communication",
    "runtime_ms": "calls into the driver",
    "loader_ms": "waiting for the loader",
    "operator_ms": "operations on the host",
    "other_ms": "nothing recorded",
}
"""The columns that share the wall time of a step, in words."""
STEPS: Final = Table(
    name="steps",
    meaning=(
        "One row per profiled step, in order. The columns from kernel_ms to other_ms share its "
        "wall time out: each moment counts once, for the first of them that goes on in it."
    ),
    columns=(
        STEP,
        number("wall_ms", "ms", "From the begin to the end of the step on the host."),
        number("kernel_ms", "ms", "A kernel runs on the accelerator, communication apart."),
        number("memcpy_ms", "ms", "Else: a copy runs there, communication apart."),
        number("memset_ms", "ms", "Else: a fill runs there."),
        number(
            "communication_ms", "ms", "Else: a collective runs there, or communication on the host."
        ),
        number("runtime_ms", "ms", "Else: a call into the accelerator's driver."),
        number("loader_ms", "ms", "Else: the loop waits for the loader."),
        number("operator_ms", "ms", "Else: an operation of PyTorch on any thread of the host."),
        number("other_ms", "ms", "Else: none of these, such as Python between two operations."),
        number(
            "host_busy_ms", "ms", "Any host thread is in an operation, a driver call or the loader."
        ),
        number(
            "device_busy_ms",
            "ms",
            "A kernel, copy or memset runs; missing where the step saw none.",
        ),
        number(
            "device_idle_share", "1", "1 - device_busy_ms / wall_ms; missing as device_busy_ms."
        ),
        number(
            "exposed_copy_ms",
            "ms",
            "Copies run and no kernel or collective does; missing as device_busy_ms.",
        ),
        number(
            "exposed_communication_ms",
            "ms",
            "Of communication, what no other kernel hides; missing as device_busy_ms.",
        ),
    ),
)
DEVICES: Final = Table(
    name="devices",
    meaning="One row per profiled step and accelerator that worked in it: how busy each was.",
    columns=(
        STEP,
        text("device", "The accelerator's backend and number as in the trace, such as cuda:0."),
        number("busy_ms", "ms", "A kernel, copy or memset runs there."),
        number("idle_share", "1", "1 - busy_ms over the wall time of the step."),
    ),
)
SHARES: Final = ("kernel", "memcpy", "memset", "communication", "runtime", "loader", "operator")
"""The classes in the order in which a moment counts for them; what none of them holds is
`other`.
"""


def device_rows(trace: Trace, _: HostCalls, __: DeviceWork) -> list[Row]:
    """The rows of DEVICES, each step's devices in order of their names."""
    begin_ns, end_ns = trace.step_bounds
    names, of_device = devices_of_work(trace)
    rows = []
    for position, name in enumerate(names):
        busy_ns = cover_of(trace.work, of_device == position).within(begin_ns, end_ns)
        rows += rows_of(
            np.flatnonzero(busy_ns),
            step=[step.number for step in trace.steps],
            device=[f"{trace.device}:{name}".removesuffix(":None")] * len(trace.steps),
            busy_ms=busy_ns / NS_PER_MS,
            idle_share=1 - busy_ns / (end_ns - begin_ns),
        )
    return sorted(rows, key=lambda row: row["step"])


def devices_of_work(trace: Trace) -> tuple[list[str], Integers]:
    """What the trace calls its devices, such as `0`, and the position of that of each piece of
    work: stream 7 of device 1 is the thread `1/7`.
    """
    device_of = [thread.rpartition("/")[0] for thread in trace.threads]
    names = sorted(
        {device_of[thread] for thread in np.unique(trace.work.thread).tolist()},
        key=lambda name: (len(name), name),  # 2 before 10
    )
    places = [names.index(device) if device in names else NONE for device in device_of]
    return names, np.array(places, dtype=np.int64)[trace.work.thread]


def step_rows(trace: Trace, calls: HostCalls, _: DeviceWork) -> list[Row]:
    """The rows of STEPS. All device work counts where it ran, whichever step launched it; that of
    several devices counts together, and is not to be trusted then (QUALITY).

    A moment belongs to the first of SHARES that goes on in it: with U(k) the union of the first k
    classes, class k has |U(k)| - |U(k - 1)| of each step, so that the shares and what is left,
    `other`, sum to the wall time. Columns of the device are missing where a step saw no device
    work: its events may not have been recorded, which is not idleness.
    """
    begin_ns, end_ns = trace.step_bounds
    wall_ns = end_ns - begin_ns
    work = calls.work
    is_exchange, is_operation = is_of(work.category, "communication"), ~calls.is_driver_call
    kernels, copies, memsets = (
        cover_of(work, fits(trace.kinds, work.kind, kind.__eq__) & ~is_exchange)
        for kind in ("kernel", "gpu_memcpy", "gpu_memset")
    )
    collectives = cover_of(work, is_exchange)
    # What the host does to launch an exchange on the device is no exchange.
    root = outermost(calls.parent)
    launching = root[work.call[is_exchange & (work.call != NONE)]]
    on_host = is_operation & is_of(calls.category, "communication") & ~np.isin(root, launching)
    communication = collectives.and_also(cover_of(calls.spans, on_host))
    covers = {
        "kernel": kernels,
        "memcpy": copies,
        "memset": memsets,
        "communication": communication,
        "runtime": cover_of(calls.spans, calls.is_driver_call),
        "loader": cover_of(calls.spans, is_of(calls.category, "data loading")),
        "operator": cover_of(calls.spans, is_operation),
    }
    unions = [
        union.within(begin_ns, end_ns)
        for union in accumulate((covers[name] for name in SHARES), Cover.and_also)
    ]
    times_ns = dict(
        zip((*SHARES, "other"), np.diff(unions, axis=0, prepend=0, append=[wall_ns]), strict=True)
    )
    times_ns["host_busy"] = cover_of(calls.spans).within(begin_ns, end_ns)
    times_ns["device_busy"] = busy_ns = cover_of(work).within(begin_ns, end_ns)
    times_ns["exposed_copy"] = copies.exposed_within(
        begin_ns, end_ns, hiding=kernels.and_also(collectives)
    )
    times_ns["exposed_communication"] = communication.exposed_within(
        begin_ns, end_ns, hiding=kernels
    )
    columns = {f"{name}_ms": each_ns / NS_PER_MS for name, each_ns in times_ns.items()}
    for name in (
        "kernel",
        "memcpy",
        "memset",
        "device_busy",
        "exposed_copy",
        "exposed_communication",
    ):
        columns[f"{name}_ms"][busy_ns == 0] = np.nan
    return rows_of(
        range(len(trace.steps)),
        step=[step.number for step in trace.steps],
        wall_ms=wall_ns / NS_PER_MS,
        **columns,
        device_idle_share=np.where(busy_ns > 0, 1 - busy_ns / wall_ns, np.nan),
    )
