import re

import pandas as pd

from gpu_report.answers.questions import derive_findings
from gpu_report.records.record import Status
from gpu_report.writing.cards import chains
from gpu_report.writing.machine import headline
from tests.factories import make_record, make_study, make_tables, with_tables
from tests.unit.answers.editing import base


def test_the_headline_has_the_chain_of_each_model() -> None:
    tables, study = base()

    gain = headline(tables, chains(tables), derive_findings(tables, study.experiments), [])[1]

    assert re.search(r"U-Net 64px: CPU .* samples/s .*, eager .*×, fastest .*×", gain)


def test_the_headline_says_what_the_longer_step_of_several_gpus_consists_of() -> None:
    tables, _ = base(("cpu", "cuda", "cuda:1"))
    times_ms = {
        1: {"convolution": 4.5, "idle": 0.5},
        2: {"convolution": 5.0, "communication": 1.0, "idle": 2.0},
    }
    template = tables.step_categories.iloc[0].to_dict()
    parts = [
        {**template, "variant": variant, "category": category, "ms_per_step": time_ms}
        for variant, devices in tables.variants[["variant", "devices"]].values
        for category, time_ms in times_ms[devices].items()
    ]

    gain = headline(with_tables(tables, step_categories=pd.DataFrame(parts)), [], [], [])[1]

    assert (
        "; a step takes 3.00 ms longer: 1.50 ms idle or waiting, 1.00 ms exchange and 0.500 ms "
        "computing and copying)" in gain
    )


def test_a_study_of_which_nothing_was_measured_claims_nothing() -> None:
    study = make_study(devices=("cpu",))
    records = [make_record(variant.slug, status="failed") for variant in study.variants]
    tables = make_tables(study, records)

    measured, gain, follows = headline(
        tables, chains(tables), derive_findings(tables, study.experiments), []
    )

    failed = len(study.variants)
    assert measured == f"Measured 0 configurations; {failed} failed."
    assert gain == "Nothing was trained."
    assert "not measured" in follows


def test_the_headline_counts_what_has_no_numbers_beside_what_has() -> None:
    study = make_study(devices=("cpu",))
    statuses: dict[int, Status] = {0: "oom", 1: "failed", 2: "failed"}
    records = [
        make_record(variant.slug, status=statuses.get(number, "ok"))
        for number, variant in enumerate(study.variants)
    ]

    measured = headline(make_tables(study, records), [], [], [])[0]

    assert measured.startswith(f"Measured {len(records) - 3} configurations on CPU")
    assert measured.endswith("; 1 more ran out of memory and 2 more failed.")
