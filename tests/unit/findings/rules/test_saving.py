import pytest

from tests.unit.findings.editing import Case, Edit, figure

LOST = {"status": "oom", "reason": "out of memory"}
GROUP = "unet_128px_cuda"
SAVES = f"memory_saves/{GROUP}_checkpoint"
TIME = f"memory_costs_time/{GROUP}"


def saving(name: str, **cells: object) -> Edit:
    return Edit(table="memory", where={"optimization": name}, cells=cells)


def both(**cells: object) -> list[Edit]:
    return [saving(name, **cells) for name in ("checkpoint", "accumulate2")]


BEFORE = saving("none", **figure("memory_peak_mib", 10_000, 10))
CASES = [
    Case(finding=SAVES, verdict="yes", edits=[BEFORE, saving("checkpoint", **figure("memory_peak_mib", 4000, 10))]),
    Case(
        finding=SAVES,
        verdict="no",
        edits=[BEFORE, saving("checkpoint", **figure("memory_peak_mib", 9900, 10))],
    ),
    Case(
        finding=SAVES,
        verdict="not resolved",
        edits=[BEFORE, saving("checkpoint", **figure("memory_peak_mib", 9000, 500))],
    ),
    Case(finding=SAVES, verdict="not measured", edits=[saving("none", **LOST)]),
    Case(finding=TIME, verdict="yes", edits=both(**figure("speedup", 0.8, 0.05))),
    Case(finding=TIME, verdict="no", edits=both(**figure("speedup", 1.2, 0.05))),
    Case(finding=TIME, verdict="not resolved", edits=both(**figure("speedup", 1.0, 0.05))),
    Case(finding=TIME, verdict="not measured", edits=both(**LOST)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_what_is_saved_is_told_with_what_it_costs() -> None:
    edits = [
        BEFORE,
        saving("checkpoint", **figure("memory_peak_mib", 4000, 10), **figure("speedup", 0.5, 0.01)),
    ]

    found = Case(finding=SAVES, verdict="yes", edits=edits).derive()

    assert "Gradient checkpointing saved U-Net 60.0" in found.statement
    assert "eager baseline; it took 2.00" in found.statement
    assert found.recommendation == "Train U-Net with gradient checkpointing where memory is short."


def test_a_saving_at_noisy_times_says_that_its_cost_stayed_open() -> None:
    little = saving("checkpoint", **figure("memory_peak_mib", 4000, 10), **figure("speedup", 0.9, 0.3))

    found = Case(finding=SAVES, verdict="yes", edits=[BEFORE, little]).derive()

    assert "what that costs in time stayed open" in found.statement


@pytest.mark.parametrize(("workspace_mib", "named"), [(1000.0, 1), (999.0, 0), (float("nan"), 0)])
def test_the_workspace_of_convolutions_is_named_from_a_quarter_of_the_peak_on(workspace_mib: float, named: int) -> None:
    little = saving("checkpoint", convolution_workspace_mib=workspace_mib, **figure("memory_peak_mib", 4000, 10))

    found = Case(finding=SAVES, verdict="yes", edits=[BEFORE, little]).derive()

    assert found.statement.count("workspace") == named
