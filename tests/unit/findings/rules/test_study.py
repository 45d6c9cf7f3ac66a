from gpu_report.findings.derive import derive_findings
from tests.factories import make_records, make_tables
from tests.unit.findings.editing import Edit, base, cases, figure


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
CASES = [
    *cases(
        LEARNS,
        yes=qualities(0.8, 0.34),
        no=qualities(0.34, 0.35),
        unresolved=qualities(0.34, 0.37, spread=0.05),
        missing=qualities(float("nan"), float("nan")),
    ),
    *cases(LEARNS, yes=qualities(0.8, 1.0), no=qualities(1.0, 0.999)),
]
