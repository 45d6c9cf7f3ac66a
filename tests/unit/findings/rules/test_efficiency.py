import pytest

from tests.unit.findings.editing import Case, Edit, figure

PEAK = "efficiency_nearest/cuda"
ROOF = "efficiency_bound/cuda"


def on_cuda(**cells: object) -> Edit:
    return Edit(table="efficiency", where={"device": "cuda"}, cells=cells)


def at_roof(share: float, spread: float = 0.01) -> Edit:
    return on_cuda(**figure("achieved_flops_per_s", 1e12 * share, 1e12 * spread), roof_flops_per_s=1e12)


CASES = [
    Case(finding=PEAK, verdict="yes", edits=[on_cuda(**figure("share_of_peak", 0.7, 0.05))]),
    Case(finding=PEAK, verdict="no", edits=[on_cuda(**figure("share_of_peak", 0.3, 0.05))]),
    Case(finding=PEAK, verdict="not resolved", edits=[on_cuda(**figure("share_of_peak", 0.5, 0.05))]),
    Case(finding=PEAK, verdict="not measured", edits=[on_cuda(**figure("share_of_peak", float("nan")))]),
    Case(finding=ROOF, verdict="yes", edits=[at_roof(0.8)]),
    Case(finding=ROOF, verdict="no", edits=[at_roof(0.3)]),
    Case(finding=ROOF, verdict="not resolved", edits=[at_roof(0.5, 0.1)]),
    Case(
        finding="efficiency_bound",
        verdict="not measured",
        edits=[Edit(table="efficiency", where={}, cells={"roof_flops_per_s": float("nan")})],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_roof_that_bounds_is_named() -> None:
    of_memory = Case(finding=ROOF, verdict="yes", edits=[at_roof(0.8), on_cuda(roof="memory")]).derive()
    of_arithmetic = Case(finding=ROOF, verdict="yes", edits=[at_roof(0.8), on_cuda(roof="compute")]).derive()

    assert "at that of the device's memory" in of_memory.statement
    assert "at that of arithmetic" in of_arithmetic.statement


def test_only_far_below_the_roof_are_fixed_costs_named() -> None:
    far = Case(finding=ROOF, verdict="no", edits=[at_roof(0.05)]).derive()
    between = Case(finding=ROOF, verdict="no", edits=[at_roof(0.3)]).derive()

    assert "starting operations" in far.statement
    assert "starting operations" not in between.statement


def test_doubts_about_a_variant_count_here_too() -> None:
    shared = Edit(table="variants", where={"device": "cuda"}, cells={"marks": "shared device"})

    found = Case(finding=ROOF, verdict="not resolved", edits=[at_roof(0.8), shared]).derive()

    assert found.verdict == "not resolved"
    assert "others used the accelerator" in found.statement


def test_a_step_that_took_less_than_its_ceiling_says_is_explained() -> None:
    beyond = Case(finding=ROOF, verdict="yes", edits=[at_roof(1.3)]).derive()
    below = Case(finding=ROOF, verdict="yes", edits=[at_roof(0.8)]).derive()

    assert "Less than the ceiling's time" in beyond.statement
    assert "Less than the ceiling's time" not in below.statement


def test_a_workload_is_bound_where_its_nearest_variant_is_however_fast_another_was() -> None:
    fast = on_cuda(**figure("achieved_flops_per_s", 9e12, 1e10), roof_flops_per_s=90e12)
    slug = "unet-128px-cuda-b16-w0-fp32-e2x4-resident"
    near = {**figure("achieved_flops_per_s", 0.8e12, 1e10), "roof_flops_per_s": 1e12}
    edits = [fast, Edit(table="efficiency", where={"variant": slug}, cells=near)]

    found = Case(finding=ROOF, verdict="yes", edits=edits).derive()

    assert found.statement.startswith("A ceiling bounds U-Net 128px on CUDA.")
