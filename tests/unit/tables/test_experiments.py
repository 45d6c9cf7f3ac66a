"""Variants are compared with the baseline of their own group, and with nothing else."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from gpu_report.errors import RecordError
from gpu_report.study.study import Experiment
from gpu_report.study.variant import Variant
from gpu_report.tables.marks import Today
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import summarise
from gpu_report.traces.memory import ALLOCATIONS
from tests.factories import (
    CODE_DIGEST,
    ENVIRONMENT,
    PROTOCOL,
    make_record,
    make_records,
    make_study,
)
from tests.tabulated import tabulate_experiment
from tests.trace_frames import make_trace_tables

TODAY = Today(code_digest=CODE_DIGEST, protocol=PROTOCOL)
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


def test_a_speedup_of_a_run_with_itself_is_one() -> None:
    row = tabulate_experiment(
        experiment_of(CPU, CUDA), [make_record(CPU), make_record(CUDA)], today=TODAY
    ).iloc[0]

    assert row["is_baseline"]
    assert list(row[["speedup", "speedup_low", "speedup_high", "time_reduction_percent"]]) == [
        1.0,
        1.0,
        1.0,
        0.0,
    ]


def test_devices_with_more_samples_per_step_have_no_speedup_over_one_process_with_fewer() -> None:
    plain, shared = "lstm-cuda-b16-w0-fp32-e3", "lstm-cuda-b{}-w0-fp32-e3-ddp2"
    slugs = (plain, shared.format(16), shared.format(32))
    experiment = experiment_of(*slugs, axis="parallelism", baseline="single")

    rows = tabulate_experiment(experiment, [make_record(slug) for slug in slugs], today=TODAY)

    assert rows["speedup"].isna().tolist() == [False, False, True]
    assert rows["group"].nunique() == 2


def test_a_machine_twice_as_fast_has_the_same_speedups() -> None:
    slow = [make_record(CPU, throughput_per_s=100.0), make_record(CUDA, throughput_per_s=700.0)]
    fast = [make_record(CPU, throughput_per_s=200.0), make_record(CUDA, throughput_per_s=1400.0)]
    columns = ["speedup", "speedup_low", "speedup_high"]

    tables = [
        tabulate_experiment(experiment_of(CPU, CUDA), records, today=TODAY)[columns]
        for records in (slow, fast)
    ]

    assert tables[0].iloc[1].tolist() == pytest.approx(tables[1].iloc[1].tolist())


def test_each_group_has_its_own_baseline() -> None:
    study = make_study()
    complexity = next(
        experiment for experiment in study.experiments if experiment.name == "complexity"
    )

    table = tabulate_experiment(complexity, make_records(study), today=TODAY)

    assert dict(table.groupby("group")["is_baseline"].sum()) == {"cnn cuda": 1}
    assert set(table.loc[table["is_baseline"], "size"]) == {"small"}


@pytest.mark.parametrize(
    ("axis", "baseline", "slugs", "groups"),
    [
        ("device", "cpu", [CPU, CUDA], ["cnn medium", "cnn medium"]),
        ("batch_size", 64, [CPU, CUDA], ["cnn medium cpu", "cnn medium cuda"]),
        (
            "device",
            "cpu",
            [CPU, CPU.replace("b64", "b8")],
            ["cnn medium batch 64", "cnn medium batch 8"],
        ),
        (
            "device",
            "cpu",
            [CPU, CPU + "x5"],
            ["cnn medium whole epochs", "cnn medium 5 steps per epoch"],
        ),
        (
            "device",
            "cpu",
            ["lstm-cpu-b8-w0-fp32-e2", "unet-32px-cpu-b16-w2-fp32-e2"],
            ["lstm", "unet 32px"],
        ),
    ],
)
def test_a_groups_name_says_what_its_variants_share_and_no_more_than_distinguishes_it(
    axis: str, baseline: Any, slugs: list[str], groups: list[str]
) -> None:
    experiment = experiment_of(*slugs, axis=axis, baseline=baseline)

    table = tabulate_experiment(experiment, [make_record(slug) for slug in slugs], today=TODAY)

    assert list(table["group"]) == groups


@pytest.mark.parametrize("broken", [CPU, CUDA])
def test_without_both_sides_measured_there_is_no_speedup(broken: str) -> None:
    records = [make_record(slug, status="oom" if slug == broken else "ok") for slug in (CPU, CUDA)]

    table = tabulate_experiment(experiment_of(CPU, CUDA), records, today=TODAY)

    assert table["speedup"].isna().tolist() == [broken == CPU, True]
    assert table["is_baseline"].tolist() == [True, False]


def test_a_group_without_the_baseline_has_no_speedup() -> None:
    table = tabulate_experiment(experiment_of(CUDA), [make_record(CUDA)], today=TODAY)

    assert table["speedup"].isna().all()
    assert not table["is_baseline"].any()


def test_rows_follow_the_experiment_whatever_the_order_of_the_records() -> None:
    study = make_study()
    records = make_records(study)
    experiment = replace(study.experiments[1], variants=study.experiments[1].variants[::-1])

    table = tabulate_experiment(
        experiment, random.Random(2).sample(records, len(records)), today=TODAY
    )

    assert list(table["variant"]) == [variant.slug for variant in experiment.variants]
    assert table.equals(tabulate_experiment(experiment, records, today=TODAY))


def test_a_variant_without_a_record_is_an_error_that_says_how_to_measure_it() -> None:
    with pytest.raises(
        RecordError,
        match=f"experiment try: variant {CUDA} has no record; measure it with gpu-report run",
    ):
        tabulate_experiment(experiment_of(CPU, CUDA), [make_record(CPU)], today=TODAY)


UNET_CPU, UNET_CUDA = "unet-128px-cpu-b16-w0-fp32-e2x3", "unet-128px-cuda-b16-w0-fp32-e5"


def test_a_cpu_that_trains_for_fewer_steps_is_still_the_accelerators_baseline() -> None:
    records = [
        make_record(UNET_CPU, throughput_per_s=2.0),
        make_record(UNET_CUDA, throughput_per_s=50.0),
    ]

    table = tabulate_experiment(experiment_of(UNET_CPU, UNET_CUDA), records, today=TODAY)

    assert list(table["group"]) == ["unet 128px", "unet 128px"]
    assert list(table["is_baseline"]) == [True, False]
    assert table["speedup"].iloc[1] == pytest.approx(25)
    assert list(table["marks"]) == ["projected", ""]


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


def test_trainings_of_two_lengths_share_the_one_baseline_there_is() -> None:
    slugs = [CPU + "x5", CUDA + "x5", CUDA.replace("e3", "e5")]

    table = tabulate_experiment(
        experiment_of(*slugs), [make_record(slug) for slug in slugs], today=TODAY
    )

    assert table["group"].nunique() == 1
    assert table["speedup"].notna().all()


def test_variants_that_differ_in_more_than_their_length_are_not_compared() -> None:
    slugs = [CPU.replace("b64", "b16"), CUDA]

    table = tabulate_experiment(
        experiment_of(*slugs), [make_record(slug) for slug in slugs], today=TODAY
    )

    assert table["group"].nunique() == 2
    assert table["speedup"].isna().tolist() == [False, True]


def test_every_variant_of_the_default_study_has_a_baseline_in_its_group() -> None:
    study = make_study()
    records = make_records(study)

    for experiment in study.experiments:
        if experiment.axis == "parallelism" or not experiment.variants:
            continue  # where devices share a training, a base is measured in turn with it
        table = tabulate_experiment(experiment, records, today=TODAY)
        compared = table[
            ~table["options"].str.contains("highscale")
        ]  # shows overflows, and is compared with nothing
        assert set(compared.groupby("group")["is_baseline"].sum()) == {1}, experiment.name
        assert compared.loc[compared["status"] == "ok", "speedup"].notna().all()


def test_optimizations_are_compared_with_the_eager_baseline_in_the_order_of_the_configuration() -> (
    None
):
    slugs = [
        f"lstm-cuda-b64-{rest}"
        for rest in ("w0-fp32-e3", "w4-fp32-e3", "w0-fp32-e3-pinned", "w4-fp32-e3-pinned")
    ]
    experiment = experiment_of(*slugs, axis="optimization", baseline="none")

    table = tabulate_experiment(experiment, [make_record(slug) for slug in slugs], today=TODAY)

    assert list(table["optimization"]) == ["none", "workers4", "pinned", "workers4+pinned"]
    assert list(table["is_baseline"]) == [True, False, False, False]
    assert set(table["group"]) == {"lstm cuda"}


def test_workloads_of_different_sizes_are_one_group_along_the_axis_of_workloads() -> None:
    slugs = [CUDA, "resnet18-cuda-b64-w0-fp32-e3"]
    experiment = experiment_of(*slugs, axis="workload", baseline="cnn")

    table = tabulate_experiment(experiment, [make_record(slug) for slug in slugs], today=TODAY)

    assert list(table["group"]) == ["cuda", "cuda"]
    assert list(table["is_baseline"]) == [True, False]


@pytest.mark.parametrize(
    ("per_s", "steps"),
    [(200.0, math.ceil(30 / (0.64 - 0.32))), (100.0, math.nan), (50.0, math.nan)],
)
def test_compiling_breaks_even_after_the_steps_whose_saved_time_is_as_long(
    per_s: float, steps: float
) -> None:
    slugs = ["lstm-cuda-b64-w0-fp32-e3", "lstm-cuda-b64-w0-fp32-e3-compile"]
    experiment = experiment_of(*slugs, axis="optimization", baseline="none")
    records = [
        make_record(slugs[0], throughput_per_s=100.0),
        make_record(slugs[1], throughput_per_s=per_s),
    ]

    table = tabulate_experiment(experiment, records, today=TODAY)

    assert table["break_even_steps"].tolist() == pytest.approx([math.nan, steps], nan_ok=True)


def test_time_that_chance_may_have_saved_pays_for_nothing() -> None:
    slugs = ["lstm-cuda-b64-w0-fp32-e3", "lstm-cuda-b64-w0-fp32-e3-compile"]
    experiment = experiment_of(*slugs, axis="optimization", baseline="none")
    records = [
        make_record(slugs[0], throughput_per_s=100.0),
        make_record(slugs[1], throughput_per_s=102.0, noise=0.1),
    ]

    table = tabulate_experiment(experiment, records, today=TODAY)

    assert table["speedup"].iloc[1] > 1 > table["speedup_low"].iloc[1]
    assert table["break_even_steps"].isna().all()


def test_a_record_of_another_pytorch_than_its_baselines_is_marked() -> None:
    older: dict[str, str | int | float | None] = {**ENVIRONMENT, "torch": "2.11.0"}
    records = [make_record(CPU), make_record(CUDA, environment=older)]

    table = tabulate_experiment(experiment_of(CPU, CUDA), records, today=TODAY)

    assert list(table["marks"]) == ["", "other software"]


def test_an_experiment_with_a_target_says_how_long_each_variant_trained_to_it() -> None:
    records = [make_record(CPU, throughput_per_s=100.0), make_record(CUDA, throughput_per_s=400.0)]
    experiment = experiment_of(CPU, CUDA)

    table = tabulate_experiment(replace(experiment, target=0.2), records, today=TODAY)
    without = tabulate_experiment(experiment, records, today=TODAY)

    assert table["time_to_target_s"].iloc[0] > table["time_to_target_s"].iloc[1] > 0
    assert set(table["target"]) == {0.2}
    assert without[["target", "time_to_target_s"]].isna().all(axis=None)


def test_the_workspace_is_that_of_the_convolution_which_held_most_on_the_variants_own_device() -> (
    None
):
    traces = {CUDA: make_trace_tables(CUDA)}
    held = {row["operation"]: row["within_call_mib"] for row in traces[CUDA][ALLOCATIONS]}

    table = tabulate_experiment(
        experiment_of(CPU, CUDA), [make_record(CPU), make_record(CUDA)], traces, today=TODAY
    )

    assert math.isnan(table["convolution_workspace_mib"].iloc[0])
    assert table["convolution_workspace_mib"].iloc[1] == held["aten::convolution_backward"]
