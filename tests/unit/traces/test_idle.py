"""Gaps in the accelerator's work and their causes, the table of idleness, and how far the host ran
ahead.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_report.traces.attribution import attribute_host
from gpu_report.traces.idle import CAUSES, gaps_in_steps, launch_rows
from tests.unit.traces.by_hand import (
    LOADER,
    MAIN,
    RawEvent,
    kernel,
    launch,
    made_by,
    mark,
    operation,
    span,
    step,
    trace_of,
)

PIN_MEMORY = (100, "pin memory")
WORK = st.tuples(st.integers(0, 60), st.integers(0, 20), st.sampled_from([7, 8, 9]))


def waiting(
    name: str, start_us: float, duration_us: float, *, on: tuple[int, int | str] = MAIN
) -> RawEvent:
    return span("cuda_runtime", name, start_us, duration_us, on=on)


def causes(*events: RawEvent) -> list[tuple[str, float, float]]:
    """Cause, begin and end in microseconds of each gap, in order."""
    trace = trace_of(*events)
    _, gaps = gaps_in_steps(trace, attribute_host(trace))
    names = [CAUSES[cause] for cause in gaps.cause.tolist()]
    return list(
        zip(names, (gaps.start_ns / 1e3).tolist(), (gaps.end_ns / 1e3).tolist(), strict=True)
    )


def causes_between(*events: RawEvent) -> list[str]:
    """Causes of the gaps in a step from 0 to 1000 us whose work begins with it and ends with it."""
    work = [
        launch(1, 0),
        kernel("first", 0, 100, correlation=1),
        kernel("last", 500, 500, correlation=2),
    ]
    return [cause for cause, _, _ in causes(step(1, 0, 1000), *work, *events)]


@given(st.lists(WORK, max_size=10))
def test_busy_and_idle_moments_are_all_moments_of_a_step(
    pieces: list[tuple[int, int, int]],
) -> None:
    windows = [range(5, 30), range(33, 60)]
    work = [
        event
        for number, (start, duration, stream) in enumerate(pieces, start=1)
        for event in (
            launch(number, start),
            kernel("gemm", start, duration, on=(0, stream), correlation=number),
        )
    ]
    busy = {moment for start, duration, _ in pieces for moment in range(start, start + duration)}

    found = causes(
        *(step(number, window.start, len(window)) for number, window in enumerate(windows)),
        *work,
        operation("aten::begin", 0, 1),
    )

    idle = [moment for _, start, end in found for moment in range(round(start), round(end))]
    assert sorted(idle) == [
        m for window in windows if busy & set(window) for m in window if m not in busy
    ]


CAUSE_BETWEEN: dict[str, tuple[list[RawEvent], list[str]]] = {
    "work on another stream fills a gap": (
        [launch(2, 400), kernel("beside", 50, 460, on=(0, 9))],
        [],
    ),
    "a launch that began before the gap did not cause it": ([launch(2, 99)], ["launch"]),
    "a launch within the gap came late, and its work then waited": (
        [launch(2, 101)],
        ["host", "launch"],
    ),
    "a late launch whose work starts at once leaves the gap whole": ([launch(2, 495)], ["host"]),
    "work whose launch is not recorded shows no cause": ([], ["unknown"]),
    "a wait after the launch was queued is not its cause": (
        [launch(2, -399), waiting("cudaStreamSynchronize", -395, 500)],
        ["launch"],
    ),
    "a wait after the late launch is not its cause": (
        [launch(2, 150), waiting("cudaStreamSynchronize", 160, 800)],
        ["host", "launch"],
    ),
    "a wait for the loader is the cause of as much as it took": (
        [mark(LOADER, 150, 200), launch(2, 490)],
        ["loader", "host"],
    ),
    "a wait on another thread does not hold the loop up": (
        [
            operation("aten::add", 10, 20),
            waiting("cudaStreamSynchronize", 50, 400, on=PIN_MEMORY),
            launch(2, 490),
        ],
        ["host"],
    ),
    "the loader goes before the device where both held the host up": (
        [waiting("cudaStreamSynchronize", -100, 210), mark(LOADER, 110, 380), launch(2, 490)],
        ["loader", "host"],
    ),
    "the loader goes before memory that its thread takes": (
        [mark(LOADER, 110, 380), waiting("cudaHostAlloc", 120, 300, on=PIN_MEMORY), launch(2, 490)],
        ["loader", "host"],
    ),
    "of two waits the one with more time in the gap is the cause": (
        [
            waiting("cudaStreamSynchronize", -400, 510),
            waiting("cudaFree", 120, 300),
            launch(2, 490),
        ],
        ["allocator", "host"],
    ),
    "memory that another thread pins does not hold a slow loop up": (
        [
            operation("aten::add", 10, 20),
            waiting("cudaHostAlloc", 50, 400, on=PIN_MEMORY),
            launch(2, 490),
        ],
        ["host"],
    ),
    **{
        f"{copy} waits for the device whatever its call's name": (
            [
                span("cuda_runtime", "cudaMemcpyAsync", 10, 300, on=MAIN, correlation=3),
                span("gpu_memcpy", f"Memcpy {copy}", 90, 10, on=(0, 7), correlation=3),
                launch(2, 490),
            ],
            ["synchronisation", "host"],
        )
        for copy in ("DtoH (Device -> Pageable)", "HtoD (Pageable -> Device)")
    },
    "of work that starts together the earliest launched shows the cause": (
        [launch(2, 490), launch(3, 95), kernel("beside", 500, 10, on=(0, 9), correlation=3)],
        ["launch"],
    ),
    **{
        f"{name} does not wait for the device": ([waiting(name, 50, 400), launch(2, 490)], ["host"])
        for name in ("cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventRecord")
    },
    **{
        f"{name} on any thread holds the host up": (
            [waiting(name, 50, 400, on=PIN_MEMORY), launch(2, 490)],
            ["allocator"],
        )
        for name in ("cudaMalloc", "cudaFree", "hipFree", "zeMemAllocDevice")
    },
    **{
        f"{name} waits for the device": (
            [waiting(name, 50, 400), launch(2, 490)],
            ["synchronisation"],
        )
        for name in ("hipMemcpyWithStream", "urEventWait", "zeCommandQueueSynchronize")
    },
}


@pytest.mark.parametrize("case", CAUSE_BETWEEN)
def test_the_cause_of_a_gap_is_what_held_its_launch_up(case: str) -> None:
    events, expected = CAUSE_BETWEEN[case]

    assert causes_between(*events) == expected


def test_a_wait_holds_up_later_launches_too_until_gaps_took_its_time() -> None:
    wait = waiting("cudaStreamSynchronize", 20, 90)

    found = causes(
        step(1, 0, 1000),
        *launched(1, 0, 0, 100),
        wait,
        *launched(2, 138, 140, 100),
        *launched(3, 298, 300, 100),
        *launched(4, 418, 420, 580),
    )

    assert found == [
        ("synchronisation", 100, 140),
        ("synchronisation", 240, 290),
        ("host", 290, 300),
        ("host", 400, 420),
    ]


def test_a_wait_holds_up_no_launch_of_the_step_after_the_next() -> None:
    work = [event for n in (0, 1, 2) for event in launched(n + 1, 100 * n + 9, 100 * n + 10, 90)]
    wait = waiting("cudaStreamSynchronize", 15, 80)

    found = causes(*(step(n, 100 * n, 100) for n in (0, 1, 2)), *work, wait)

    assert found == [("host", 0, 10), ("synchronisation", 100, 110), ("host", 200, 210)]


def test_gaps_before_the_steps_are_no_wait() -> None:
    earlier = [kernel("gemm", 100 * n, 50, correlation=90 + n) for n in range(3)]
    late = [
        event for n in range(5) for event in launched(n + 1, 1100 + 100 * n, 1101 + 100 * n, 50)
    ]

    found = causes(*earlier, step(1, 1000, 600), *late)

    assert {cause for cause, _, _ in found} == {"host"}


def test_gaps_that_a_faster_host_would_shorten_are_launch_bound_whoever_is_charged() -> None:
    """Each step ends in a wait of 790 us; its short kernels are launched one after the other."""

    def one(number: int, begin: int) -> list[RawEvent]:
        short = [
            event
            for n in range(20)
            for event in launched(100 * number + n, begin + 20 * n, begin + 20 * n + 1, 8)
        ]
        last = launched(100 * number + 50, begin + 400, begin + 401, 790)
        wait = waiting("cudaStreamSynchronize", begin + 402, 790)
        return [step(number, begin, 1195), *short, *last, wait]

    rows = rows_of(*one(1, 0), *one(2, 1200), *one(3, 2400))

    shares = [row["launch_bound_share"] for row in rows]
    assert shares == pytest.approx([shares[0]] * 3, abs=0.01)
    assert shares[0] > 0.15


def test_before_work_launched_before_the_recording_no_gap_is_known() -> None:
    began_before = kernel("gemm", 30, 10, correlation=9)

    found = causes(step(1, 0, 100), began_before, *launched(2, 50, 52, 48))

    assert found == [("host", 40, 52)]


def rows_of(*events: RawEvent) -> list[dict[str, Any]]:
    trace = trace_of(*events)
    return made_by(launch_rows, trace)


def launched(number: int, launch_us: float, start_us: float, duration_us: float) -> list[RawEvent]:
    """A launch whose call lasts 1 us, and its kernel."""
    return [launch(number, launch_us), kernel("gemm", start_us, duration_us, correlation=number)]


def test_a_step_shows_its_launches_and_how_long_their_work_waited() -> None:
    (row,) = rows_of(
        step(1, 0, 100),
        *launched(1, 0, 3, 9.999),
        *launched(2, 10, 21, 10),
        *launched(3, 20, 91, 100),
    )

    assert row == {
        "step": 1,
        "launches": 3,
        "short_share": pytest.approx(1 / 3),
        "median_delay_us": 10.0,
        "mean_queue": pytest.approx((2 + 10 + 70) / 100),
        "longest_queue": 1,
        "launch_bound_share": pytest.approx(0.03),
    }


def test_an_accelerator_that_starts_each_small_kernel_as_it_is_launched_is_launch_bound() -> None:
    work = [event for n in range(10) for event in launched(n + 1, 100 * n, 100 * n + 5, 20)]

    (row,) = rows_of(step(1, 0, 1000), *work)

    assert row["launch_bound_share"] == pytest.approx((5 + 9 * 80) / 1000)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=10))
def test_the_queue_holds_what_was_launched_and_has_not_started(
    pieces: list[tuple[int, int]],
) -> None:
    work = [
        event
        for number, (called, waits) in enumerate(pieces, start=1)
        for event in launched(number, called, called + 1 + waits, 5)
    ]

    rows = rows_of(step(1, 0, 20), step(2, 20, 90), *work)

    for row in rows:
        window = range(20) if row["step"] == 1 else range(20, 110)
        length = [
            sum(called + 1 <= moment < called + 1 + waits for called, waits in pieces)
            for moment in window
        ]
        assert row["longest_queue"] == max(length)
        assert row["mean_queue"] == pytest.approx(sum(length) / len(window))
