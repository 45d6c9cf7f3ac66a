import math

import pytest

from gpu_report.findings.finding import Verdict
from gpu_report.findings.rules.batch_size import gain_per_doubling
from tests.unit.findings.editing import Case, Edit, figure, unpaired_quality

LOST = {"status": "oom", "reason": "out of memory: tried to allocate 2.00 GiB of 8.00 GiB"}


def batch(size: int, **cells: object) -> Edit:
    return Edit(table="batch_size", where={"batch_size": size}, cells=cells)


def throughputs(*rates: float, spread: float = 1.0) -> list[Edit]:
    pairs = zip((16, 64, 256, 1024), rates, strict=True)
    return [batch(size, **figure("throughput_per_s", rate, spread)) for size, rate in pairs]


FINDING = "batch_size_saturation/cnn_medium_cuda"
QUALITY = "batch_size_quality/cnn_medium_cuda"
CASES = [
    Case(finding=FINDING, verdict="supported", edits=throughputs(1000, 2000, 2100, 2150)),
    Case(finding=FINDING, verdict="contradicted", edits=throughputs(1000, 2000, 4000, 8000)),
    Case(finding=FINDING, verdict="inconclusive", edits=throughputs(1000, 2000, 2500, 3100, spread=100.0)),
    Case(finding=FINDING, verdict="contradicted", edits=throughputs(1000, 1010, 4000, 8000)),
    Case(finding=FINDING, verdict="supported", edits=throughputs(1000, 1010, 4000, 4040)),
    Case(
        finding=FINDING,
        verdict="inconclusive",
        edits=[*throughputs(1000, 2000, 2100, 2150), batch(64, **figure("throughput_per_s", 2000, 1900.0))],
    ),
    Case(finding=FINDING, verdict="not measured", edits=[batch(size, **LOST) for size in (64, 256, 1024)]),
    Case(finding=QUALITY, verdict="supported", edits=[batch(1024, **unpaired_quality(0.5, 0.05))]),
    Case(finding=QUALITY, verdict="contradicted", edits=[batch(1024, **unpaired_quality(0.86, 0.005))]),
    Case(finding=QUALITY, verdict="inconclusive", edits=[batch(1024, **unpaired_quality(0.82, 0.05))]),
    Case(finding=QUALITY, verdict="not measured", edits=[batch(size, **LOST) for size in (64, 256, 1024)]),
]


def paired(change: float, spread: float) -> Edit:
    """Qualities that overlap between the batch sizes, and what each seed says of their difference."""
    return batch(1024, **figure("quality", 0.82, 0.05), **figure("quality_change", change, spread))


PAIRED: list[tuple[Edit, Verdict]] = [
    (paired(-0.05, 0.01), "supported"),
    (paired(0.0, 0.01), "contradicted"),
    (paired(-0.02, 0.01), "inconclusive"),
]


@pytest.mark.parametrize(("edit", "verdict"), PAIRED, ids=[verdict for _, verdict in PAIRED])
def test_the_same_seeds_decide_where_qualities_overlap_between_them(edit: Edit, verdict: Verdict) -> None:
    found = Case(finding=QUALITY, verdict=verdict, edits=[edit]).derive()

    assert found.verdict == verdict
    assert "; seed by seed it changed by " in found.statement
    assert found.evidence[0].label == "change of held-out accuracy by seed"


def test_a_quality_that_is_the_same_for_every_seed_is_said_not_to_change() -> None:
    found = Case(finding=QUALITY, verdict="contradicted", edits=[paired(0.0, 0.0)]).derive()

    assert found.statement.endswith("; seed by seed it did not change.")


def test_without_the_same_seeds_nothing_is_said_of_them() -> None:
    found = Case(finding=QUALITY, verdict="inconclusive", edits=[batch(1024, **unpaired_quality(0.82, 0.05))]).derive()

    assert (found.verdict, "seed by seed" in found.statement) == ("inconclusive", False)
    assert found.evidence[0].label == "held-out accuracy"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_first_size_whose_doubling_does_not_pay_is_recommended() -> None:
    edits = [*throughputs(1000, 2000, 2100, 2150), batch(64, **figure("speedup", 2.0, 0.1))]

    found = Case(finding=FINDING, verdict="supported", edits=edits).derive()

    assert found.recommendation.startswith("Train image CNN with batch size 64: no doubling beyond it brings")
    assert found.gain == 2.0


def test_a_size_after_which_a_later_one_pays_again_is_not_where_batches_stop_paying() -> None:
    found = Case(finding=FINDING, verdict="supported", edits=throughputs(1000, 1010, 4000, 4040)).derive()

    assert found.recommendation.startswith("Train image CNN with batch size 256: no doubling beyond it brings")


def test_growing_throughput_recommends_the_largest_size_that_was_measured() -> None:
    edits = [*throughputs(1000, 2000, 4000, 8000), batch(1024, **LOST)]

    found = Case(finding=FINDING, verdict="contradicted", edits=edits).derive()

    assert found.recommendation.startswith("Train image CNN with batch size 256, the largest that was measured")


def test_the_reason_is_told_where_larger_batches_ran_out_of_memory() -> None:
    edits = [batch(size, **LOST) for size in (64, 256, 1024)]

    found = Case(finding=FINDING, verdict="not measured", edits=edits).derive()

    assert "b64-w0-fp32-e3: out of memory" in found.statement


def test_a_fourfold_batch_is_two_doublings() -> None:
    smaller = {"batch_size": 16, **figure("throughput_per_s", 100.0), "processes": 3, "marks": ""}
    larger = {"batch_size": 64, **figure("throughput_per_s", 400.0), "processes": 3, "marks": ""}

    assert math.isclose(gain_per_doubling(smaller, larger).value, 2.0)
