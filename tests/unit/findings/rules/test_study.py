from collections.abc import Mapping
from dataclasses import replace

from gpu_report.findings.derive import derive_findings
from tests.factories import make_records, make_tables
from tests.unit.findings.editing import Case, Edit, base, cases, figure, one

LOST = {"status": "oom", "reason": "out of memory: tried to allocate 2.00 GiB"}
ONE = {"variant": "lstm-cuda-b64-w0-fp32-e3x10"}


def variants(where: Mapping[str, object], **cells: object) -> Edit:
    return Edit(table="variants", where=where, cells=cells)


ALL_LOST = [variants({}, **LOST)]
STUDY_CASES = [
    *cases("study_reliable", yes=(), no=[variants(ONE, marks="high variance")], missing=ALL_LOST),
    *cases(
        "study_reliable",
        yes=[variants(ONE, marks="projected;other code")],
        no=[variants(ONE, marks="single", processes=1)],
    ),
    Case(finding="study_reliable", verdict="no", edits=[variants({"device": "cuda"}, marks="background load")]),
]


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


def lstm(device: str, **cells: object) -> Edit:
    return Edit(table="variants", where={"workload": "lstm", "device": device}, cells=cells)


def qualities(cpu: float, cuda: float, spread: float = 0.001) -> list[Edit]:
    return [lstm("cpu", **figure("quality", cpu, spread)), lstm("cuda", **figure("quality", cuda, spread))]


LEARNS = "study_learns/lstm"
TRAINING_CASES = [
    *cases(
        LEARNS,
        yes=qualities(0.8, 0.34),
        no=qualities(0.34, 0.35),
        unresolved=qualities(0.34, 0.37, spread=0.05),
        missing=qualities(float("nan"), float("nan")),
    ),
    *cases(LEARNS, yes=qualities(0.8, 1.0), no=qualities(1.0, 0.999)),
]


CASES = [*STUDY_CASES, *TRAINING_CASES]
