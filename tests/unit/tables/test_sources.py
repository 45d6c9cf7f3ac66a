"""The sources' figures, typed a second time, and ours beside them where the same training was
measured.
"""

import math
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from gpu_report.records.record import Record, Status
from gpu_report.study.study import Study, load_study
from gpu_report.study.variant import Variant
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.marks import MEANINGS, Today
from gpu_report.tables.sources import ReportedFigure, reported
from gpu_report.traces.phases import PHASES
from gpu_report.traces.steps import STEPS
from gpu_report.writing.rows import notes_on_source, results_of_sources
from tests.factories import CODE_DIGEST, make_record
from tests.tabulated import tabulate_sources
from tests.trace_frames import make_trace_tables

PROJECT = Path(__file__).parents[3]
FIGURES = {
    ("A1", "parameters", "cuda"): 31_037_763,
    ("A1", "training_time_s", "cpu"): 1081.55,
    ("A1", "training_time_s", "cuda"): 52.38,
    ("A1", "speedup", "cuda"): 20.65,
    ("A1", "time_reduction_percent", "cuda"): 95.2,
    ("A1", "quality", "cpu"): 1.000,
    ("A1", "quality", "cuda"): 0.993,
    ("A2", "parameters", "cuda"): 2_400_000,
    ("A2", "training_time_s", "cpu"): 270.92,
    ("A2", "training_time_s", "cuda"): 20.62,
    ("A2", "speedup", "cuda"): 13.14,
    ("A2", "time_reduction_percent", "cuda"): 92.4,
    ("A2", "quality", "cpu"): 1.00,
    ("A2", "quality", "cuda"): 1.00,
    ("A5", "category_speedup", "convolution"): 30,
    ("B2", "training_time_s", "ResNet-50 on ImageNet: fp32 (10 h)"): 10 * 3600,
    ("B2", "training_time_s", "ResNet-50 on ImageNet: fp16 (3.5 h)"): 3.5 * 3600,
    ("B2", "ratio", "resnet50"): 3,
    ("B2", "training_time_s", "BERT-Large: fp32 (7 days)"): 7 * 24 * 3600,
    ("B2", "training_time_s", "BERT-Large: fp16 (2 days)"): 2 * 24 * 3600,
    ("B2", "ratio", "transformer"): 3.5,
    ("B3", "time_percent", "dp4"): 70,
    ("B3", "time_percent", "ddp4"): 30,
    ("C1", "parameters", 64): 11_200_000,
    ("C1", "throughput_per_s", 16): 11.2,
    ("C1", "throughput_per_s", 32): 354.6,
    ("C1", "throughput_per_s", 64): 933.0,
    ("C1", "throughput_per_s", 128): 1948.6,
    ("C1", "throughput_per_s", 256): 2827.6,
    ("C1", "memory_percent", 16): 1.6,
    ("C1", "memory_percent", 32): 1.6,
    ("C1", "memory_percent", 64): 1.6,
    ("C1", "memory_percent", 128): 1.7,
    ("C1", "memory_percent", 256): 2.1,
    ("C1", "memory_peak_mib", 256): 290,
    ("C2", "device_time_percent", "forward"): 86.94,
    ("C2", "device_time_percent", "convolution"): 62.02,
    ("C2", "device_time_percent", "cuDNN"): 25.56,
    ("C2", "profiled_time_ms", "forward"): 44,
    ("C2", "profiled_time_ms", "aten::convolution_backward"): 1.57,
    (
        "C2",
        "profiled_time_ms",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    ): 0.263,
    ("C2", "utilisation_percent", 64): 98.2,
    ("C6", "ratio", 256): 1.25,
    ("C6", "quality", 256): 0.69,
    ("C6", "training_time_s", 256): 7.6,
    ("E1", "training_time_s", "cpu"): 215.34,
    ("E1", "epoch_time_s", "1"): 72.11,
    ("E1", "epoch_time_s", "2"): 71.58,
    ("E1", "epoch_time_s", "3"): 71.65,
    ("E2", "training_time_s", 16): 34.15,
    ("E2", "training_time_s", 64): 13.88,
    ("E2", "training_time_s", 256): 8.51,
    ("E2", "training_time_s", 1024): 6.97,
    ("E2", "memory_peak_mib", 16): 215.45,
    ("E2", "memory_peak_mib", 64): 231.19,
    ("E2", "memory_peak_mib", 256): 295.94,
    ("E2", "memory_peak_mib", 1024): 555.44,
    ("E3", "parameters", "small"): 30_000,
    ("E3", "parameters", "medium"): 410_000,
    ("E3", "parameters", "large"): 6_690_000,
    ("E3", "training_time_s", "small"): 5.89,
    ("E3", "training_time_s", "medium"): 7.91,
    ("E3", "training_time_s", "large"): 28.52,
    ("E3", "memory_peak_mib", "small"): 260.12,
    ("E3", "memory_peak_mib", "medium"): 310.44,
    ("E3", "memory_peak_mib", "large"): 815.81,
    ("E4", "training_time_s", 0): 11.85,
    ("E4", "training_time_s", 2): 8.41,
    ("E4", "training_time_s", 4): 7.95,
    ("E4", "training_time_s", 8): 7.99,
}
"""The list of the sources' figures, typed apart from sources.yaml, so that one typed wrong in
either differs. 25 % faster is a ratio of 1.25.
"""
DERIVED = {
    ("C1", "ratio", 64): 933.0 / 354.6,
    ("C1", "ratio", 128): 1948.6 / 933.0,
    ("C1", "ratio", 256): 2827.6 / 1948.6,
    ("E2", "speedup", 1024): 34.15 / 6.97,
    ("E3", "speedup", "small"): 28.52 / 5.89,
    ("E4", "speedup", 2): 11.85 / 8.41,
    ("E4", "speedup", 4): 11.85 / 7.95,
    ("E4", "speedup", 8): 11.85 / 7.99,
}
"""What the sources leave to their readers, from the figures above; rounded in sources.yaml."""
DISTINGUISHED_BY = {
    "A1": "device",
    "A2": "device",
    "B2": "workload",
    "B3": "parallelism",
    "C1": "batch_size",
    "C2": "batch_size",
    "C6": "batch_size",
    "E1": "device",
    "E2": "batch_size",
    "E3": "size",
    "E4": "workers",
}
FASTER = {
    "PyTorch on the GPU over the CPU": ("cpu", "none", "cuda", "none"),
    "shared memory over PyTorch": ("cuda", "none", "cuda", "sharedsums"),
    "fused over separate": ("cuda", "separate", "cuda", "fusedstep"),
}
GPU, CPU = "unet-128px-cuda-b16-w0-fp32-e5", "unet-128px-cpu-b16-w0-fp32-e5"


def study_on(*devices: str) -> Study:
    config = yaml.safe_load((PROJECT / "config/sources.yaml").read_text("utf-8"))
    return load_study(config, devices=devices)


@pytest.fixture(scope="module")
def study() -> Study:
    return study_on("cpu", "cuda", "cuda:1", "cuda:2", "cuda:3")


def record_of(
    study: Study, variant: str, *, throughput_per_s: float = 100.0, status: Status = "ok"
) -> Record:
    return make_record(
        variant,
        measurement=study.measurement(variant),
        throughput_per_s=throughput_per_s,
        status=status,
        first_epoch_ratio=3.0,
        facts={"train_samples": 500},
    )


def table_of(study: Study, *records: Record, traces: Any = MappingProxyType({})) -> Any:
    today = Today(code_digest=CODE_DIGEST)
    return tabulate_sources(records, traces, today=today)


def rows(study: Study, *records: Record, **options: Any) -> list[Any]:
    return list(rows_of(table_of(study, *records, **options)))


def printed_rows(study: Study, *records: Record) -> list[Any]:
    table = table_of(study, *records)
    return [
        row for compared in (True, False) for row in results_of_sources(table, compared=compared)
    ]


def row_of(found: list[Any], variant: str, metric: str) -> Any:
    return next(row for row in found if row["variant"] == variant and row["metric"] == metric)


def key_of(figure: ReportedFigure) -> tuple[str, str, object]:
    """What the figure is of, without the words: its part, or what its row compares."""
    if figure.part or not figure.variant:
        return figure.row, figure.metric, figure.part or figure.measured
    field = DISTINGUISHED_BY[figure.row]
    return figure.row, figure.metric, getattr(Variant.from_slug(figure.variant), field)


def test_every_figure_of_the_sources_is_there_as_they_report_it() -> None:
    numbers = {key_of(each): each.value for each in reported().figures if each.value is not None}

    derived = {key: numbers.pop(key) for key in DERIVED}
    assert numbers == pytest.approx(FIGURES, rel=1e-12)
    assert derived == pytest.approx(DERIVED, rel=5e-4)


def test_what_the_sources_say_is_faster_is_compared_at_every_size() -> None:
    compared = {
        (first.batch_size, first.device, first.options, second.device, second.options)
        for figure in reported().figures
        if figure.value is None and figure.variant
        for first, second in [[*map(Variant.from_slug, (figure.over, figure.variant))]]
    }

    sizes = (8_000, 80_000, 800_000, 4_000_000)
    assert compared == {(size, *pair) for size in sizes for pair in FASTER.values()}


def test_the_study_of_the_sources_measures_every_training_that_has_a_figure(study: Study) -> None:
    asked = {variant.slug for variant in study.variants}

    for figure in reported().figures:
        if not figure.variant:
            assert figure.differs, f"{figure.measured} has no variant and no reason"
            continue
        assert {figure.variant, figure.over or figure.variant} <= asked
        settings = study.measurement(figure.variant).workload.settings
        assert (
            reported().settings[study.variant(figure.variant).workload].items() <= settings.items()
        )


@pytest.mark.parametrize("devices", [["cpu"], ["cpu", "cuda"]])
def test_a_machine_with_fewer_devices_leaves_out_what_needs_more(
    study: Study, devices: list[str]
) -> None:
    there = study_on(*devices).variants

    assert there
    assert set(there) < set(study.variants)
    assert all(variant.devices == 1 and variant.device in devices for variant in there)


def test_a_figure_without_a_record_is_not_measured(study: Study) -> None:
    found = rows(study, record_of(study, GPU))

    assert len(found) == len(reported().figures)
    assert math.isfinite(row_of(found, GPU, "training_time_s")["ours"])
    assert math.isnan(row_of(found, GPU, "speedup")["ours"])
    printed = {row["measured"] for row in printed_rows(study, record_of(study, GPU))}
    assert "U-Net: training on the GPU" in printed
    assert "U-Net: training on the CPU" not in printed


def test_the_time_is_that_of_all_epochs_and_the_ratio_ours_over_theirs(study: Study) -> None:
    row = row_of(rows(study, record_of(study, GPU, throughput_per_s=100.0)), GPU, "training_time_s")

    assert row["ours"] == pytest.approx((3 + 4) * 500 / 100, rel=0.01)
    assert row["ratio"] == pytest.approx(row["ours"] / 52.38)
    assert (row["ratio_low"], row["ratio_high"]) == pytest.approx(
        (row["ours_low"] / 52.38, row["ours_high"] / 52.38)
    )


def values(found: list[Any], row: str, metric: str) -> list[float]:
    return [each["ours"] for each in found if (each["row"], each["metric"]) == (row, metric)]


def test_the_time_of_a_shared_training_is_that_of_the_same_samples_on_one_gpu(
    study: Study,
) -> None:
    alone, shared = (f"resnet18-cuda-b1024-w0-fp32-e2x20{end}" for end in ("", "-ddp4"))
    found = rows(
        study,
        record_of(study, alone, throughput_per_s=100.0),
        record_of(study, shared, throughput_per_s=400.0),
    )

    dp, ddp = values(found, "B3", "time_percent")
    assert math.isnan(dp)
    assert ddp == pytest.approx(25, rel=0.05)


def test_memory_is_a_share_of_what_the_source_has(study: Study) -> None:
    record = record_of(study, "resnet18-cuda-b16-w0-fp32-e3")
    found = rows(study, record)

    peaks_mib = [each.memory_peak_mib for each in record.repetitions]
    assert values(found, "C1", "memory_percent")[0] == pytest.approx(
        100 * 2**20 * sum(peaks_mib) / len(peaks_mib) / 15.8e9, rel=0.01
    )


def test_epochs_are_shown_one_by_one_and_sum_to_the_training(study: Study) -> None:
    found = rows(study, record_of(study, "cnn-medium-cpu-b64-w0-fp32-e3"))

    epochs = values(found, "E1", "epoch_time_s")
    assert len(epochs) == 3
    assert values(found, "E1", "training_time_s") == [pytest.approx(sum(epochs), rel=1e-3)]


def test_shares_of_the_profiled_step_are_those_of_its_trace(study: Study) -> None:
    profiled = "resnet18-cuda-b64-w0-fp32-e3"
    traces = {profiled: make_trace_tables(profiled)}
    found = rows(study, record_of(study, profiled), traces=traces)

    own = [row for row in traces[profiled][PHASES] if row["device"] != "cpu"]
    (forward,) = (row for row in own if row["phase"] == "forward")
    cudnn_ms, all_ms = (sum(row[name] for row in own) for name in ("cudnn_ms", "self_ms"))
    shown = {row["part"]: row["ours"] for row in found if row["metric"] == "device_time_percent"}
    assert shown["forward"] == pytest.approx(100 * forward["self_ms"] / all_ms)
    assert shown["cuDNN"] == pytest.approx(100 * cudnn_ms / all_ms)
    (step_ms, *_) = values(found, "C2", "profiled_time_ms")
    assert step_ms == pytest.approx(forward["self_ms"] / len(traces[profiled][STEPS]))


def test_convolutions_of_two_profiled_devices_are_compared(study: Study) -> None:
    traces = {slug: make_trace_tables(slug) for slug in (GPU, CPU)}
    found = rows(study, record_of(study, GPU), record_of(study, CPU), traces=traces)

    assert math.isfinite(*values(found, "A5", "category_speedup"))
    assert math.isnan(*values(rows(study, record_of(study, GPU)), "A5", "category_speedup"))


def test_what_cannot_be_measured_has_the_reason_in_the_table_alone(study: Study) -> None:
    loops = [
        record_of(study, f"linear_regression-cuda-b8000-w0-fp32-e2x200{end}")
        for end in ("", "-sharedsums")
    ]

    without = [row for row in rows(study, *loops) if row["row"] == "D3" and not row["variant"]]

    assert len(without) == 4
    assert all("one launch" in row["differs"] for row in without)
    (printed,) = printed_rows(study, *loops)
    assert (printed["theirs in words"], printed["variant"]) == ("faster", loops[1].variant)


@pytest.mark.parametrize(
    ("faster", "here"), [(4.0, "holds"), (1.0, "too close to call"), (0.5, "does not hold")]
)
def test_a_comparison_says_whether_it_holds_here(study: Study, faster: float, here: str) -> None:
    names = [f"resnet50-224px-cuda-b64-w0-{each}-e2-resident" for each in ("fp32", "fp16")]
    records = [
        record_of(study, name, throughput_per_s=speed)
        for name, speed in zip(names, (100.0, 100.0 * faster), strict=True)
    ]

    (row,) = results_of_sources(table_of(study, *records), compared=True)

    assert (row["measured"], row["here"]) == ("ResNet-50: fp16 over fp32", here)


def test_a_flag_of_either_side_is_about_their_ratio(study: Study) -> None:
    names = [f"resnet50-224px-cuda-b64-w0-{each}-e2-resident" for each in ("fp32", "fp16")]
    noisy, quiet = (
        make_record(name, measurement=study.measurement(name), noise=noise)
        for name, noise in zip(names, (0.3, 0.001), strict=True)
    )

    (row,) = results_of_sources(table_of(study, noisy, quiet), compared=True)

    assert any("wider than" in note for note in map(MEANINGS.get, notes_on_source(row)) if note)
