import pytest

from gpu_report.findings.derive import derive_findings
from gpu_report.findings.rules.optimization import steps_of
from gpu_report.findings.scope import Group
from gpu_report.options import ladder
from tests.unit.findings.editing import Case, Edit, base, figure, unpaired_quality

LOST = {"status": "oom", "reason": "out of memory"}
GROUP = "unet_64px_cuda"
ALONE = ("workers4", "fused", "resident", "compile")
TOP = "fused+resident+compile"
LADDER = ("none", "workers4", "workers4+fused", "fused+resident", TOP)


def rung(name: str, **cells: object) -> Edit:
    return Edit(table="optimization", where={"optimization": name}, cells=cells)


def alone(*speedups: float, spread: float = 0.01) -> list[Edit]:
    pairs = zip(ALONE, speedups, strict=True)
    return [rung(name, **figure("speedup", value, spread)) for name, value in pairs]


def climbing(*rates: float, spread: float = 0.5) -> list[Edit]:
    baseline, *others = zip(LADDER, rates, strict=True)
    edits = [rung(baseline[0], **figure("throughput_per_s", baseline[1], spread))]
    for name, value in others:
        gain = figure("speedup", value / baseline[1], spread / baseline[1])
        edits.append(rung(name, **figure("throughput_per_s", value, spread), **gain))
    return edits


EVERYTHING = ("workers4+fused", "fused+resident", TOP, *ALONE)
LOST_ALL = [rung(name, **LOST) for name in EVERYTHING]

CASES = [
    Case(finding=f"optimization_best/{GROUP}", verdict="yes"),
    Case(
        finding=f"optimization_best/{GROUP}",
        verdict="no",
        edits=[rung(name, **figure("speedup", 0.8, 0.1)) for name in EVERYTHING],
    ),
    Case(
        finding=f"optimization_best/{GROUP}",
        verdict="not resolved",
        edits=[rung(name, **figure("speedup", 1.0, 0.1)) for name in EVERYTHING],
    ),
    Case(finding=f"optimization_best/{GROUP}", verdict="not measured", edits=LOST_ALL),
    Case(finding=f"optimization_alone/{GROUP}", verdict="yes", edits=alone(1.0, 1.1, 1.2, 1.5)),
    Case(finding=f"optimization_alone/{GROUP}", verdict="no", edits=alone(0.7, 0.8, 0.9, 0.95)),
    Case(finding=f"optimization_alone/{GROUP}", verdict="not resolved", edits=alone(1.0, 1.1, 1.2, 1.5, spread=0.6)),
    Case(finding=f"optimization_alone/{GROUP}", verdict="not measured", edits=LOST_ALL),
    Case(finding=f"optimization_useless/{GROUP}", verdict="yes", edits=alone(1.0, 1.1, 1.2, 1.5)),
    Case(finding=f"optimization_useless/{GROUP}", verdict="no", edits=alone(1.1, 1.1, 1.2, 1.5)),
    Case(
        finding=f"optimization_useless/{GROUP}",
        verdict="not resolved",
        edits=[*alone(1.1, 1.1, 1.2, 1.5), rung("fused", marks="shared device")],
    ),
    Case(finding=f"optimization_useless/{GROUP}", verdict="not measured", edits=LOST_ALL),
    Case(finding=f"optimization_ladder/{GROUP}", verdict="yes", edits=[rung(TOP, **figure("speedup", 2.0, 0.1))]),
    Case(finding=f"optimization_ladder/{GROUP}", verdict="no", edits=[rung(TOP, **figure("speedup", 0.8, 0.1))]),
    Case(
        finding=f"optimization_ladder/{GROUP}", verdict="not resolved", edits=[rung(TOP, **figure("speedup", 1.0, 0.1))]
    ),
    Case(
        finding=f"optimization_ladder/{GROUP}",
        verdict="not measured",
        edits=[rung(TOP, **figure("speedup", float("nan")))],
    ),
    Case(finding=f"optimization_every_step/{GROUP}", verdict="yes", edits=climbing(50, 60, 70, 80, 90)),
    Case(finding=f"optimization_every_step/{GROUP}", verdict="no", edits=climbing(50, 60, 55, 80, 90)),
    Case(finding=f"optimization_every_step/{GROUP}", verdict="not resolved", edits=climbing(50, 60, 60, 80, 90)),
    Case(finding=f"optimization_every_step/{GROUP}", verdict="not measured", edits=LOST_ALL),
    Case(
        finding=f"optimization_memory_cost/{GROUP}",
        verdict="yes",
        edits=[rung(TOP, **figure("memory_peak_mib", 9000, 50))],
    ),
    Case(finding=f"optimization_memory_cost/{GROUP}", verdict="no"),
    Case(
        finding=f"optimization_memory_cost/{GROUP}",
        verdict="not resolved",
        edits=[
            rung("none", **figure("memory_peak_mib", 1000, 10)),
            rung(TOP, **figure("memory_peak_mib", 1100, 90)),
        ],
    ),
    Case(finding=f"optimization_memory_cost/{GROUP}", verdict="not measured", edits=LOST_ALL),
    Case(finding=f"optimization_quality/{GROUP}", verdict="no"),
    Case(
        finding=f"optimization_quality/{GROUP}",
        verdict="yes",
        edits=[rung("compile", **unpaired_quality(0.5, 0.1))],
    ),
    Case(
        finding=f"optimization_quality/{GROUP}",
        verdict="not resolved",
        edits=[rung("compile", **unpaired_quality(0.83, 0.1))],
    ),
    Case(finding=f"optimization_quality/{GROUP}", verdict="not measured", edits=LOST_ALL),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_fastest_alone_is_none_that_was_measured_with_others() -> None:
    edits = [*alone(1.0, 1.1, 1.2, 1.5), rung(TOP, **figure("speedup", 9.0))]

    found = Case(finding=f"optimization_alone/{GROUP}", verdict="yes", edits=edits).derive()

    assert found.statement.startswith("Of what was switched on alone, torch.compile made U-Net fastest")


def test_those_that_bring_nothing_are_named_and_no_others() -> None:
    edits = alone(1.0, 0.8, 1.2, 1.5)

    found = Case(finding=f"optimization_useless/{GROUP}", verdict="yes", edits=edits).derive()

    assert "2 of 4 optimizations" in found.statement
    assert "with 4 DataLoader workers 1.00" in found.statement
    assert "with fused optimizer 0.80" in found.statement
    assert "torch.compile" not in found.statement


def test_the_rung_that_slows_down_is_named_by_what_it_adds() -> None:
    found = Case(finding=f"optimization_every_step/{GROUP}", verdict="no", edits=climbing(50, 60, 55, 80, 90)).derive()

    assert "these made it slower: fused optimizer 0.9" in found.statement


def test_the_greatest_step_up_the_ladder_is_told() -> None:
    found = Case(finding=f"optimization_ladder/{GROUP}", verdict="yes", edits=climbing(50, 60, 70, 140, 150)).derive()

    assert "Most came from adding data on the device: 2.00" in found.statement


def test_variants_that_save_memory_are_not_asked_for_speed() -> None:
    tables, study = base()
    found = {finding.id for finding in derive_findings(tables, study.experiments)}

    assert not {name for name in found if name.startswith(("memory_best", "memory_useless", "memory_ladder"))}


def test_a_rung_that_takes_the_place_of_others_is_a_climb_of_its_own() -> None:
    rows = [
        {"optimization": name, "status": "ok", "is_baseline": name == "none"}
        for name in (*ladder(["workers4", "pinned", "resident", "fused"]),)
    ]
    group = Group(title="U-Net", key="unet", axis="optimization", table="optimization", rows=tuple(rows))

    added = [(step.below["optimization"], step.added) for step in steps_of(group)]

    assert added == [("none", "workers4"), ("workers4", "pinned"), ("workers4+pinned", "fused+resident")]


def test_variants_that_are_no_ladder_have_no_climbs() -> None:
    rows = [
        {"optimization": name, "status": "ok", "is_baseline": name == "none"}
        for name in ("none", "resident", "graphs+compile")
    ]
    group = Group(title="U-Net", key="unet", axis="optimization", table="optimization", rows=tuple(rows))

    assert steps_of(group) == []
