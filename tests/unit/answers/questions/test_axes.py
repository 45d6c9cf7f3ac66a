import math

import pytest

from gpu_report.answers.finding import Verdict
from gpu_report.answers.questions import derive_findings
from tests.unit.answers.editing import (
    ACROSS_WORKLOADS,
    GENERIC,
    Case,
    Edit,
    base,
    cases,
    edited,
    figure,
    unpaired_quality,
)

GROUP = "cnn_small_cpu"


def numbers(seed: int, **cells: object) -> Edit:
    return Edit(table=GENERIC, where={"seed": seed}, cells=cells)


def images(**cells: object) -> Edit:
    return Edit(table=ACROSS_WORKLOADS, where={"workload": "image_files"}, cells=cells)


ACROSS = "cpu"
FASTEST = numbers(2, **figure("speedup", 1.5, 0.1))
LOST = {"status": "oom", "reason": "out of memory"}

ANY_AXIS_CASES = [
    *cases(
        f"{GENERIC}_best/{GROUP}",
        yes=[FASTEST],
        no=[numbers(seed, **figure("speedup", 0.8, 0.1)) for seed in (1, 2)],
        unresolved=[numbers(2, **figure("speedup", 1.5, 0.6))],
        missing=[numbers(seed, **LOST) for seed in (1, 2)],
    ),
    *cases(
        f"{GENERIC}_quality/{GROUP}",
        yes=[FASTEST, numbers(2, **unpaired_quality(0.7, 0.01))],
        no=[FASTEST],
        unresolved=[FASTEST, numbers(2, **unpaired_quality(0.83, 0.1))],
        missing=[numbers(seed, **unpaired_quality(math.nan)) for seed in (1, 2)],
    ),
    *cases(
        f"{ACROSS_WORKLOADS}_best/{ACROSS}",
        yes=(),
        no=[images(**figure("speedup", 0.5))],
        unresolved=[images(**figure("speedup", 1.5, 0.1), marks="background load")],
        missing=[images(**LOST)],
    ),
]


def test_workloads_that_solve_different_tasks_are_not_ranked_by_speed() -> None:
    tables, study = base()
    other = Edit(table=ACROSS_WORKLOADS, where={"workload": "lstm"}, cells={"quality_chance": 0.1})

    found = derive_findings(edited(tables, other), study.experiments)

    assert f"{ACROSS_WORKLOADS}_best/{ACROSS}" not in [finding.id for finding in found]


@pytest.mark.parametrize(
    ("fp16", "tf32", "words"),
    [
        ((1900.0, 200.0, ""), (500.0, 10.0, ""), "; not significantly slower: fp16."),
        (
            (500.0, 10.0, ""),
            (1500.0, 10.0, "background load"),
            "; not significantly slower: tf32.",
        ),
    ],
)
def test_what_may_be_as_fast_as_the_fastest_or_is_in_doubt_is_named_beside_it(
    fp16: tuple[float, float, str], tf32: tuple[float, float, str], words: str
) -> None:
    measured = {"bf16": (2000.0, 200.0, ""), "fp16": fp16, "tf32": tf32}
    edits = [
        precision(
            name,
            **figure("throughput_per_s", rate, spread),
            **figure("speedup", rate / 1000, 0.1),
            marks=marks,
        )
        for name, (rate, spread, marks) in measured.items()
    ]

    found = Case(finding="precision_best/unet_64px_cuda", verdict="yes", edits=edits).derive()

    assert found.statement.endswith(words)


def test_the_fastest_that_is_surely_faster_is_named_and_beside_it_what_may_be_faster() -> None:
    sure, unsure = ({**figure("speedup", value, spread)} for value, spread in ((2, 0.1), (2.2, 2)))
    edits = [
        precision("bf16", **figure("throughput_per_s", 2000, 10), **sure),
        precision("fp16", **figure("throughput_per_s", 2200, 900), **unsure),
        precision("tf32", **figure("throughput_per_s", 1000, 10), **figure("speedup", 1, 0.1)),
    ]

    found = Case(finding="precision_best/unet_64px_cuda", verdict="yes", edits=edits).derive()

    assert "fastest with bf16" in found.statement
    assert found.statement.endswith("; not significantly slower: fp16.")


PRECISION_LOST = {"status": "oom", "reason": "out of memory"}
PRECISION_GROUP = "unet_64px_cuda"
SHORTER = ("tf32", "fp16", "bf16")


def precision(name: str, **cells: object) -> Edit:
    return Edit(table="precision", where={"precision": name}, cells=cells)


def all_shorter(**cells: object) -> list[Edit]:
    return [precision(name, **cells) for name in SHORTER]


PRECISION_CASES = [
    *cases(
        f"precision_best/{PRECISION_GROUP}",
        yes=(),
        no=all_shorter(**figure("speedup", 0.8, 0.1)),
        unresolved=all_shorter(**figure("speedup", 1.0, 0.1)),
        missing=[precision("fp32", **PRECISION_LOST)],
    ),
    *cases(
        f"precision_quality/{PRECISION_GROUP}",
        yes=[precision("fp16", **unpaired_quality(0.7, 0.01))],
        no=(),
        unresolved=[precision("bf16", **unpaired_quality(0.83, 0.1))],
        missing=all_shorter(**unpaired_quality(float("nan"))),
    ),
]


def error(name: str, value: float, spread: float = 0.0, **cells: object) -> Edit:
    """In a metric that falls with better models, of which fp32 has 40."""
    falling = {"quality_better": "lower", "quality_name": "perplexity"}
    return precision(name, **falling, **unpaired_quality(value, spread), **cells)


FALLING = [error("fp32", 40.0), *(error(name, 40.1) for name in SHORTER)]


def test_a_metric_that_falls_is_lost_where_it_rises_by_two_per_cent() -> None:
    def derive(verdict: Verdict, value: float, spread: float = 0.0) -> str:
        edits = [*FALLING, error("fp16", value, spread)]
        found = Case(
            finding=f"precision_quality/{PRECISION_GROUP}", verdict=verdict, edits=edits
        ).derive()
        assert found.verdict == verdict
        return found.statement

    assert "held-out perplexity with fp16 42" in derive("yes", 42.0)
    assert "the highest held-out perplexity is 40.1" in derive("no", 20.0)
    assert "the interval includes a loss of 2 %" in derive("too close to call", 41.0, 1.0)


def test_a_workload_without_a_metric_is_measured_in_everything_else() -> None:
    nothing = {"quality_name": "", "quality_chance": math.nan, **unpaired_quality(math.nan)}
    edits = [precision(name, **nothing) for name in ("fp32", *SHORTER)]

    quality = Case(
        finding=f"precision_quality/{PRECISION_GROUP}", verdict="not measured", edits=edits
    ).derive()
    best = Case(finding=f"precision_best/{PRECISION_GROUP}", verdict="yes", edits=edits).derive()

    assert "has no held-out metric" in quality.statement
    assert best.verdict == "yes"


WORKERS_LOST = {"status": "failed", "reason": "RuntimeError: a DataLoader worker was killed"}


def loaders(workers: int, **cells: object) -> Edit:
    return Edit(table="workers", where={"workers": workers}, cells=cells)


def throughputs(*rates: float, spread: float = 1.0) -> list[Edit]:
    pairs = zip((0, 2, 4, 8), rates, strict=True)
    return [loaders(workers, **figure("throughput_per_s", rate, spread)) for workers, rate in pairs]


def speedups(*ratios: float, spread: float = 0.05) -> list[Edit]:
    pairs = zip((2, 4, 8), ratios, strict=True)
    return [loaders(workers, **figure("speedup", ratio, spread)) for workers, ratio in pairs]


ALONE = [loaders(workers, **WORKERS_LOST) for workers in (2, 4, 8)]
BEST_FOUR = throughputs(100, 200, 300, 290)
WORKERS_GROUP = "image_files_cuda"
HELP, ENOUGH = f"workers_help/{WORKERS_GROUP}", f"workers_enough/{WORKERS_GROUP}"
WORKERS_CASES = [
    *cases(
        HELP,
        yes=[*BEST_FOUR, *speedups(2.0, 3.0, 2.9)],
        no=[*BEST_FOUR, *speedups(0.7, 0.8, 0.7)],
        unresolved=[*BEST_FOUR, *speedups(1.0, 1.1, 1.0, spread=0.2)],
        missing=ALONE,
    ),
    Case(
        finding=HELP,
        verdict="too close to call",
        edits=[*BEST_FOUR, *speedups(1.6, 1.7, 1.6), loaders(0, marks="background load")],
    ),
    *cases(
        ENOUGH,
        yes=BEST_FOUR,
        no=throughputs(100, 200, 300, 400),
        unresolved=throughputs(100, 200, 300, 315, spread=10),
        missing=ALONE,
    ),
    Case(finding=ENOUGH, verdict="yes", edits=throughputs(300, 200, 200, 200)),
]


def test_the_fewest_processes_within_five_per_cent_of_the_fastest_are_recommended() -> None:
    edits = [*throughputs(100, 295, 300, 300), *speedups(2.95, 3.0, 3.0)]

    found = Case(finding=ENOUGH, verdict="yes", edits=edits).derive()

    assert found.recommendation == "Train image CNN on JPEG files with 2 DataLoader workers."
    assert found.gain == 2.95


def test_processes_that_help_are_recommended_with_their_gain() -> None:
    found = Case(finding=HELP, verdict="yes", edits=[*BEST_FOUR, *speedups(2.0, 3.0, 2.9)]).derive()

    assert "with 4 DataLoader workers" in found.recommendation
    assert found.gain == 3.0


ENERGY_GROUP = "unet_64px_cuda"
TOP = "fused+resident+compile"
ENERGY_LADDER = f"optimization_energy/{ENERGY_GROUP}"
FINDING = f"precision_energy/{ENERGY_GROUP}"


def joules(name: str, value: float, spread: float = 0.1) -> Edit:
    return Edit(
        table="precision",
        where={"precision": name},
        cells=figure("energy_per_sample_j", value, spread),
    )


def rung(name: str, value: float, spread: float = 0.1) -> Edit:
    cells = figure("energy_per_sample_j", value, spread)
    return Edit(table="optimization", where={"optimization": name}, cells=cells)


UNKNOWN = Edit(table="precision", where={}, cells=figure("energy_per_sample_j", float("nan")))
ENERGY_CASES = [
    *cases(
        FINDING,
        yes=[joules("fp32", 10), joules("bf16", 4)],
        no=[joules("fp32", 4), joules("bf16", 10)],
        unresolved=[joules("fp32", 10, 1.0), joules("bf16", 10, 1.0)],
        missing=[UNKNOWN],
    ),
    *cases(
        ENERGY_LADDER,
        yes=[rung("none", 10), rung(TOP, 4)],
        no=[rung("none", 4), rung(TOP, 10)],
        unresolved=[rung("none", 10, 1.0), rung(TOP, 10, 1.0)],
        missing=[
            Edit(table="optimization", where={}, cells=figure("energy_per_sample_j", float("nan")))
        ],
    ),
]


CASES = [*ANY_AXIS_CASES, *PRECISION_CASES, *WORKERS_CASES, *ENERGY_CASES]
