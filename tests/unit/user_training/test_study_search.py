"""A search of the study on real processes: what is tried and found is a record, and so is that
nothing fits.
"""

import pytest

from gpu_report.measure.run import Stopped
from gpu_report.study.search import BatchSearch
from gpu_report.user_training import batch_size
from gpu_report.user_training.batch_size import MOST_PROBES, search_batch_size
from gpu_report.user_training.process import (
    OwnResult,
    OwnTraining,
    train_in_fresh_process,
)

MACHINE = "epyc-2c"


def limit_gib() -> float:
    """What one sample takes here, which is mostly PyTorch, and room for some more."""
    training = OwnTraining(
        build="cnn", make_batch=None, size="small", device="cpu", samples=1, seconds=0.1
    )
    one = train_in_fresh_process(training)
    assert isinstance(one, OwnResult)
    return (one.memory_taken_mib + 150) / 1024


@pytest.mark.slow
@pytest.mark.parametrize(("optimization", "parts"), [("none", 1), ("accumulate2+fused", 2)])
def test_a_search_within_a_limit_records_its_tries_and_answers(
    optimization: str,
    parts: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A step with accumulate2 goes through twice the samples that are tried."""
    search = BatchSearch(
        workload="cnn",
        size="small",
        device="cpu",
        optimization=optimization,
        memory_limit_gib=limit_gib(),
        seconds=0.1,
    )
    seen: list[tuple[int | None, OwnResult | Stopped]] = []

    def train(training: OwnTraining, *, patience_s: float) -> OwnResult | Stopped:
        result = train_in_fresh_process(training, patience_s=patience_s)
        seen.append((training.samples, result))
        return result

    monkeypatch.setattr(batch_size, "train_in_fresh_process", train)

    found = search_batch_size(search, machine=MACHINE)

    assert (found.search, found.machine, found.status) == (search, MACHINE, "ok")
    assert found.memory_kind == "resident set"
    assert [each.samples for each in found.tries] == [samples for samples, _ in seen]
    assert len(found.tries) <= MOST_PROBES
    assert found.answers is not None
    for each in found.tries:
        if each.memory_peak_mib is not None and search.memory_limit_mib is not None:
            assert each.memory_limit_mib == search.memory_limit_mib
            assert each.memory_peak_mib <= search.memory_limit_mib
    assert {each.status for each in found.tries if each.samples > found.answers.largest} <= {"oom"}
    assert found.environment["torch"]
    assert len(found.provenance.code_digest) == 64
    first = seen[0][1]
    assert isinstance(first, OwnResult)
    assert first.measured.samples == parts * found.tries[0].samples
    printed = capsys.readouterr().out
    assert f"largest   {found.answers.largest:,}, " in printed
    assert len(printed.splitlines()) > len(found.tries)


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
    found = search_batch_size(search, machine=MACHINE)

    assert (found.status, found.answers) == (status, None)
    assert reason in found.reason
