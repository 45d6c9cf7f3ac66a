import pytest

from tests.unit.findings.editing import Case, Edit

ON_CPU, ON_CUDA = "unet-64px-cpu-b8-w0-fp32-e3x6", "unet-64px-cuda-b8-w0-fp32-e3x6"
FINDING = "device_operations/unet_64px_cuda"


def times(variant: str, *, convolutions: float, others: float) -> list[Edit]:
    """Milliseconds in the three profiled steps: in convolutions, and in each other kind."""
    of_variant = {"variant": variant}
    return [
        Edit(table="category_shares", where=of_variant, cells={"self_ms": others}),
        Edit(table="category_shares", where={**of_variant, "category": "convolution"}, cells={"self_ms": convolutions}),
    ]


def gaining(convolutions: float, others: float) -> list[Edit]:
    """Factors by which the accelerator shrinks the time of convolutions, and of each other kind."""
    on_cpu = times(ON_CPU, convolutions=300, others=30)
    return [*on_cpu, *times(ON_CUDA, convolutions=300 / convolutions, others=30 / others)]


GONE = Edit(table="category_shares", where={"variant": ON_CUDA}, cells={"variant": "gone"})
UNSURE = Edit(
    table="device", where={"variant": ON_CUDA}, cells={"speedup_low": 2.0, "speedup": 5.0, "speedup_high": 9.0}
)
CASES = [
    Case(finding=FINDING, verdict="yes", edits=gaining(40, 20)),
    Case(finding=FINDING, verdict="no", edits=gaining(20, 40)),
    Case(finding=FINDING, verdict="not resolved", edits=gaining(40, 39)),
    Case(finding=FINDING, verdict="not resolved", edits=[*gaining(40, 20), UNSURE]),
    Case(finding=FINDING, verdict="not measured", edits=[GONE]),
    Case(finding="device_operations", verdict="not measured", devices=("cpu",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_times_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_times_are_those_of_one_step_and_gains_those_of_both_kinds() -> None:
    found = Case(finding=FINDING, verdict="yes", edits=gaining(40, 20)).derive()

    assert "a step spent 2.50 ms in them instead of 100 ms on the CPU" in found.statement
    assert "a gain of 40.0 times, against 20.0 times for the others" in found.statement


def test_an_operation_that_one_device_alone_runs_is_left_out() -> None:
    alone = Edit(
        table="category_shares", where={"variant": ON_CPU, "category": "pooling"}, cells={"category": "data loading"}
    )

    without = Case(finding=FINDING, verdict="yes", edits=[*gaining(40, 20), alone]).derive()

    assert "against 20.0 times for the others" in without.statement


def test_a_training_without_convolutions_is_not_asked() -> None:
    none = [
        Edit(table="category_shares", where={"variant": variant, "category": "convolution"}, cells={"category": "fold"})
        for variant in (ON_CPU, ON_CUDA)
    ]

    with pytest.raises(ValueError, match="not enough values"):
        Case(finding=FINDING, verdict="not measured", edits=none).derive()


def test_series_of_batch_sizes_are_not_asked() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        Case(finding="crossover_operations", verdict="not measured").derive()
