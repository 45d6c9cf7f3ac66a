from gpu_report.answers.questions import derive_findings
from tests.factories import make_records, make_tables
from tests.unit.answers.editing import Case, Edit, base, cases, figure


def test_a_study_in_which_everything_failed_measures_nothing_and_says_so() -> None:
    study = base()[1]
    tables = make_tables(study, make_records(study, status="failed"))

    found = derive_findings(tables, study.experiments)

    assert {finding.verdict for finding in found} == {"not measured"}


def lstm(device: str, **cells: object) -> Edit:
    return Edit(table="variants", where={"workload": "lstm", "device": device}, cells=cells)


def qualities(cpu: float, cuda: float, spread: float = 0.001) -> list[Edit]:
    return [
        lstm("cpu", **figure("quality", cpu, spread)),
        lstm("cuda", **figure("quality", cuda, spread)),
    ]


LEARNS = "study_learns/lstm"


def perplexity(value: float, spread: float = 0.0) -> list[Edit]:
    falling = {"quality_better": "lower", "quality_name": "perplexity", "quality_chance": 50.0}
    return [
        lstm(device, **falling, **figure("quality", value, spread)) for device in ("cpu", "cuda")
    ]


def test_a_metric_that_falls_beats_chance_from_above() -> None:
    learned = Case(finding=LEARNS, verdict="yes", edits=perplexity(30.0, 1.0)).derive()
    guessed = Case(finding=LEARNS, verdict="no", edits=perplexity(50.0, 1.0)).derive()
    unclear = Case(
        finding=LEARNS, verdict="too close to call", edits=perplexity(47.0, 1.0)
    ).derive()

    assert (learned.verdict, guessed.verdict, unclear.verdict) == ("yes", "no", "too close to call")
    assert "beats chance (50.0) in all 3 configurations" in learned.statement


def test_without_a_level_of_chance_none_is_beaten() -> None:
    unknown = [lstm(device, quality_chance=float("nan")) for device in ("cpu", "cuda")]

    found = Case(finding=LEARNS, verdict="not measured", edits=unknown).derive()

    assert "does not say what chance reaches" in found.statement


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
