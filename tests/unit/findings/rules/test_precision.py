import pytest

from tests.unit.findings.editing import Case, Edit, figure, unpaired_quality

LOST = {"status": "oom", "reason": "out of memory"}
GROUP = "unet_64px_cuda"
SHORTER = ("tf32", "fp16", "bf16")


def precision(name: str, **cells: object) -> Edit:
    return Edit(table="precision", where={"precision": name}, cells=cells)


def all_shorter(**cells: object) -> list[Edit]:
    return [precision(name, **cells) for name in SHORTER]


CASES = [
    Case(finding=f"precision_best/{GROUP}", verdict="yes"),
    Case(finding=f"precision_best/{GROUP}", verdict="no", edits=all_shorter(**figure("speedup", 0.8, 0.1))),
    Case(finding=f"precision_best/{GROUP}", verdict="not resolved", edits=all_shorter(**figure("speedup", 1.0, 0.1))),
    Case(finding=f"precision_best/{GROUP}", verdict="not measured", edits=[precision("fp32", **LOST)]),
    Case(finding=f"precision_faster/{GROUP}", verdict="yes"),
    Case(
        finding=f"precision_faster/{GROUP}",
        verdict="no",
        edits=[precision("fp16", **figure("speedup", 0.8, 0.1))],
    ),
    Case(
        finding=f"precision_faster/{GROUP}",
        verdict="not resolved",
        edits=[precision("fp16", **figure("speedup", 1.1, 0.2))],
    ),
    Case(finding=f"precision_faster/{GROUP}", verdict="not resolved", edits=[precision("tf32", marks="throttled")]),
    Case(finding=f"precision_faster/{GROUP}", verdict="not measured", edits=all_shorter(**LOST)),
    Case(
        finding=f"precision_quality/{GROUP}",
        verdict="yes",
        edits=[precision("fp16", **unpaired_quality(0.7, 0.01))],
    ),
    Case(finding=f"precision_quality/{GROUP}", verdict="no"),
    Case(
        finding=f"precision_quality/{GROUP}",
        verdict="not resolved",
        edits=[precision("bf16", **unpaired_quality(0.83, 0.1))],
    ),
    Case(
        finding=f"precision_quality/{GROUP}",
        verdict="not measured",
        edits=all_shorter(**unpaired_quality(float("nan"))),
    ),
    Case(
        finding=f"precision_memory/{GROUP}",
        verdict="yes",
        edits=[precision("fp32", **figure("memory_peak_mib", 4000, 10))],
    ),
    Case(
        finding=f"precision_memory/{GROUP}",
        verdict="no",
        edits=[precision(name, **figure("memory_peak_mib", 1000, 10)) for name in ("fp32", *SHORTER)],
    ),
    Case(
        finding=f"precision_memory/{GROUP}",
        verdict="not resolved",
        edits=[precision(name, **figure("memory_peak_mib", 1000, 160)) for name in ("fp32", *SHORTER)],
    ),
    Case(finding=f"precision_memory/{GROUP}", verdict="not measured", edits=[precision("fp32", **LOST)]),
    Case(finding=f"precision_skipped/{GROUP}", verdict="yes", edits=[precision("fp16", skipped_steps=5.0)]),
    Case(finding=f"precision_skipped/{GROUP}", verdict="no", edits=[precision("fp16", skipped_steps=0.0)]),
    Case(finding=f"precision_skipped/{GROUP}", verdict="not measured", edits=[precision("fp16", **LOST)]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_format_that_is_slower_is_named() -> None:
    slower = precision("fp16", **figure("speedup", 0.8, 0.1))

    found = Case(finding=f"precision_faster/{GROUP}", verdict="no", edits=[slower]).derive()

    assert "with precision fp16 0.80 times (0.70 to 0.90) the speed" in found.statement


def test_the_format_that_loses_quality_is_named() -> None:
    lost = precision("fp16", **unpaired_quality(0.7, 0.01))

    found = Case(finding=f"precision_quality/{GROUP}", verdict="yes", edits=[lost]).derive()

    assert "held-out Dice with precision fp16 0.700" in found.statement


def test_skipped_steps_are_told_of_all_steps_and_with_the_last_scale() -> None:
    scaled = precision("fp16", skipped_steps=5.0, loss_scale_last=1024.0)

    found = Case(finding=f"precision_skipped/{GROUP}", verdict="yes", edits=[scaled]).derive()

    assert "lost 5 of its 945 steps" in found.statement
    assert "the factor of the loss was 1024 at the end" in found.statement


def test_a_format_that_each_seed_learns_worse_in_is_named_though_the_seeds_differ_more() -> None:
    lost = precision("fp16", **figure("quality", 0.80, 0.1), **figure("quality_change", -0.05, 0.01))

    found = Case(finding=f"precision_quality/{GROUP}", verdict="yes", edits=[lost]).derive()

    assert found.verdict == "yes"
    assert "precision fp16 0.80" in found.statement
