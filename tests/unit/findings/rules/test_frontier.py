import pytest

from tests.unit.findings.editing import Case, Edit, figure

GROUP = "unet_128px_cuda"
FINDING = f"frontier_bounded/{GROUP}"


def batch(size: int, **cells: object) -> Edit:
    return Edit(table="frontier", where={"batch_size": size}, cells=cells)


FITS = {"status": "ok", **figure("memory_peak_mib", 70_000, 100), "processes": 3}
LOST = {"status": "oom", "reason": "out of memory", **figure("memory_peak_mib", float("nan"))}
CASES = [
    Case(finding=FINDING, verdict="yes"),
    Case(finding=FINDING, verdict="no", edits=[batch(512, **FITS)]),
    Case(finding=FINDING, verdict="not resolved", edits=[batch(512, **FITS), batch(256, **LOST)]),
    Case(finding=FINDING, verdict="not measured", edits=[batch(size, **LOST) for size in (16, 256, 512)]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_largest_that_fits_and_the_first_that_does_not_are_named_with_the_share_of_the_device() -> None:
    room = [batch(size, device_memory_mib=80_000.0, memory_asked_mib=2048.0) for size in (256, 512)]
    full = batch(256, **figure("memory_peak_mib", 60_000, 100))

    found = Case(finding=FINDING, verdict="yes", edits=[*room, full]).derive()

    assert "the memory of CUDA was batch size 256: it took" in found.statement
    assert ", 75.0" in found.statement
    assert ") of the device's 78.1 GiB" in found.statement
    assert "batch size 512 did not fit, where an allocation of 2.00 GiB failed" in found.statement


def test_an_allocation_of_unknown_size_is_not_told() -> None:
    found = Case(finding=FINDING, verdict="yes", edits=[batch(512, memory_asked_mib=float("nan"))]).derive()

    assert found.statement.endswith("batch size 512 did not fit.")
