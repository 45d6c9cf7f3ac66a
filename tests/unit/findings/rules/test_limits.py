from typing import Any

import pytest

from gpu_report.findings.finding import Finding
from gpu_report.findings.rules.trace import RULES
from gpu_report.findings.scope import TRACE, chapter_scopes
from gpu_report.tables.trace_schema import STEP_PARTS
from tests.unit.findings.editing import Case, Edit, base, figure

VARIANT = "unet-128px-cuda-b16-w0-fp32-e2x4-resident"
UNTOLD = "lstm-cuda-b64-w0-fp32-e3x10"
CPU_VARIANT = "lstm-cpu-b64-w0-fp32-e3x10"
LIMITS, ON_CPU, COPYING = "trace_limits/cuda", "trace_cpu_limits/cpu", "trace_transfer_bound"
MISSING = float("nan")


def steps(
    *, kernels: float = 0.0, copies: float = 0.0, exchange: float = 0.0, wait: float = 0.0, **where: str
) -> list[Edit]:
    """What a profiled step of the variants on the accelerator went into; the rest is the host's."""
    shares = {
        **dict.fromkeys((f"{part}_share" for part in STEP_PARTS), 0.0),
        "kernel_share": kernels,
        "memcpy_share": copies,
        "exposed_copy_share": copies,
        "communication_share": exchange,
        "loader_share": wait,
        "other_share": 1 - kernels - copies - exchange - wait,
    }
    return [Edit(table="step_shares", where={"device": "cuda", **where}, cells=shares)]


def steps_on_cpu(**parts: float) -> list[Edit]:
    """What a profiled step of the variants on the CPU went into."""
    shares = {**dict.fromkeys(STEP_PARTS, 0.0), **parts}
    cells = {f"{part}_share": share for part, share in shares.items()}
    return [Edit(table="step_shares", where={"device": "cpu"}, cells=cells)]


def ceiling(achieved_of_roof: float, roof: str = "compute") -> Edit:
    cells = {**figure("achieved_flops_per_s", 1e12 * achieved_of_roof, 1e9), "roof_flops_per_s": 1e12, "roof": roof}
    return Edit(table="efficiency", where={"variant": VARIANT}, cells=cells)


EVEN = steps(kernels=0.3, copies=0.2, wait=0.2)
NOTHING_TOLD = steps(kernels=MISSING)
ON_CPU_EVEN = steps_on_cpu(operator=0.4, other=0.3, loader=0.3)
CASES = [
    Case(finding=LIMITS, verdict="yes", edits=steps(kernels=0.9)),
    Case(finding=LIMITS, verdict="no", edits=EVEN),
    Case(finding=LIMITS, verdict="not resolved", edits=NOTHING_TOLD),
    Case(finding=ON_CPU, verdict="yes", edits=steps_on_cpu(operator=0.9, other=0.1)),
    Case(finding=ON_CPU, verdict="no", edits=ON_CPU_EVEN),
    Case(finding=ON_CPU, verdict="not resolved", edits=steps_on_cpu(operator=MISSING)),
    Case(finding=COPYING, verdict="yes", edits=[*steps(copies=0.05), *steps(copies=0.3, variant=VARIANT)]),
    Case(finding=COPYING, verdict="no", edits=steps(copies=0.1)),
    Case(finding=COPYING, verdict="not resolved", edits=steps(copies=MISSING)),
]


def found(finding: str, *edits: Edit) -> Finding:
    return Case(finding=finding, verdict="yes", edits=edits).derive()


def limit_of_variant(*edits: Edit, variant: str = VARIANT, finding: str = LIMITS) -> tuple[str, str, str]:
    """The label of its evidence, the number without interval, and the table."""
    (one,) = [part for part in found(finding, *edits).evidence if part.variant == variant]
    return one.label, one.value.partition(" (")[0], one.table


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_steps_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


@pytest.mark.parametrize(
    ("parts", "limit", "share"),
    [
        ({"kernels": 0.7, "copies": 0.1}, "operations that are not shown to come near a ceiling", "70.0"),
        ({"copies": 0.7, "kernels": 0.1}, "copies", "70.0"),
        ({"exchange": 0.7, "kernels": 0.1}, "exchange between processes", "70.0"),
        ({"wait": 0.7, "kernels": 0.2}, "waiting for data", "70.0"),
        ({"wait": 0.1, "kernels": 0.1, "copies": 0.1}, "the host, which starts the work", "70.0"),
    ],
)
def test_the_part_that_takes_more_than_half_of_a_step_limits_it(parts: Any, limit: str, share: str) -> None:
    label, value, table = limit_of_variant(*steps(**parts))

    assert (label, table) == (f"limit: {limit}", "step_shares")
    assert value.startswith(share)


@pytest.mark.parametrize(("roof", "words"), [("compute", "arithmetic"), ("memory", "the device's memory")])
def test_a_ceiling_that_timed_runs_came_near_limits_whatever_the_trace_says(roof: str, words: str) -> None:
    label, value, table = limit_of_variant(ceiling(0.8, roof), *NOTHING_TOLD)

    assert (label, table) == (f"limit: {words} at its ceiling", "efficiency")
    assert value.startswith("80.0")
    assert limit_of_variant(ceiling(0.3, roof), *NOTHING_TOLD)[2] == "trace_doubts"


def test_half_of_a_step_is_the_largest_part_and_no_limit() -> None:
    assert limit_of_variant(*steps(kernels=0.5, wait=0.3))[0].startswith("largest part, no limit: operations")


def test_what_took_less_time_than_its_roof_allows_is_not_limited_by_it() -> None:
    assert limit_of_variant(ceiling(1.2), *steps(kernels=0.9))[2] == "step_shares"


def test_a_processor_that_waits_for_data_is_limited_by_it() -> None:
    label, value, _ = limit_of_variant(*steps_on_cpu(operator=0.2, loader=0.8), variant=CPU_VARIANT, finding=ON_CPU)

    assert label == "limit: waiting for data"
    assert value.startswith("80.0")


def test_variants_are_counted_by_what_limits_them_and_those_that_no_part_limits_apart() -> None:
    others = steps(kernels=0.3, copies=0.2, wait=0.2, variant="cnn-large-cuda-b64-w0-fp32-e3")
    edits = [*steps(kernels=0.1), *steps(kernels=0.8, variant=VARIANT), *others]

    statement = found(LIMITS, *edits).statement

    assert "in 31 of 32 profiled variants" in statement
    assert "not shown to come near a ceiling in 1, U-Net 128px on CUDA (batch size 16, data on the device)" in statement
    assert "the host, which starts the work in 30, most of all" in statement
    assert "In the other one no part is shown to take more than half." in statement


def test_a_limit_of_few_variants_is_not_that_of_most() -> None:
    finding = found(LIMITS, *EVEN, *steps(kernels=0.9, variant=VARIANT))

    assert finding.verdict == "no"
    assert "in 1 of 32 profiled variants: operations" in finding.statement
    assert "In the other 31 no part is shown to take more than half." in finding.statement


def test_a_trace_whose_steps_are_spoiled_is_named_with_the_check_and_decides_nothing() -> None:
    spoiled = Edit(table="trace_doubts", where={"variant": UNTOLD}, cells={"check": "durations", "spoils": "steps"})
    gone = steps(kernels=MISSING, variant=UNTOLD)

    finding = found(LIMITS, spoiled, *gone)

    assert limit_of_variant(spoiled, *gone, variant=UNTOLD) == (
        "limit not told by the trace",
        "it failed the check 'durations'",
        "trace_doubts",
    )
    assert finding.statement.endswith("One more trace does not tell it reliably.")


def test_every_profiled_variant_has_its_limit_in_the_evidence() -> None:
    tables, _ = base()
    evidence = [part.variant for finding in (LIMITS, ON_CPU) for part in found(finding).evidence]

    assert sorted(evidence) == sorted(tables.step_shares["variant"])


def test_copies_are_told_with_the_largest_first() -> None:
    finding = found(COPYING, *steps(copies=0.05), *steps(copies=0.3, variant=VARIANT))

    assert "in 1 of 32 profiled variants, most of all in U-Net 128px on CUDA" in finding.statement
    assert finding.evidence[0].variant == VARIANT
    assert finding.evidence[0].value.startswith("30.0")


@pytest.mark.parametrize("name", ["limits", "transfer_bound"])
def test_without_an_accelerator_nothing_is_asked_about_one(name: str) -> None:
    tables, _ = base(("cpu",))
    (scope,) = (scope for scope in chapter_scopes(tables) if scope.name == TRACE)
    asked: list[Any] = [one for rule in RULES if rule.name == name for one in rule.findings(scope)]

    assert not asked
