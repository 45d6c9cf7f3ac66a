from collections.abc import Mapping
from dataclasses import replace

import pytest

from gpu_report.findings.derive import derive_findings
from tests.factories import make_records, make_tables
from tests.unit.findings.editing import Case, Edit, base, one

LOST = {"status": "oom", "reason": "out of memory: tried to allocate 2.00 GiB"}
ONE = {"variant": "lstm-cuda-b64-w0-fp32-e3x10"}


def variants(where: Mapping[str, object], **cells: object) -> Edit:
    return Edit(table="variants", where=where, cells=cells)


ALL_LOST = [variants({}, **LOST)]
CASES = [
    Case(finding="study_reliable", verdict="yes"),
    Case(finding="study_reliable", verdict="yes", edits=[variants(ONE, marks="projected;other code")]),
    Case(finding="study_reliable", verdict="no", edits=[variants(ONE, marks="high variance")]),
    Case(finding="study_reliable", verdict="no", edits=[variants(ONE, marks="single", processes=1)]),
    Case(finding="study_reliable", verdict="no", edits=[variants({"device": "cuda"}, marks="background load")]),
    Case(finding="study_reliable", verdict="not measured", edits=ALL_LOST),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_doubts_are_counted_by_mark_and_measuring_again_is_advised() -> None:
    edits = [
        variants(ONE, marks="high variance"),
        variants({"workload": "unet", "device": "cpu"}, marks="high variance;CPU steal"),
    ]

    found = Case(finding="study_reliable", verdict="no", edits=edits).derive()

    assert "high variance: 2, CPU steal: 1" in found.statement
    assert found.recommendation.startswith("Measure again")
    assert found.gain is None


def test_noise_alone_is_answered_by_longer_measuring_and_not_by_a_quieter_machine() -> None:
    found = Case(finding="study_reliable", verdict="no", edits=[variants(ONE, marks="high variance")]).derive()

    assert "more repetitions or longer epochs" in found.recommendation
    assert "nothing else running" not in found.recommendation


def test_projected_epochs_are_told() -> None:
    tables, _ = base()
    projected = int(tables.variants["epoch_time_projected"].sum())

    told = one(derive_findings(tables, []), "study_reliable").statement

    assert f"is projected from shortened epochs for {projected} variants" in told


def test_a_study_without_variants_still_has_its_findings() -> None:
    tables, _ = base()
    empty = replace(tables, variants=tables.variants.iloc[:0])

    assert one(derive_findings(empty, []), "study_reliable").verdict == "not measured"


def test_a_study_in_which_everything_failed_measures_nothing_and_says_so() -> None:
    study = base()[1]
    tables = make_tables(study, make_records(study, status="failed"))

    found = derive_findings(tables, study.experiments)

    about_variants = [finding for finding in found if finding.experiment != "transfer"]
    assert {finding.verdict for finding in about_variants} == {"not measured"}
