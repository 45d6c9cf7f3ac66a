import pytest

from tests.unit.findings.editing import Case, Edit, figure

LOADERS, LADDER = "workers_busier/image_files_cuda", "optimization_busier/unet_64px_cuda"
FASTEST = {
    "workers": "image_files-cuda-b32-w4-fp32-e3",
    "optimization": "unet-64px-cuda-b8-w0-fp32-e3-fused+resident+compile",
}
BASELINE = {"workers": "image_files-cuda-b32-w0-fp32-e3", "optimization": "unet-64px-cuda-b8-w0-fp32-e3"}
BATCH = {"workers": 32, "optimization": 8}


def active(axis: str, variant: str, rate: float, share: float) -> list[Edit]:
    """That a variant trains so many steps a second, kernels being active for this share of a profiled one."""
    return [
        Edit(table=axis, where={"variant": variant}, cells=figure("throughput_per_s", BATCH[axis] * rate)),
        Edit(table="step_shares", where={"variant": variant}, cells={"device_busy_share": share}),
    ]


def before_and_after(axis: str, before: float, after: float) -> list[Edit]:
    return [*active(axis, BASELINE[axis], 10, before), *active(axis, FASTEST[axis], 10_000, after)]


UNTOLD = [Edit(table="step_shares", where={"device": "cuda"}, cells={"device_busy_share": float("nan")})]
CASES = [
    case
    for finding, axis in ((LOADERS, "workers"), (LADDER, "optimization"))
    for case in (
        Case(finding=finding, verdict="yes", edits=before_and_after(axis, 0.4, 0.8)),
        Case(finding=finding, verdict="no", edits=before_and_after(axis, 0.8, 0.4)),
        Case(finding=finding, verdict="no", edits=before_and_after(axis, 0.4, 0.44)),
        Case(finding=finding, verdict="not measured", edits=UNTOLD),
    )
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_it_is_told_of_the_fastest_before_and_after() -> None:
    found = Case(finding=LOADERS, verdict="yes", edits=before_and_after("workers", 0.4, 0.8)).derive()

    assert "with 4 DataLoader workers: for 80.0" in found.statement
    assert "instead of 40.0" in found.statement
    assert {evidence.variant for evidence in found.evidence} == {BASELINE["workers"], FASTEST["workers"]}


def test_a_variant_that_was_not_profiled_has_no_answer() -> None:
    gone = Edit(table="step_shares", where={"variant": BASELINE["workers"]}, cells={"variant": "gone"})

    assert Case(finding=LOADERS, verdict="not measured", edits=[gone]).derive().verdict == "not measured"


def test_a_processor_is_not_asked() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        Case(finding="workers_busier/image_files_cpu", verdict="not measured", devices=("cpu",)).derive()
