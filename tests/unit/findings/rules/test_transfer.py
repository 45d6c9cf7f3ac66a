import pytest

from tests.unit.findings.editing import Case, Edit, figure

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


CASES = [
    Case(finding=SMALL, verdict="yes", edits=[copies("pinned", 4 * KIB, 1.0, share=0.02)]),
    Case(finding=SMALL, verdict="no", edits=[copies("pinned", 4 * KIB, 40.0, share=0.8)]),
    Case(finding=SMALL, verdict="not resolved", edits=[copies("pinned", 4 * KIB, 25.0, 5.0, share=0.5)]),
    Case(finding=SMALL, verdict="not measured", edits=[only("pageable")]),
    Case(finding=PINNED, verdict="yes", edits=[copies("pinned", GIB, 50.0), copies("pageable", GIB, 10.0)]),
    Case(finding=PINNED, verdict="no", edits=[copies("pinned", GIB, 9.0), copies("pageable", GIB, 10.0)]),
    Case(
        finding=PINNED, verdict="not resolved", edits=[copies("pinned", GIB, 10.0, 1.0), copies("pageable", GIB, 10.0)]
    ),
    Case(finding=PINNED, verdict="not measured", edits=[only("pinned")]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_size_from_which_a_copy_reaches_half_the_peak_is_told() -> None:
    slow = [copies("pinned", size * KIB, 1.0, share=0.02) for size in (4, 16, 64, 256, 1024)]

    found = Case(finding=SMALL, verdict="yes", edits=slow).derive()

    assert "those of 4 KiB reached 2.0" in found.statement
    assert "half of that takes copies of 4 MiB" in found.statement
