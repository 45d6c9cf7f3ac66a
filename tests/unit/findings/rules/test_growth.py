from collections.abc import Mapping

import pytest

from tests.unit.findings.editing import Case, Edit, figure

LOST = {"status": "oom", "reason": "out of memory"}


def memory(table: str, where: Mapping[str, object], value: float, spread: float = 1.0) -> Edit:
    return Edit(table=table, where=where, cells=figure("memory_peak_mib", value, spread))


BATCH = "batch_size_memory/cnn_medium_cuda"
SIZE = "complexity_memory/cnn_cuda"
SMALLEST = {"device": "cuda", "size": "small"}
LARGEST = {"device": "cuda", "size": "large"}
CASES = [
    Case(finding=BATCH, verdict="yes"),
    Case(finding=BATCH, verdict="no", edits=[memory("batch_size", {"device": "cuda"}, 500)]),
    Case(finding=BATCH, verdict="not resolved", edits=[memory("batch_size", {"device": "cuda"}, 500, 80)]),
    Case(
        finding=BATCH,
        verdict="not measured",
        edits=[Edit(table="batch_size", where={"device": "cuda"}, cells=LOST)],
    ),
    Case(finding=SIZE, verdict="yes"),
    Case(finding=SIZE, verdict="no", edits=[memory("complexity", {"device": "cuda"}, 500)]),
    Case(finding=SIZE, verdict="not resolved", edits=[memory("complexity", {"device": "cuda"}, 500, 80)]),
    Case(
        finding=SIZE,
        verdict="not measured",
        edits=[Edit(table="complexity", where={"device": "cuda"}, cells=LOST)],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_memory_is_named_by_what_was_measured_on_the_device() -> None:
    on_cpu = Case(finding="complexity_memory/cnn_cpu", verdict="yes").derive()
    on_cuda = Case(finding=SIZE, verdict="yes").derive()

    assert "main memory" in on_cpu.statement
    assert "device memory" in on_cuda.statement


def test_sizes_are_compared_from_the_fewest_parameters_to_the_most() -> None:
    edits = [memory("complexity", SMALLEST, 100), memory("complexity", LARGEST, 400)]

    found = Case(finding=SIZE, verdict="yes", edits=edits).derive()

    assert "400.0 MiB (95 % interval 399.0 to 401.0, 5 processes) of device memory at its peak with size large" in (
        found.statement
    )
