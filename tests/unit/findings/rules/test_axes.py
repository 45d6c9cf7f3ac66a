import math
import re
from typing import Any

from gpu_report.findings.finding import Verdict
from gpu_report.findings.rules import derive_findings
from tests.unit.findings.editing import (
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
        f"{GENERIC}_quality_cost/{GROUP}",
        yes=[FASTEST, numbers(2, **unpaired_quality(0.7, 0.01))],
        no=[FASTEST],
        unresolved=[FASTEST, numbers(2, **unpaired_quality(0.83, 0.1))],
        missing=[FASTEST, numbers(2, **unpaired_quality(float("nan")))],
    ),
    *cases(
        f"{GENERIC}_memory_cost/{GROUP}",
        yes=[FASTEST, numbers(2, **figure("memory_peak_mib", 900, 5))],
        no=[FASTEST],
        unresolved=[FASTEST, numbers(2, **figure("memory_peak_mib", 350, 60))],
        missing=[numbers(0, **LOST)],
    ),
    *cases(
        f"{ACROSS_WORKLOADS}_best/{ACROSS}",
        yes=(),
        no=[images(**figure("speedup", 0.5))],
        unresolved=[images(marks="background load")],
        missing=[images(**LOST)],
    ),
]


def test_an_experiment_that_no_rule_knows_is_recommended_its_best_value() -> None:
    found = Case(finding=f"{GENERIC}_best/{GROUP}", verdict="yes", edits=[FASTEST]).derive()

    assert found.question == "Which seed trains fastest?"
    assert found.recommendation == "Train image CNN with seed 2 instead of seed 0."
    assert found.gain == 1.5


def test_workloads_are_compared_in_speed_without_advice_and_not_in_quality() -> None:
    tables, study = base()
    found = [
        finding
        for finding in derive_findings(tables, study.experiments)
        if finding.experiment == ACROSS_WORKLOADS
    ]

    assert [finding.id for finding in found] == [
        f"{ACROSS_WORKLOADS}_{name}/{ACROSS}" for name in ("best", "backward")
    ]
    assert found[0].statement.startswith("Training was fastest with image CNN on JPEG files")
    assert not found[0].recommendation


def test_workloads_that_solve_different_tasks_are_not_ranked_by_speed() -> None:
    tables, study = base()
    other = Edit(table=ACROSS_WORKLOADS, where={"workload": "lstm"}, cells={"quality_chance": 0.1})

    found = derive_findings(edited(tables, other), study.experiments)

    assert f"{ACROSS_WORKLOADS}_best/{ACROSS}" not in [finding.id for finding in found]


def test_noise_in_time_casts_no_doubt_on_quality() -> None:
    noisy = numbers(2, marks="background load")

    found = Case(
        finding=f"{GENERIC}_quality_cost/{GROUP}", verdict="no", edits=[FASTEST, noisy]
    ).derive()

    assert found.verdict == "no"


def test_what_may_be_as_fast_as_the_fastest_is_named_beside_it() -> None:
    near = {**figure("throughput_per_s", 1900.0, 200.0), **figure("speedup", 1.9, 0.1)}
    far = {**figure("throughput_per_s", 500.0, 10.0), **figure("speedup", 0.5, 0.1)}
    top = {**figure("throughput_per_s", 2000.0, 200.0), **figure("speedup", 2.0, 0.1)}
    cells = {"bf16": top, "fp16": near, "tf32": far}
    edits = [
        Edit(table="precision", where={"precision": name}, cells=values)
        for name, values in cells.items()
    ]

    found = Case(finding="precision_best/unet_64px_cuda", verdict="yes", edits=edits).derive()

    assert found.statement.endswith("; not significantly slower: precision fp16.")


def test_what_is_in_doubt_is_not_called_as_fast_as_the_fastest() -> None:
    far = {
        **figure("throughput_per_s", 500.0, 10.0),
        **figure("speedup", 0.5, 0.1),
        "marks": "background load",
    }
    top = {**figure("throughput_per_s", 2000.0, 200.0), **figure("speedup", 2.0, 0.1)}
    cells: dict[str, dict[str, Any]] = {"bf16": top, "fp16": {**far, "marks": ""}, "tf32": far}
    edits = [
        Edit(table="precision", where={"precision": name}, cells=values)
        for name, values in cells.items()
    ]

    found = Case(finding="precision_best/unet_64px_cuda", verdict="yes", edits=edits).derive()

    assert found.statement.endswith("; times with a quality flag: precision tf32.")


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
    *cases(
        f"precision_memory/{PRECISION_GROUP}",
        yes=[precision("fp32", **figure("memory_peak_mib", 4000, 10))],
        no=[precision(name, **figure("memory_peak_mib", 1000, 10)) for name in ("fp32", *SHORTER)],
        unresolved=[
            precision(name, **figure("memory_peak_mib", 1000, 160)) for name in ("fp32", *SHORTER)
        ],
        missing=[precision("fp32", **PRECISION_LOST)],
    ),
    *cases(
        f"precision_skipped/{PRECISION_GROUP}",
        yes=[precision("fp16", skipped_steps=5.0)],
        no=[precision("fp16", skipped_steps=0.0)],
        missing=[precision("fp16", **PRECISION_LOST)],
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

    assert "held-out perplexity with precision fp16 42" in derive("yes", 42.0)
    assert "the highest held-out perplexity is 40.1" in derive("no", 20.0)
    assert "the interval includes a loss of 2 %" in derive("not resolved", 41.0, 1.0)


def test_a_metric_beyond_1_is_compared_by_its_own_size() -> None:
    scores = [precision(name, **unpaired_quality(30.0)) for name in ("fp32", *SHORTER)]
    finding = f"precision_quality/{PRECISION_GROUP}"

    lower = Case(
        finding=finding, verdict="no", edits=[*scores, precision("fp16", **unpaired_quality(29.8))]
    ).derive()
    lost = Case(
        finding=finding, verdict="yes", edits=[*scores, precision("fp16", **unpaired_quality(29.0))]
    ).derive()

    assert (lower.verdict, lost.verdict) == ("no", "yes")


def test_a_workload_without_a_metric_is_measured_in_everything_else() -> None:
    nothing = {"quality_name": "", "quality_chance": math.nan, **unpaired_quality(math.nan)}
    edits = [precision(name, **nothing) for name in ("fp32", *SHORTER)]

    quality = Case(
        finding=f"precision_quality/{PRECISION_GROUP}", verdict="not measured", edits=edits
    ).derive()
    best = Case(finding=f"precision_best/{PRECISION_GROUP}", verdict="yes", edits=edits).derive()

    assert "has no held-out metric" in quality.statement
    assert best.verdict == "yes"


def test_skipped_steps_are_reported_of_all_steps_and_with_the_last_scale() -> None:
    scaled = precision("fp16", skipped_steps=5.0, loss_scale_last=1024.0)

    found = Case(
        finding=f"precision_skipped/{PRECISION_GROUP}", verdict="yes", edits=[scaled]
    ).derive()

    assert "skipped 5 of its 945 steps" in found.statement
    assert "the last loss scale was 1024" in found.statement


def test_a_format_that_each_seed_learns_worse_in_is_named_though_the_seeds_differ_more() -> None:
    lost = precision(
        "fp16", **figure("quality", 0.80, 0.1), **figure("quality_change", -0.05, 0.01)
    )

    found = Case(
        finding=f"precision_quality/{PRECISION_GROUP}", verdict="yes", edits=[lost]
    ).derive()

    assert found.verdict == "yes"
    assert "precision fp16 0.80" in found.statement


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
HELP, ENOUGH, WAIT = (
    f"workers_help/{WORKERS_GROUP}",
    f"workers_enough/{WORKERS_GROUP}",
    f"workers_data_wait/{WORKERS_GROUP}",
)
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
        verdict="not resolved",
        edits=[*BEST_FOUR, loaders(0, marks="background load")],
    ),
    *cases(
        ENOUGH,
        yes=BEST_FOUR,
        no=throughputs(100, 200, 300, 400),
        unresolved=throughputs(100, 200, 300, 315, spread=10),
        missing=ALONE,
    ),
    Case(finding=ENOUGH, verdict="yes", edits=throughputs(300, 200, 200, 200)),
    *cases(
        WAIT,
        yes=[*BEST_FOUR, loaders(0, **figure("data_wait_share", 0.5, 0.02))],
        no=[*BEST_FOUR, loaders(0, **figure("data_wait_share", 0.1, 0.01))],
        unresolved=[*BEST_FOUR, loaders(0, **figure("data_wait_share", 0.14, 0.05))],
        missing=ALONE,
    ),
]


def test_the_fewest_processes_within_five_per_cent_of_the_fastest_are_recommended() -> None:
    edits = [*throughputs(100, 295, 300, 300), *speedups(2.95, 3.0, 3.0)]

    found = Case(finding=ENOUGH, verdict="yes", edits=edits).derive()

    assert found.recommendation == "Load image CNN on JPEG files with 2 DataLoader workers."
    assert found.gain == 2.95


def test_loading_in_the_training_process_is_recommended_where_it_is_fastest() -> None:
    edits = [*throughputs(300, 200, 240, 200), *speedups(0.67, 0.8, 0.67)]

    found = Case(finding=HELP, verdict="no", edits=edits).derive()

    assert found.recommendation == "Load image CNN on JPEG files with 0 DataLoader workers."
    assert found.gain == 1.25


BACKWARD = f"{ACROSS_WORKLOADS}_backward/cpu"
LSTM = "lstm-cpu-b32-w0-fp32-e3"


def phase(name: str, **cells: object) -> Edit:
    return Edit(table="phases", where={"phase": name}, cells=cells)


PHASES_LOST = Edit(
    table=ACROSS_WORKLOADS, where={}, cells={"status": "failed", "reason": "RuntimeError: no"}
)
PHASES_CASES = [
    *cases(
        BACKWARD,
        yes=[phase("backward", share=0.6)],
        no=[phase("backward", share=0.4)],
        missing=[PHASES_LOST],
    ),
    Case(
        finding=BACKWARD,
        verdict="no",
        edits=[
            phase("backward", share=0.6),
            Edit(
                table="phases", where={"phase": "backward", "variant": LSTM}, cells={"share": 0.3}
            ),
        ],
    ),
]


def test_phases_that_a_trace_does_not_show_are_no_lack_of_a_profile() -> None:
    gone = Edit(table="phases", where={}, cells={"share": math.nan})

    found = Case(finding=BACKWARD, verdict="not measured", edits=[gone]).derive()

    assert found.verdict == "not measured"
    assert f"the trace of {LSTM} is not reliable" in found.statement


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


def marked(marks: str) -> Edit:
    return Edit(
        table="variants", where={"variant": "unet-64px-cuda-b8-w0-bf16-e3"}, cells={"marks": marks}
    )


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
        "energy_held_back",
        yes=[marked("throttled")],
        no=(),
        missing=[Edit(table="variants", where={}, cells=figure("power_w", float("nan")))],
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


def test_every_kind_of_hold_is_counted() -> None:
    found = Case(
        finding="energy_held_back", verdict="yes", edits=[marked("power capped;shared device")]
    ).derive()

    assert re.search(r"power capped in 1 of \d+ configurations", found.statement)
    assert re.search(r"shared device in 1 of \d+ configurations", found.statement)


CASES = [*ANY_AXIS_CASES, *PRECISION_CASES, *WORKERS_CASES, *PHASES_CASES, *ENERGY_CASES]
