from dataclasses import replace

import pytest

from gpu_report.findings.rules import derive_findings
from gpu_report.study.options import is_bound
from gpu_report.writing.machine import headline
from tests.factories import make_record, make_study, make_tables
from tests.report.synthetic import tables_of
from tests.unit.findings.shared import base_of_shared


def lines(*devices: str) -> tuple[str, str, str]:
    study = make_study(devices=devices)
    tables = tables_of(*devices)
    return headline(tables, derive_findings(tables, study.experiments), [{"action": "Use the GPU"}])


def test_the_advice_of_the_headline_is_the_first_row_of_the_decision_table() -> None:
    assert lines("cpu", "cuda")[2].endswith(" First advice: Use the GPU.")


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "cuda")])
def test_the_headline_is_three_short_lines_of_plain_text(devices: tuple[str, ...]) -> None:
    assert len(lines(*devices)) == 3
    assert all(
        line and "\n" not in line and "\\" not in line and "nan" not in line
        for line in lines(*devices)
    )


def test_with_an_accelerator_the_headline_is_its_speedup() -> None:
    assert "U-Net 128px 48.0×" in lines("cpu", "cuda")[1]


def test_a_model_is_reported_with_its_size_and_over_whole_epochs_if_trained_over_them() -> None:
    gain = lines("cpu", "cuda")[1]

    assert "U-Net 128px" in gain
    assert gain.count("LSTM") == 1


def test_variants_that_ran_out_of_memory_are_counted() -> None:
    assert " (2 ran out of memory)" in lines("cpu", "cuda")[0]


def test_without_one_the_headline_claims_no_speedup() -> None:
    measured, gain, _ = lines("cpu")

    assert measured.startswith("Measured 14 of 14 configurations on CPU")
    assert gain.startswith("No GPU was measured")
    assert "×" not in gain


def test_the_fastest_training_is_no_bound_and_names_the_devices_that_shared_it() -> None:
    _, tables = base_of_shared()
    shared = tables.variants[tables.variants["devices"] > 1].copy()
    bounds = shared["options"].map(is_bound)
    shared["throughput_per_s"] = bounds.map({True: 9000.0, False: 8000.0})
    assert bounds.any()

    gain = headline(replace(tables, variants=shared, experiments={}), [], [])[1]

    assert "8000 samples/s on 2 devices" in gain


def test_the_speedup_over_one_gpu_is_that_of_the_fastest_weak_scaling() -> None:
    _, tables = base_of_shared()
    scaled = tables.scaling_efficiency
    weak = (
        scaled[scaled["is_weak"] & (scaled["devices"] > 1) & (scaled["device"] != "cpu")]
        .head(2)
        .copy()
    )
    weak["workload"], weak["size"] = weak["workload"].iloc[0], weak["size"].iloc[0]
    weak["throughput_per_s"], weak["base_speedup"] = [100.0, 200.0], [1.9, 1.7]
    weak["base_speedup_low"], weak["base_speedup_high"] = (
        weak["base_speedup"] - 0.1,
        weak["base_speedup"] + 0.1,
    )

    gain = headline(replace(tables, scaling_efficiency=weak, experiments={}), [], [])[1]

    assert "1.70" in gain
    assert "1.90" not in gain
    assert (
        "over one GPU"
        not in headline(replace(tables, scaling_efficiency=weak.head(0), experiments={}), [], [])[1]
    )

    bounds = tables.variants.assign(options="nocomm")
    of_bounds = headline(
        replace(tables, variants=bounds, scaling_efficiency=weak, experiments={}), [], []
    )[1]
    assert "over one GPU" not in of_bounds


def test_a_study_of_which_nothing_was_measured_says_so() -> None:
    study = make_study(devices=("cpu",))
    records = [make_record(variant.slug, status="failed") for variant in study.variants]
    tables = make_tables(study, records)

    measured, gain, follows = headline(tables, derive_findings(tables, study.experiments), [])

    assert measured == "Measured 0 of 14 configurations."
    assert "nothing" in gain
    assert " yes" not in follows
    assert "not measured" in follows
