"""The tables of a trace depend neither on the order of its events nor on the blocks in which the file is read."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_report.traces.reading import read_trace
from gpu_report.traces.tables import as_csv, tabulate_trace
from tests.unit.traces.by_hand import AUTOGRAD, MAIN, RawEvent, kernel, launch, operation, step, write

FIXTURES = Path(__file__).parents[2] / "data" / "traces"
NAME = "rank0.pt.trace.json.gz"


@st.composite
def scenes(draw: st.DrawFn) -> list[RawEvent]:
    """Two steps with operations, launches and kernels, none of which begins when another does."""
    moments = iter(draw(st.permutations(range(1, 60))))
    durations, names = st.integers(1, 30), st.sampled_from(["aten::mm", "aten::add", "aten::conv2d"])
    events = [step(1, 0.25, 30), step(2, 30.25, 40)]
    for number in range(draw(st.integers(1, 6))):
        thread = draw(st.sampled_from([MAIN, AUTOGRAD]))
        events += [
            operation(draw(names), next(moments), draw(durations), on=thread),
            launch(number + 1, next(moments), 0.5, on=thread),
            kernel(draw(st.sampled_from(["gemm", "relu"])), next(moments), draw(durations), correlation=number + 1),
        ]
    return events


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_the_tables_depend_neither_on_the_order_of_the_events_nor_on_the_block(
    tmp_path: Path, data: st.DataObject
) -> None:
    events = data.draw(scenes())
    shuffled = data.draw(st.permutations(events))
    in_order = read_trace(write(tmp_path / NAME, events))
    out_of_order = read_trace(write(tmp_path / NAME, shuffled), block_bytes=data.draw(st.integers(100, 3000)))

    assert as_csv(tabulate_trace(out_of_order)) == as_csv(tabulate_trace(in_order))


@pytest.mark.parametrize("fixture", ["unet_cuda", "lstm_cuda"])
def test_a_real_trace_is_the_same_in_blocks_of_any_size(fixture: str) -> None:
    path = FIXTURES / f"{fixture}.pt.trace.json.gz"
    whole = as_csv(tabulate_trace(read_trace(path, block_bytes=1 << 26)))

    for block_bytes in (5_000, 12_345):
        assert as_csv(tabulate_trace(read_trace(path, block_bytes=block_bytes))) == whole
