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


FITTED = variants({"status": "oom"}, status="ok", processes=3)
"""In place of the batch that did not fit the accelerator's memory."""
ALL_LOST = [variants({}, **LOST)]
CASES = [
    Case(finding="study_complete", verdict="supported", edits=[FITTED]),
    Case(finding="study_complete", verdict="supported"),
    Case(finding="study_complete", verdict="contradicted", edits=[FITTED, variants(ONE, **LOST)]),
    Case(finding="study_accelerator", verdict="supported"),
    Case(finding="study_accelerator", verdict="contradicted", edits=[variants({"device": "cuda"}, **LOST)]),
    Case(finding="study_accelerator", verdict="not measured", devices=("cpu",)),
    Case(finding="study_reliable", verdict="supported"),
    Case(finding="study_reliable", verdict="supported", edits=[variants(ONE, marks="projected;other code")]),
    Case(finding="study_reliable", verdict="inconclusive", edits=[variants(ONE, marks="noisy")]),
    Case(finding="study_reliable", verdict="inconclusive", edits=[variants(ONE, marks="single", processes=1)]),
    Case(finding="study_reliable", verdict="contradicted", edits=[variants({"device": "cuda"}, marks="not alone")]),
    Case(finding="study_reliable", verdict="not measured", edits=ALL_LOST),
    Case(finding="study_same_code", verdict="supported"),
    Case(finding="study_same_code", verdict="contradicted", edits=[variants(ONE, same_code=False)]),
    Case(finding="study_same_code", verdict="not measured", edits=ALL_LOST),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_follows_the_data_it_rests_on(case: Case) -> None:
    assert case.derive().verdict == case.verdict


def test_the_batch_beyond_all_that_fit_is_a_result_and_no_gap_in_the_study() -> None:
    found = Case(finding="study_complete", verdict="supported").derive()

    assert "beyond the largest batch that fits lies unet-128px-cuda-b512" in found.statement


def test_a_batch_that_runs_out_of_memory_below_one_that_fits_is_a_gap_in_the_study() -> None:
    tables, _ = base()
    frontier = tables.experiments["frontier"]
    smallest = frontier.sort_values("batch_size")["variant"].iloc[0]
    edits = [Edit(table=table, where={"variant": smallest}, cells=LOST) for table in ("variants", "frontier")]

    assert Case(finding="study_complete", verdict="contradicted", edits=edits).derive().verdict == "contradicted"


def test_a_failed_variant_is_named_with_what_it_asked_for_in_our_words() -> None:
    paragraph = "CUDA out of memory. " + "If reserved but unallocated memory is large try setting " * 9
    lost = {"status": "oom", "reason": paragraph, "memory_asked_mib": 2048.0, "memory_free_mib": 1024.0}
    found = Case(finding="study_complete", verdict="contradicted", edits=[FITTED, variants(ONE, **lost)]).derive()

    assert "lstm-cuda-b64-w0-fp32-e3x10 (out of memory: asked for 2.00 GiB more where 1.00 GiB" in found.statement
    assert "try setting" not in found.statement
    assert [evidence.variant for evidence in found.evidence] == ["lstm-cuda-b64-w0-fp32-e3x10"]


def test_doubts_are_counted_by_mark_and_measuring_again_is_advised() -> None:
    edits = [variants(ONE, marks="noisy"), variants({"workload": "unet", "device": "cpu"}, marks="noisy;stolen time")]

    found = Case(finding="study_reliable", verdict="inconclusive", edits=edits).derive()

    assert "noisy: 2, stolen time: 1" in found.statement
    assert found.recommendation.startswith("Measure again")
    assert found.gain is None


def test_noise_alone_is_answered_by_longer_measuring_and_not_by_a_quieter_machine() -> None:
    found = Case(finding="study_reliable", verdict="inconclusive", edits=[variants(ONE, marks="noisy")]).derive()

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

    assert one(derive_findings(empty, []), "study_complete").verdict == "not measured"


def test_a_study_in_which_everything_failed_measures_nothing_and_says_so() -> None:
    study = base()[1]
    tables = make_tables(study, make_records(study, status="failed"))

    found = derive_findings(tables, study.experiments)

    assert one(found, "study_complete").statement.startswith(f"None of {len(study.variants)} variants")
    about_variants = [finding for finding in found if finding.experiment != "transfer"]
    others = [finding for finding in about_variants if finding.id not in ("study_complete", "study_accelerator")]
    assert {finding.verdict for finding in others} == {"not measured"}
