"""A record's trace becomes its tables, or is refused with the command that measures the variant again."""

from pathlib import Path

import pytest

from gpu_report.traces import TraceError, empty_trace_rows, tabulate_trace
from gpu_report.traces.of_record import slowness_of_profiled_steps, tabulate_trace_of
from gpu_report.traces.trust import trusted
from tests.factories import make_record
from tests.unit.traces.by_hand import operation, step, trace_of

SLUG = "unet-cpu-b16-w0-fp32-e2"
AGAIN = f"measure the variant again with: gpu-report run {SLUG}$"


def test_a_records_trace_gives_the_tables_of_that_trace(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, step(1, 0, 10), operation("aten::add", 1, 2))
    record = make_record(SLUG)

    made = tabulate_trace_of(record, tmp_path)

    assert made == tabulate_trace(trace, checks=[slowness_of_profiled_steps(record)])


@pytest.mark.parametrize(("overhead", "is_trusted"), [(1.4, True), (1.6, False)])
def test_steps_that_the_profiler_slowed_down_say_nothing_of_idleness(overhead: float, *, is_trusted: bool) -> None:
    checks = [slowness_of_profiled_steps(make_record(SLUG, profile_overhead=overhead))]

    assert trusted("steps", "device_idle_share", checks) is is_trusted
    assert trusted("idle", "share", checks) is is_trusted
    assert trusted("kernels", "total_ms", checks)
    assert f"{overhead:.2f} times" in checks[0]["text"]


def test_what_was_not_profiled_has_tables_without_rows(tmp_path: Path) -> None:
    assert tabulate_trace_of(make_record(SLUG, profile_overhead=None), tmp_path) == empty_trace_rows()


def test_a_missing_trace_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=AGAIN):
        tabulate_trace_of(make_record(SLUG), tmp_path)


def test_a_record_needs_steps_though_a_trace_on_its_own_does_not(tmp_path: Path) -> None:
    assert trace_of(tmp_path, operation("aten::add", 1, 2)).steps

    with pytest.raises(TraceError, match=f"it holds no ProfilerStep, so no step was profiled; {AGAIN}"):
        tabulate_trace_of(make_record(SLUG), tmp_path)
