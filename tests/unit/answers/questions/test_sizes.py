import math
from collections.abc import Sequence

import pytest

from gpu_report.answers.finding import Verdict
from tests.unit.answers.editing import Case, Edit, cases, figure, unpaired_quality

LOST = {"status": "oom", "reason": "out of memory: tried to allocate 2.00 GiB of 8.00 GiB"}


def batch(size: int, **cells: object) -> Edit:
    return Edit(table="batch_size", where={"batch_size": size}, cells=cells)


def throughputs(*rates: float, spread: float = 1.0) -> list[Edit]:
    pairs = zip((16, 64, 256, 1024), rates, strict=True)
    return [batch(size, **figure("throughput_per_s", rate, spread)) for size, rate in pairs]


FINDING = "batch_size_smaller/cnn_medium_cuda"
QUALITY = "batch_size_quality/cnn_medium_cuda"
BATCH_SIZE_CASES = [
    *cases(
        FINDING,
        yes=throughputs(1000, 2000, 2100, 2150),
        no=throughputs(1000, 2000, 4000, 8000),
        unresolved=throughputs(1000, 2000, 3000, 3100, spread=100.0),
        missing=[batch(size, **LOST) for size in (64, 256, 1024)],
    ),
    *cases(
        FINDING,
        no=throughputs(8000, 4000, 2000, 1000),
        unresolved=[*throughputs(1000, 2000, 2980, 3000), batch(256, marks="throttled")],
    ),
    *cases(
        QUALITY,
        yes=[batch(1024, **unpaired_quality(0.5, 0.05))],
        no=[batch(1024, **unpaired_quality(0.86, 0.005))],
        unresolved=[batch(1024, **unpaired_quality(0.82, 0.05))],
        missing=[batch(size, **LOST) for size in (64, 256, 1024)],
    ),
]


def paired(change: float, spread: float) -> Edit:
    """Qualities that overlap between the batch sizes, and what each seed says of their
    difference.
    """
    return batch(1024, **figure("quality", 0.82, 0.05), **figure("quality_change", change, spread))


PAIRED: list[tuple[Edit, Verdict]] = [
    (paired(-0.05, 0.01), "yes"),
    (paired(0.0, 0.01), "no"),
    (paired(-0.02, 0.01), "too close to call"),
]


@pytest.mark.parametrize(("edit", "verdict"), PAIRED, ids=[verdict for _, verdict in PAIRED])
def test_the_same_seeds_decide_where_qualities_overlap_between_them(
    edit: Edit, verdict: Verdict
) -> None:
    found = Case(finding=QUALITY, verdict=verdict, edits=[edit]).derive()

    assert found.verdict == verdict
    assert "; seed by seed it changed by " in found.statement
    assert found.evidence[0].label == "change of held-out accuracy by seed"


def advice(*edits: Edit, verdict: Verdict) -> str:
    faster = [batch(size, **figure("speedup", 2.0, 0.1)) for size in (64, 256, 1024)]
    return Case(finding=FINDING, verdict=verdict, edits=[*edits, *faster]).derive().recommendation


FASTEST = "Train image CNN with batch size {}, the fastest batch size measured{}."


@pytest.mark.parametrize(
    ("rates", "edits", "verdict", "fastest", "smaller"),
    [
        ((300, 446, 473, 501), (), "no", 1024, ""),  # small gains in a row
        (
            (1000, 2100, 2090, 2150),
            (),
            "yes",
            1024,
            "; the smallest within 5 % of it is batch size 64",
        ),
        ((1000, 2000, 4000, 8000), (batch(1024, **LOST),), "no", 256, ""),
        ((1000, 4000, 3990, 3980), (), "no", 64, ""),  # larger ones are not nearly as fast
    ],
)
def test_the_fastest_that_fits_is_recommended_with_the_smallest_that_is_nearly_as_fast(
    rates: Sequence[float], edits: Sequence[Edit], verdict: Verdict, fastest: int, smaller: str
) -> None:
    found = advice(*throughputs(*rates), *edits, verdict=verdict)

    assert found == FASTEST.format(fastest, smaller)


def test_nothing_is_recommended_where_the_baseline_is_as_fast() -> None:
    edits = [*throughputs(8000, 4000, 2000, 1000), batch(64, **figure("speedup", 0.5, 0.1))]

    assert Case(finding=FINDING, verdict="no", edits=edits).derive().recommendation == ""


def test_a_batch_that_trained_too_few_steps_for_a_quality_is_not_recommended() -> None:
    rates = throughputs(300, 446, 473, 501)

    assert advice(*rates, batch(1024, optimizer_steps=30), verdict="no")
    assert advice(*rates, batch(1024, optimizer_steps=29), verdict="no") == ""


def test_fewer_than_three_processes_name_a_smaller_batch_without_a_verdict() -> None:
    few = {
        "throughput_per_s_count": 2,
        "throughput_per_s_low": math.nan,
        "throughput_per_s_high": math.nan,
    }
    edits = [
        *throughputs(1000, 2000, 2100, 2150),
        *(batch(size, **few) for size in (16, 64, 256, 1024)),
    ]

    found = Case(finding=FINDING, verdict="too close to call", edits=edits).derive()

    assert "batch size 256 reached" in found.statement
    assert "2 processes give no 95 % interval" in found.statement


def timed(**seconds: float) -> list[Edit]:
    """What each batch size took to a target of 0.7; the others did not reach it."""
    times = {size: figure("time_to_target_s", math.nan) for size in (16, 64, 256, 1024)}
    times |= {
        int(size[1:]): figure("time_to_target_s", value, 0.1) for size, value in seconds.items()
    }
    return [batch(size, target=0.7, **cells) for size, cells in times.items()]


def test_with_a_target_the_batch_that_reaches_it_first_is_recommended_instead_of_the_fastest() -> (
    None
):
    edits = [*throughputs(1000, 2000, 4000, 8000), *timed(b16=4.0, b64=2.0, b256=3.0)]
    faster = [batch(size, **figure("speedup", 2.0, 0.1)) for size in (64, 256, 1024)]

    quality = Case(finding=QUALITY, verdict="no", edits=edits).derive()
    fastest = Case(finding=FINDING, verdict="no", edits=[*edits, *faster]).derive()

    assert "soonest with batch size 64, after 2.0" in quality.statement
    assert "batch size 1024 did not reach it" in quality.statement
    assert (
        quality.recommendation
        == "Train image CNN with batch size 64: it reaches accuracy 0.7 first."
    )
    assert (quality.gain, fastest.recommendation) == (None, "")


@pytest.mark.parametrize(
    "seconds",
    [{"b16": 1.0, "b64": 2.0}, {"b16": 4.0, "b64": 2.0, "b256": 2.05}, {}],
    ids=["the baseline is first", "two are as soon as each other", "nothing reaches it"],
)
def test_no_batch_is_recommended_that_does_not_reach_the_target_first(
    seconds: dict[str, float],
) -> None:
    found = Case(finding=QUALITY, verdict="no", edits=timed(**seconds)).derive()

    assert found.recommendation == ""
    assert ("No batch size reached 0.7" in found.statement) == (not seconds)
    assert ("later with batch size 256" in found.statement) == (seconds.get("b256") == 2.05)


def test_a_batch_of_fewer_than_30_optimizer_steps_is_left_out_of_the_quality_with_the_reason() -> (
    None
):
    edits = [
        batch(1024, optimizer_steps=6, **unpaired_quality(0.1)),
        batch(256, **unpaired_quality(0.86, 0.005)),
    ]

    found = Case(finding=QUALITY, verdict="no", edits=edits).derive()

    assert found.verdict == "no"
    assert found.statement.endswith(
        "fewer than 30 optimizer steps were made with batch size 1024 (6)."
    )


SIZE_LOST = {"status": "failed", "reason": "RuntimeError: boom"}


def step_times(small: float, medium: float, large: float, spread: float = 0.01) -> list[Edit]:
    return [
        Edit(
            table="complexity",
            where={"device": "cpu", "size": size},
            cells=figure("step_time_ms", value, spread),
        )
        for size, value in {"small": small, "medium": medium, "large": large}.items()
    ]


LARGER_LOST = [
    Edit(table="complexity", where={"size": size}, cells=SIZE_LOST) for size in ("medium", "large")
]
OVERHEAD = "complexity_overhead/cnn_cpu"


def contexts(
    small: float, medium: float, large: float, *, spread: float = 1.0, parameters: int = 1000
) -> list[Edit]:
    """Tokens per second of samples of 10, 20 and 40 tokens; `parameters` are those of the largest,
    others have 1000.
    """
    return [
        Edit(
            table="complexity",
            where={"device": "cpu", "size": size},
            cells={
                **figure("tokens_per_s", value, spread),
                "throughput_per_s": value / tokens,
                "parameters": parameters if size == "large" else 1000,
            },
        )
        for size, value, tokens in [
            ("small", small, 10),
            ("medium", medium, 20),
            ("large", large, 40),
        ]
    ]


SIZE_CASES = [
    *cases(
        "complexity_longer/cnn_cpu",
        yes=contexts(1000, 900, 800),
        no=contexts(1000, 1100, 1200),
        unresolved=contexts(1000, 1000, 1000, spread=100),
    ),
    # A larger model with a longer context says nothing of the context.
    *cases("complexity_longer/cnn_cpu", no=contexts(1000, 1100, 100, parameters=2000)),
    *cases(
        OVERHEAD,
        yes=step_times(1, 1.2, 20),
        no=step_times(1, 10, 20),
        unresolved=step_times(1, 3.7, 20, spread=0.2),
        missing=LARGER_LOST,
    ),
]


CASES = [*BATCH_SIZE_CASES, *SIZE_CASES]
