"""Which searches `gpu-report list` and `run --missing` count, and what a study reads back
of them.
"""

from pathlib import Path

import pytest

from gpu_report.commands.overview import state_of, waiting
from gpu_report.commands.results_folder import ResolvedStudy, ResultsFolder
from gpu_report.records.batch_sizes import SEARCH_FILE, SearchRecord
from gpu_report.study.search import BatchSearch
from tests.factories import make_study
from tests.searches import CONFIG, make_failed_search, make_search

STUDY = make_study(config=CONFIG)
SEARCH = STUDY.searches[0]


@pytest.fixture
def results(tmp_path: Path) -> ResultsFolder:
    return ResultsFolder(resolved=ResolvedStudy.of("xeon-2c", STUDY), machine_folder=tmp_path)


@pytest.mark.parametrize(
    ("record", "state", "reason"),
    [
        (make_search(SEARCH), "measured", "2026-05-04"),
        (make_failed_search(SEARCH), "oom", "out of memory"),
        (
            make_search(BatchSearch(workload="unet", size="128px", device="cuda", seconds=9)),
            "out of date",
            "seconds: measured with 9.0, now 5.0",
        ),
    ],
    ids=["found", "does not fit", "asked otherwise"],
)
def test_the_state_of_a_search_follows_from_its_record(
    results: ResultsFolder, record: SearchRecord, state: str, reason: str
) -> None:
    assert state_of(results, SEARCH)[0] == "missing"
    SEARCH_FILE.write(record, results.search_file(SEARCH.slug))

    found, why = state_of(results, SEARCH)

    assert found == state
    assert reason in why
    assert (SEARCH.slug in waiting(results, STUDY.searches)) == (state == "out of date")


def test_a_damaged_search_is_to_be_made_again(results: ResultsFolder) -> None:
    results.search_file(SEARCH.slug).parent.mkdir()
    results.search_file(SEARCH.slug).write_text("{", "utf-8")

    assert waiting(results, STUDY.searches) == [search.slug for search in STUDY.searches]


def test_searches_are_read_in_the_order_of_the_study(results: ResultsFolder) -> None:
    records = [make_search(search) for search in STUDY.searches]
    for record in reversed(records):
        SEARCH_FILE.write(record, results.search_file(record.search.slug))

    assert results.read_searches() == records
