import re

import pytest

from tests.unit.findings.editing import Case, Edit, figure

GROUP = "unet_64px_cuda"
TOP = "fused+resident+compile"
LADDER = f"optimization_energy/{GROUP}"
FINDING = f"precision_energy/{GROUP}"


def joules(name: str, value: float, spread: float = 0.1) -> Edit:
    return Edit(table="precision", where={"precision": name}, cells=figure("energy_per_sample_j", value, spread))


def rung(name: str, value: float, spread: float = 0.1) -> Edit:
    cells = figure("energy_per_sample_j", value, spread)
    return Edit(table="optimization", where={"optimization": name}, cells=cells)


def marked(marks: str) -> Edit:
    return Edit(table="variants", where={"variant": "unet-64px-cuda-b8-w0-bf16-e3"}, cells={"marks": marks})


UNKNOWN = Edit(table="precision", where={}, cells=figure("energy_per_sample_j", float("nan")))
CASES = [
    Case(finding=FINDING, verdict="yes", edits=[joules("fp32", 10), joules("bf16", 4)]),
    Case(finding=FINDING, verdict="no", edits=[joules("fp32", 4), joules("bf16", 10)]),
    Case(finding=FINDING, verdict="not resolved", edits=[joules("fp32", 10, 1.0), joules("bf16", 10, 1.0)]),
    Case(finding=FINDING, verdict="not measured", edits=[UNKNOWN]),
    Case(finding="energy_held_back", verdict="yes", edits=[marked("throttled")]),
    Case(finding="energy_held_back", verdict="no"),
    Case(
        finding="energy_held_back",
        verdict="not measured",
        edits=[Edit(table="variants", where={}, cells=figure("power_w", float("nan")))],
    ),
    Case(finding=LADDER, verdict="yes", edits=[rung("none", 10), rung(TOP, 4)]),
    Case(finding=LADDER, verdict="no", edits=[rung("none", 4), rung(TOP, 10)]),
    Case(finding=LADDER, verdict="not resolved", edits=[rung("none", 10, 1.0), rung(TOP, 10, 1.0)]),
    Case(
        finding=LADDER,
        verdict="not measured",
        edits=[Edit(table="optimization", where={}, cells=figure("energy_per_sample_j", float("nan")))],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_thriftiest_is_named_where_it_is_not_the_fastest() -> None:
    edits = [joules("fp32", 10), joules("tf32", 2), joules("fp16", 5), joules("bf16", 4)]

    found = Case(finding=FINDING, verdict="yes", edits=edits).derive()

    assert found.statement.endswith("; precision tf32 took least.")


def test_every_kind_of_hold_is_counted() -> None:
    found = Case(finding="energy_held_back", verdict="yes", edits=[marked("power capped;shared device")]).derive()

    assert re.search(r"\b1 of \d+ variants power capped", found.statement)
    assert re.search(r"\b1 of \d+ variants shared device", found.statement)


def test_a_variant_is_called_the_fastest_only_as_far_as_the_counter_of_energy_reached() -> None:
    unknown = Edit(table="precision", where={"precision": "bf16"}, cells=figure("energy_per_sample_j", float("nan")))
    edits = [joules("fp32", 10), joules("tf32", 2), joules("fp16", 5)]

    found = Case(finding=FINDING, verdict="yes", edits=[*edits, unknown]).derive()
    whole = Case(finding=FINDING, verdict="yes", edits=[*edits, joules("bf16", 4)]).derive()

    assert "the fastest that ran long enough for the counter of energy" in found.statement
    assert "the fastest by its mean" in whole.statement
