from dataclasses import replace

from gpu_report.findings.derive import derive_findings
from gpu_report.study.options import is_bound
from gpu_report.writing.headline import headline
from tests.factories import make_record, make_study, make_tables
from tests.unit.findings.shared import base_of_shared


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


def test_a_study_of_which_nothing_was_measured_claims_nothing() -> None:
    study = make_study(devices=("cpu",))
    records = [make_record(variant.slug, status="failed") for variant in study.variants]
    tables = make_tables(study, records)

    measured, gain, follows = headline(tables, derive_findings(tables, study.experiments), [])

    assert measured == "Measured 0 of 14 configurations."
    assert "nothing" in gain
    assert "×" not in gain
    assert "not measured" in follows
