import pytest

from tests.unit.findings.editing import Case, Edit

CLOSE = Edit(table="consistency", where={"workload": "lstm"}, cells={"difference_percent": 0.2})
FAR = Edit(
    table="consistency",
    where={"workload": "lstm", "metric": "quality", "epoch": 2},
    cells={"difference_percent": 2.5},
)
MISSING = Edit(table="consistency", where={"workload": "lstm"}, cells={"difference_percent": float("nan")})
FAILED = Edit(
    table="device",
    where={"workload": "lstm", "device": "cuda"},
    cells={"status": "failed", "reason": "RuntimeError: no kernel image"},
)
CPU_LAST_EPOCH = {"variant": "lstm-cpu-b64-w0-fp32-e3x10", "epoch": 2}
SEEDS_ALIKE = Edit(table="convergence", where=CPU_LAST_EPOCH, cells={"quality": 0.8})
SEEDS_APART = Edit(table="convergence", where={**CPU_LAST_EPOCH, "repetition": 0}, cells={"quality": 0.7})

FINDING = "device_consistency/lstm_default_64_cuda"
CASES = [
    Case(finding=FINDING, verdict="yes", edits=[CLOSE]),
    Case(finding=FINDING, verdict="no", edits=[CLOSE, FAR, SEEDS_ALIKE]),
    Case(finding=FINDING, verdict="not resolved", edits=[CLOSE, FAR, SEEDS_APART]),
    Case(finding=FINDING, verdict="not measured", edits=[MISSING]),
    Case(finding=FINDING, verdict="not measured", edits=[FAILED]),
    Case(finding="device_consistency", verdict="not measured", devices=("cpu",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_largest_difference_is_told_with_its_metric_and_epoch() -> None:
    found = Case(finding=FINDING, verdict="no", edits=[CLOSE, FAR, SEEDS_ALIKE]).derive()

    assert "2.5 % (quality after epoch 3)" in found.statement
    assert {evidence.label for evidence in found.evidence} == {
        "largest difference in train loss",
        "largest difference in test loss",
        "largest difference in quality",
    }


def test_a_failed_twin_is_the_reason_why_nothing_is_compared() -> None:
    found = Case(finding=FINDING, verdict="not measured", edits=[FAILED]).derive()

    assert "RuntimeError: no kernel image" in found.statement
