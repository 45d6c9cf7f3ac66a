"""What is answered about batch sizes follows from what the searches tried."""

from dataclasses import dataclass

from gpu_report.answers.finding import Finding
from gpu_report.answers.questions import derive_findings
from tests.factories import make_study, make_tables
from tests.searches import CONFIG, make_failed_search, make_search, without_speed
from tests.unit.answers.editing import Case, one

SEARCHED = "batch_search_which/lstm_cuda_fp32"


@dataclass(frozen=True, kw_only=True)
class SearchCase(Case):
    """A search that ended in this way."""

    def _derive(self) -> Finding:
        study = make_study(config=CONFIG)
        is_resolved = self.verdict == "yes"
        searches = [
            make_failed_search(search)
            if self.verdict == "not measured"
            else make_search(search, is_resolved=is_resolved)
            for search in study.searches
        ]
        tables = make_tables(study, [], searches=searches)
        return one(derive_findings(tables, study.experiments), self.finding)


CASES: list[Case] = [
    SearchCase(finding=SEARCHED, verdict=verdict)
    for verdict in ("yes", "too close to call", "not measured")
]


def test_a_search_beside_other_programs_says_what_fits_and_compares_no_speeds() -> None:
    study = make_study(config=CONFIG)
    record = without_speed(make_search(study.searches[0]))
    tables = make_tables(study, [], searches=[record])

    found, *_ = derive_findings(tables, study.experiments)

    assert "1000 samples" in found.statement
    assert "Other programs used the CPU" in found.statement
    assert "fastest" not in found.statement


def test_batches_that_may_be_as_fast_are_named_with_the_fastest() -> None:
    study = make_study(config=CONFIG)
    record = make_search(study.searches[0])
    noisy = [
        each.model_copy(update={"throughputs_per_s": [300.0, 500.0, 700.0, 900.0]})
        if each.samples == 1000
        else each
        for each in record.tries
    ]
    tables = make_tables(study, [], searches=[record.model_copy(update={"tries": noisy})])
    (found,) = derive_findings(tables, study.experiments)

    assert "(its interval overlaps that of 100)" in found.statement
