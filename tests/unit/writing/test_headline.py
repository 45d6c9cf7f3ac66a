from dataclasses import replace

from gpu_report.findings.rules import derive_findings
from gpu_report.study.options import is_bound
from gpu_report.writing.machine import headline
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


def test_a_study_of_which_nothing_was_measured_claims_nothing() -> None:
    study = make_study(devices=("cpu",))
    records = [make_record(variant.slug, status="failed") for variant in study.variants]
    tables = make_tables(study, records)

    measured, gain, follows = headline(tables, derive_findings(tables, study.experiments), [])

    assert measured == f"Measured 0 of {len(study.variants)} configurations."
    assert "nothing" in gain
    assert "×" not in gain
    assert "not measured" in follows
