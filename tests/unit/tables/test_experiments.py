"""Variants are compared with the baseline of their own group, and with nothing else."""

import math
from typing import Any

import pytest

from gpu_report.errors import RecordError
from gpu_report.study.study import Experiment
from gpu_report.study.variant import Variant
from gpu_report.tables.marks import Today
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import summarise
from tests.factories import CODE_DIGEST, make_record
from tests.tabulated import tabulate_experiment
from tests.unit.tables.changed import of_class

TODAY = Today(code_digest=CODE_DIGEST)
CPU, CUDA = "cnn-medium-cpu-b64-w0-fp32-e3", "cnn-medium-cuda-b64-w0-fp32-e3"


def experiment_of(*slugs: str, axis: str = "device", baseline: Any = "cpu") -> Experiment:
    variants = tuple(map(Variant.from_slug, slugs))
    return Experiment(
        name="try", question="Which?", axis=axis, baseline=baseline, variants=variants
    )


def test_a_speedup_is_the_ratio_of_throughputs_with_its_interval() -> None:
    records = [
        make_record(CPU, throughput_per_s=100.0, noise=0.1),
        make_record(CUDA, throughput_per_s=500.0, noise=0.0),
    ]

    row = tabulate_experiment(experiment_of(CPU, CUDA), records, today=TODAY).iloc[1]
    baseline = summarise(process_values(records[0])["throughput_per_s"])

    assert row["speedup"] == pytest.approx(5.0)
    assert (row["speedup_low"], row["speedup_high"]) == pytest.approx(
        (500 / baseline.high, 500 / baseline.low)
    )
    assert row["time_reduction_percent"] == pytest.approx(80.0)
    assert not row["is_baseline"]


def test_a_speedup_of_a_run_with_itself_is_one_and_without_a_baseline_there_is_none() -> None:
    row = tabulate_experiment(
        experiment_of(CPU, CUDA), [make_record(CPU), make_record(CUDA)], today=TODAY
    ).iloc[0]
    alone = tabulate_experiment(experiment_of(CUDA), [make_record(CUDA)], today=TODAY)

    assert row["is_baseline"]
    columns = ["speedup", "speedup_low", "speedup_high", "time_reduction_percent"]
    assert list(row[columns]) == [1.0, 1.0, 1.0, 0.0]
    assert alone["speedup"].isna().all()
    assert not alone["is_baseline"].any()


def test_two_versions_of_a_users_class_are_never_compared() -> None:
    digests = {"my_model:MyModel": "new"}
    old, new = of_class(make_record(CPU), "old"), of_class(make_record(CUDA), "new")

    table = tabulate_experiment(
        experiment_of(CPU, CUDA),
        [old, new],
        today=Today(code_digest=CODE_DIGEST, workload_digests=digests),
    )

    assert table["speedup"].tolist() == pytest.approx([1.0, math.nan], nan_ok=True)
    assert table["marks"].tolist() == ["other class", "other class"]


@pytest.mark.parametrize("broken", [CPU, CUDA])
def test_without_both_sides_measured_there_is_no_speedup(broken: str) -> None:
    records = [make_record(slug, status="oom" if slug == broken else "ok") for slug in (CPU, CUDA)]

    table = tabulate_experiment(experiment_of(CPU, CUDA), records, today=TODAY)

    assert table["speedup"].isna().tolist() == [broken == CPU, True]
    assert table["is_baseline"].tolist() == [True, False]


def test_a_variant_without_a_record_is_an_error_that_says_how_to_measure_it() -> None:
    with pytest.raises(
        RecordError,
        match=f"experiment try: variant {CUDA} has no record; measure it with gpu-report run",
    ):
        tabulate_experiment(experiment_of(CPU, CUDA), [make_record(CPU)], today=TODAY)


@pytest.mark.parametrize("order", [1, -1])
def test_a_baseline_with_a_twin_of_its_own_is_not_taken_for_a_longer_training(order: int) -> None:
    short = [CPU + "x5", CUDA + "x5"]
    long = [CPU.replace("e3", "e2x3"), CUDA.replace("e3", "e5")]
    slugs = [*short, *long][::order]

    table = tabulate_experiment(
        experiment_of(*slugs), [make_record(slug) for slug in slugs], today=TODAY
    )

    groups = table.groupby("group", sort=False)["variant"].agg(set)
    assert list(groups) == [set(short), set(long)][::order]
    assert table["group"].nunique() == 2


def test_trainings_of_two_lengths_share_the_one_baseline_there_is_and_no_other_batch() -> None:
    slugs = [CPU + "x5", CUDA + "x5", CUDA.replace("e3", "e5"), CUDA.replace("b64", "b16")]

    table = tabulate_experiment(
        experiment_of(*slugs), [make_record(slug) for slug in slugs], today=TODAY
    )

    assert table["group"].nunique() == 2
    assert table["speedup"].isna().tolist() == [False, False, False, True]


TUNED = "cnn-medium-cpu-b64-w0-bf16-e1x4-channelslast"


@pytest.mark.parametrize("order", [(CPU, CUDA, TUNED), (TUNED, CUDA, CPU)])
def test_a_gpu_is_compared_with_the_eager_cpu_and_with_the_fastest(order: tuple[str, ...]) -> None:
    speeds = {CPU: 100.0, CUDA: 500.0, TUNED: 250.0}
    records = [make_record(slug, throughput_per_s=speed) for slug, speed in speeds.items()]

    table = tabulate_experiment(experiment_of(*order), records, today=TODAY)

    rows = table.set_index("variant").loc[[*speeds]]
    assert rows["group"].nunique() == 1
    assert rows["is_baseline"].tolist() == [True, False, False]
    assert rows["speedup"].tolist() == pytest.approx([1.0, 5.0, 2.5])
    assert rows["fastest_cpu_speedup"].isna().tolist() == [True, False, True]
    assert rows["fastest_cpu_speedup"].iloc[1] == pytest.approx(2.0)


def test_a_cpu_that_trains_another_batch_has_a_group_of_its_own() -> None:
    slugs = [CPU, CUDA, TUNED.replace("b64", "b16")]

    table = tabulate_experiment(
        experiment_of(*slugs), [make_record(slug) for slug in slugs], today=TODAY
    )

    assert table["group"].nunique() == 2
    assert table["fastest_cpu_speedup"].isna().all()


@pytest.mark.parametrize(
    ("per_s", "noise", "steps"),
    [
        # 2000 samples in 32 steps, the last of them smaller.
        (200.0, 0.0, math.ceil(30 / ((20.0 - 10.0) / 32))),
        (102.0, 0.1, math.nan),  # chance may have saved it
        (100.0, 0.02, math.nan),
        (50.0, 0.02, math.nan),
    ],
)
def test_compiling_breaks_even_after_the_steps_whose_saved_time_is_as_long(
    per_s: float, noise: float, steps: float
) -> None:
    slugs = ["lstm-cuda-b64-w0-fp32-e3", "lstm-cuda-b64-w0-fp32-e3-compile"]
    experiment = experiment_of(*slugs, axis="optimization", baseline="none")
    records = [
        make_record(slugs[0], throughput_per_s=100.0),
        make_record(slugs[1], throughput_per_s=per_s, noise=noise),
    ]

    table = tabulate_experiment(experiment, records, today=TODAY)

    assert table["break_even_steps"].tolist() == pytest.approx([math.nan, steps], nan_ok=True)
