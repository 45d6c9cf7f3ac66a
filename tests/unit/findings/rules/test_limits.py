from collections.abc import Mapping
from typing import Any

import pytest

from gpu_report.findings.finding import Finding
from gpu_report.findings.rules.limits import RULES
from gpu_report.findings.scope import TRACE, chapter_scopes
from tests.unit.findings.editing import Case, Edit, base, figure

PARTS = ("kernel", "memcpy", "memset", "communication", "runtime", "loader", "operator", "other")
VARIANT = "unet-128px-cuda-b16-w0-fp32-e2x4-resident"
UNTOLD = "lstm-cuda-b64-w0-fp32-e3x10"
CPU_VARIANT = "lstm-cpu-b64-w0-fp32-e3x10"
LIMITS, ON_CPU, COPYING = "trace_limits/cuda", "trace_cpu_limits/cpu", "trace_transfer_bound"
EVEN = {"kernel": 0.3, "loader": 0.3, "operator": 0.2, "memcpy": 0.2}
MISSING = float("nan")


def steps(parts: Mapping[str, float], **where: str) -> Edit:
    """What the profiled steps of the variants on the accelerator, or of those that are named, went into."""
    shares = {**dict.fromkeys(PARTS, 0.0), **parts}
    cells = {f"{part}_share": share for part, share in shares.items()}
    return Edit(table="step_shares", where={"device": "cuda", **where}, cells=cells)


def copies(share: float, **where: str) -> Edit:
    return Edit(table="step_shares", where={"device": "cuda", **where}, cells={"exposed_copy_share": share})


def timed(device: str = "cuda", *, wait: float, busy: float, spread: float = 0.01) -> Edit:
    cells = {**figure("data_wait_share", wait, spread), **figure("utilisation_percent", 100 * busy, 100 * spread)}
    return Edit(table="variants", where={"device": device}, cells=cells)


def ceiling(achieved_of_roof: float, roof: str = "compute") -> Edit:
    cells = {**figure("achieved_flops_per_s", 1e12 * achieved_of_roof, 1e9), "roof_flops_per_s": 1e12, "roof": roof}
    return Edit(table="efficiency", where={"variant": VARIANT}, cells=cells)


NOTHING_TOLD = steps(dict.fromkeys(PARTS, MISSING))
CASES = [
    Case(finding=LIMITS, verdict="supported", edits=[steps({"kernel": 0.9, "other": 0.1})]),
    Case(finding=LIMITS, verdict="contradicted", edits=[steps(EVEN)]),
    Case(finding=LIMITS, verdict="inconclusive", edits=[NOTHING_TOLD]),
    Case(finding=ON_CPU, verdict="supported", edits=[steps({"operator": 0.9, "other": 0.1}, device="cpu")]),
    Case(
        finding=ON_CPU,
        verdict="contradicted",
        edits=[steps({"operator": 0.4, "loader": 0.3, "other": 0.3}, device="cpu")],
    ),
    Case(finding=ON_CPU, verdict="inconclusive", edits=[steps(dict.fromkeys(PARTS, MISSING), device="cpu")]),
    Case(finding=COPYING, verdict="supported", edits=[copies(0.05), copies(0.3, variant=VARIANT)]),
    Case(finding=COPYING, verdict="contradicted", edits=[copies(0.1)]),
    Case(finding=COPYING, verdict="inconclusive", edits=[copies(MISSING)]),
]


def found(finding: str, *edits: Edit) -> Finding:
    return Case(finding=finding, verdict="supported", edits=edits).derive()


def limit_of_variant(*edits: Edit, variant: str = VARIANT, finding: str = LIMITS) -> tuple[str, str, str]:
    (one,) = [part for part in found(finding, *edits).evidence if part.variant == variant]
    return one.label, one.value, one.table


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_steps_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


@pytest.mark.parametrize(
    ("parts", "limit"),
    [
        ({"kernel": 0.6, "memset": 0.1, "other": 0.3}, "operations that are not shown to come near a ceiling"),
        ({"memcpy": 0.7, "kernel": 0.3}, "copies"),
        ({"communication": 0.7, "kernel": 0.3}, "exchange between processes"),
        ({"loader": 0.7, "kernel": 0.3}, "waiting for data"),
        ({"runtime": 0.2, "operator": 0.2, "other": 0.3, "kernel": 0.3}, "the host, which starts the work"),
    ],
)
def test_the_part_that_takes_more_than_half_of_a_step_limits_it(parts: dict[str, float], limit: str) -> None:
    unknown_wait = Edit(table="variants", where={}, cells=figure("data_wait_share", float("nan")))

    assert limit_of_variant(steps(parts), unknown_wait) == (f"limit: {limit}", "70.0 %", "step_shares")


@pytest.mark.parametrize(("roof", "words"), [("compute", "arithmetic"), ("memory", "the device's memory")])
def test_a_ceiling_that_timed_runs_came_near_limits_whatever_the_trace_says(roof: str, words: str) -> None:
    near = ceiling(0.8, roof)

    assert limit_of_variant(near, NOTHING_TOLD) == (f"limit: {words} at its ceiling", "80.0 %", "efficiency")
    assert limit_of_variant(ceiling(0.3, roof), NOTHING_TOLD)[2] == "trace_doubts"


def test_timed_runs_that_wait_for_data_limit_though_the_profiled_steps_did_not_wait() -> None:
    waiting = timed(wait=0.9, busy=0.1)

    assert limit_of_variant(waiting, steps({"operator": 0.9, "other": 0.1}))[:2] == (
        "limit: waiting for data",
        "90.0 %",
    )


def test_a_wait_behind_which_the_accelerator_works_limits_nothing() -> None:
    hidden = timed(wait=0.9, busy=0.6)

    assert "host" in limit_of_variant(hidden, steps({"operator": 0.9, "other": 0.1}))[0]


def test_profiled_steps_that_wait_more_for_data_than_timed_ones_tell_nothing() -> None:
    quick = timed(wait=0.1, busy=0.5)

    label, value, _ = limit_of_variant(quick, steps({"loader": 0.9, "kernel": 0.1}))

    assert (label, value) == (
        "limit not told by the trace",
        "its profiled steps waited more for data than the timed ones",
    )


def test_a_processor_that_waits_for_data_is_limited_by_it_without_a_driver() -> None:
    waiting = timed("cpu", wait=0.8, busy=float("nan"))

    assert limit_of_variant(waiting, variant=CPU_VARIANT, finding=ON_CPU)[:2] == ("limit: waiting for data", "80.0 %")


def test_variants_are_counted_by_what_limits_them_and_those_that_no_part_limits_apart() -> None:
    edits = [
        steps({"operator": 0.9, "other": 0.1}),
        steps({"kernel": 0.8, "other": 0.2}, variant=VARIANT),
        steps(EVEN, variant="cnn-large-cuda-b64-w0-fp32-e3"),
    ]

    statement = found(LIMITS, *edits).statement

    assert "not shown to come near a ceiling in 1, U-Net 128px on CUDA (batch size 16, data on the device)" in statement
    assert "the host, which starts the work in 29, most of all" in statement
    assert "In the other one no part takes more than half." in statement


def test_a_limit_of_few_variants_is_not_that_of_most() -> None:
    finding = found(LIMITS, steps(EVEN), steps({"kernel": 0.9, "other": 0.1}, variant=VARIANT))

    assert finding.verdict == "contradicted"
    assert "in 1 of 31 profiled variants: operations" in finding.statement
    assert "In the other 30 no part takes more than half." in finding.statement


def test_a_trace_that_failed_a_check_is_named_with_it_and_decides_nothing() -> None:
    by_default: list[Edit] = []

    assert limit_of_variant(*by_default, variant=UNTOLD) == (
        "limit not told by the trace",
        "it failed the check 'profiled as timed'",
        "trace_doubts",
    )


def test_every_profiled_variant_has_its_limit_in_the_evidence() -> None:
    tables, _ = base()
    evidence = [part.variant for finding in (LIMITS, ON_CPU) for part in found(finding).evidence]

    assert sorted(evidence) == sorted(tables.step_shares["variant"])


def test_copies_are_told_with_the_largest_first() -> None:
    finding = found(COPYING, copies(0.05), copies(0.3, variant=VARIANT))

    assert "most of all in U-Net 128px on CUDA (batch size 16, data on the device)" in finding.statement
    assert (finding.evidence[0].variant, finding.evidence[0].value) == (VARIANT, "30.0 %")


@pytest.mark.parametrize("name", ["limits", "transfer_bound"])
def test_without_an_accelerator_nothing_is_asked_about_one(name: str) -> None:
    tables, _ = base(("cpu",))
    (scope,) = (scope for scope in chapter_scopes(tables) if scope.name == TRACE)
    asked: list[Any] = [one for rule in RULES if rule.name == name for one in rule.findings(scope)]

    assert not asked


def test_a_part_that_is_not_known_leaves_the_limit_untold() -> None:
    holed = steps({"kernel": 0.9, "memcpy": MISSING}, variant=VARIANT)

    assert limit_of_variant(holed)[2] == "trace_doubts"
