"""A search of the study on real processes: what is tried and found is a record, and so is that
nothing fits.
"""

import pytest

from gpu_report.study.search import BatchSearch
from gpu_report.user_training.batch_size import MOST_PROBES, Probe, search_batch_size
from gpu_report.user_training.process import (
    OwnResult,
    OwnTraining,
    own_server,
    train_in_fresh_process,
)

MACHINE = "epyc-2c"


@pytest.fixture(scope="module")
def limit_gib() -> float:
    """What one sample takes here, which is mostly PyTorch and differs between machines, and room
    for some more.
    """
    with own_server():
        one = train_in_fresh_process(
            OwnTraining(
                build="cnn", make_batch=None, size="small", device="cpu", samples=1, seconds=0.1
            )
        )
    assert isinstance(one, OwnResult)
    return (one.memory_taken_mib + 150) / 1024


@pytest.mark.slow
def test_a_search_within_a_limit_records_its_tries_and_answers(limit_gib: float) -> None:
    search = BatchSearch(
        workload="cnn", size="small", device="cpu", memory_limit_gib=limit_gib, seconds=0.1
    )
    seen: list[Probe] = []

    found = search_batch_size(search, machine=MACHINE, on_try=seen.append)

    assert (found.search, found.machine, found.status, found.memory_kind) == (
        search,
        MACHINE,
        "ok",
        "resident set",
    )
    assert [each.samples for each in found.tries] == [probe.samples for probe in seen]
    assert len(found.tries) <= MOST_PROBES
    assert found.answers is not None
    for each in found.tries:
        if each.memory_peak_mib is not None:
            assert each.memory_limit_mib == search.memory_limit_mib
            assert each.memory_peak_mib <= limit_gib * 1024
    assert {each.status for each in found.tries if each.samples > found.answers.largest} <= {"oom"}
    assert found.environment["torch"]
    assert len(found.provenance.code_digest) == 64


@pytest.mark.parametrize(
    ("search", "status", "reason"),
    [
        (
            BatchSearch(workload="cnn", size="small", device="cpu", memory_limit_gib=0.1),
            "oom",
            "MiB",
        ),
        (BatchSearch(workload="cnn", size="small", device="nowhere"), "failed", "nowhere"),
    ],
    ids=["does not fit", "no such device"],
)
def test_a_search_in_which_nothing_can_be_trained_says_why(
    search: BatchSearch, status: str, reason: str
) -> None:
    found = search_batch_size(search, machine=MACHINE, on_try=lambda _: None)

    assert (found.status, found.answers) == (status, None)
    assert reason in found.reason


@pytest.mark.slow
def test_an_optimization_is_switched_on_and_its_parts_are_counted_in_the_throughput(
    limit_gib: float,
) -> None:
    """A step with accumulate2 goes through twice the samples that are tried."""
    search = BatchSearch(
        workload="cnn",
        size="small",
        device="cpu",
        optimization="accumulate2+fused",
        memory_limit_gib=limit_gib,
        seconds=0.1,
    )
    seen: list[Probe] = []

    found = search_batch_size(search, machine=MACHINE, on_try=seen.append)

    assert found.status == "ok"
    first = seen[0].fitting.measured
    assert first.samples == 2 * seen[0].samples
