"""Who makes the host wait for the device."""

from pathlib import Path

from gpu_report.traces.sources import Wait, waits
from tests.unit.traces.by_hand import MAIN, RawEvent, operation, span, step, trace_of


def synchronise(start_us: float, duration_us: float = 5, *, name: str = "cudaStreamSynchronize") -> RawEvent:
    return span("cuda_runtime", name, start_us, duration_us, on=MAIN, correlation=int(start_us))


def copy(name: str, start_us: float) -> list[RawEvent]:
    return [
        span("cuda_runtime", "cudaMemcpyAsync", start_us, 1, on=MAIN, correlation=int(start_us)),
        span("gpu_memcpy", name, start_us + 2, 5, on=(0, 7), correlation=int(start_us)),
    ]


def test_a_wait_belongs_to_the_outermost_operation_around_it(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        step(1, 0, 100),
        operation("aten::to", 10, 30),
        operation("aten::copy_", 12, 26),
        *copy("Memcpy DtoH (Device -> Pageable)", 13),
        synchronise(20),
    )

    assert waits(trace) == [Wait("aten::to", "", 1, 5000)]


def test_a_copy_to_the_device_that_waits_is_left_to_the_table_of_copies(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        step(1, 0, 100),
        operation("aten::to", 10, 30),
        *copy("Memcpy HtoD (Pageable -> Device)", 13),
        synchronise(20),
    )

    assert waits(trace) == []


def test_a_wait_outside_of_any_operation_has_no_name(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, step(1, 0, 100), synchronise(20, name="cudaDeviceSynchronize"))

    assert waits(trace) == [Wait("", "", 1, 5000)]


def test_a_wait_outside_of_the_steps_does_not_count(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, step(1, 0, 100), synchronise(120), operation("aten::mm", 10, 10))

    assert waits(trace) == []


def test_an_item_on_the_cpu_waits_for_nothing(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, step(1, 0, 100), operation("aten::item", 10, 10))

    assert waits(trace) == []


def test_the_longest_wait_comes_first_and_like_waits_add_up(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        step(1, 0, 100),
        *(event for at in (10, 30) for event in (operation("aten::item", at, 10), synchronise(at + 2, 2))),
        operation("aten::nonzero", 60, 30),
        synchronise(62, 20),
    )

    assert waits(trace) == [Wait("aten::nonzero", "", 1, 20_000), Wait("aten::item", "", 2, 4_000)]
