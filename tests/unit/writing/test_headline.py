import re

from gpu_report.answers.questions import derive_findings
from gpu_report.records.record import Status
from gpu_report.writing.cards import chains
from gpu_report.writing.machine import headline
from tests.factories import make_record, make_study, make_tables
from tests.unit.answers.editing import base


def test_the_headline_has_the_chain_of_each_model() -> None:
    tables, study = base()

    gain = headline(tables, chains(tables), derive_findings(tables, study.experiments), [])[1]

    assert re.search(r"U-Net 64px: CPU .* samples/s .*, eager .*×, fastest .*×", gain)


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
