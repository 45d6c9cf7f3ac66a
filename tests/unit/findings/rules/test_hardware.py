from tests.unit.findings.editing import Case, Edit, cases, figure

PEAK = "efficiency_nearest/cuda"
ROOF = "efficiency_bound/cuda"


def on_cuda(**cells: object) -> Edit:
    return Edit(table="efficiency", where={"device": "cuda"}, cells=cells)


def at_roof(share: float, spread: float = 0.01) -> Edit:
    return on_cuda(**figure("achieved_flops_per_s", 1e12 * share, 1e12 * spread), roof_flops_per_s=1e12)


EFFICIENCY_CASES = [
    *cases(
        PEAK,
        yes=[on_cuda(**figure("share_of_peak", 0.7, 0.05))],
        no=[on_cuda(**figure("share_of_peak", 0.3, 0.05))],
        unresolved=[on_cuda(**figure("share_of_peak", 0.5, 0.05))],
        missing=[on_cuda(**figure("share_of_peak", float("nan")))],
    ),
    *cases(ROOF, yes=[at_roof(0.8)], no=[at_roof(0.3)], unresolved=[at_roof(0.5, 0.1)]),
    Case(
        finding="efficiency_bound",
        verdict="not measured",
        edits=[Edit(table="efficiency", where={}, cells={"roof_flops_per_s": float("nan")})],
    ),
]


def test_the_roof_that_bounds_is_named() -> None:
    of_memory = Case(finding=ROOF, verdict="yes", edits=[at_roof(0.8), on_cuda(roof="memory")]).derive()
    of_arithmetic = Case(finding=ROOF, verdict="yes", edits=[at_roof(0.8), on_cuda(roof="compute")]).derive()

    assert "at that of the device's memory" in of_memory.statement
    assert "at that of arithmetic" in of_arithmetic.statement


def test_doubts_about_a_variant_count_here_too() -> None:
    shared = Edit(table="variants", where={"device": "cuda"}, cells={"marks": "shared device"})

    found = Case(finding=ROOF, verdict="not resolved", edits=[at_roof(0.8), shared]).derive()

    assert found.verdict == "not resolved"
    assert "others used the accelerator" in found.statement


def test_a_workload_is_bound_where_its_nearest_variant_is_however_fast_another_was() -> None:
    fast = on_cuda(**figure("achieved_flops_per_s", 9e12, 1e10), roof_flops_per_s=90e12)
    slug = "unet-128px-cuda-b16-w0-fp32-e2x4-resident"
    near = {**figure("achieved_flops_per_s", 0.8e12, 1e10), "roof_flops_per_s": 1e12}
    edits = [fast, Edit(table="efficiency", where={"variant": slug}, cells=near)]

    found = Case(finding=ROOF, verdict="yes", edits=edits).derive()

    assert found.statement.startswith("A ceiling bounds U-Net 128px on CUDA.")


SMALL = "transfer_small_copies/cuda_to_device"
PINNED = "transfer_pinned/cuda_to_device"
KIB, GIB = 2**10, 2**30


def copies(memory: str, size: int, rate: float, spread: float = 0.1, share: float = 1.0) -> Edit:
    return Edit(
        table="transfers",
        where={"direction": "to device", "memory": memory, "bytes": size},
        cells={**figure("bandwidth_gb_per_s", rate, spread), "share_of_peak": share},
    )


def only(memory: str) -> Edit:
    return Edit(table="transfers", where={}, cells={"memory": memory})


TRANSFER_CASES = [
    *cases(
        SMALL,
        yes=[copies("pinned", 4 * KIB, 1.0, share=0.02)],
        no=[copies("pinned", 4 * KIB, 40.0, share=0.8)],
        unresolved=[copies("pinned", 4 * KIB, 25.0, 5.0, share=0.5)],
        missing=[only("pageable")],
    ),
    *cases(
        PINNED,
        yes=[copies("pinned", GIB, 50.0), copies("pageable", GIB, 10.0)],
        no=[copies("pinned", GIB, 9.0), copies("pageable", GIB, 10.0)],
        unresolved=[copies("pinned", GIB, 10.0, 1.0), copies("pageable", GIB, 10.0)],
        missing=[only("pinned")],
    ),
]


def test_the_size_from_which_a_copy_reaches_half_the_peak_is_told() -> None:
    slow = [copies("pinned", size * KIB, 1.0, share=0.02) for size in (4, 16, 64, 256, 1024)]

    found = Case(finding=SMALL, verdict="yes", edits=slow).derive()

    assert "those of 4 KiB reached 2.0" in found.statement
    assert "half of that takes copies of 4 MiB" in found.statement


CASES = [*EFFICIENCY_CASES, *TRANSFER_CASES]
