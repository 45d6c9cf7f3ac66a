import re

from gpu_report.answers.questions import derive_findings
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
    assert measured == f"Measured 0 configurations (without numbers: {failed} failed)."
    assert gain == "Nothing was trained."
    assert "not measured" in follows
