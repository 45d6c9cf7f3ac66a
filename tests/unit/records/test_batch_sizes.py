"""What a batch-size search found is read as it was written; what the schema forbids is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_report.errors import RecordError
from gpu_report.records.batch_sizes import SEARCH_FILE, SearchRecord
from gpu_report.study.search import BatchSearch
from tests.searches import make_failed_search, make_search, without_speed

SEARCH = BatchSearch(workload="unet", size="128px", device="cuda", memory_limit_gib=79.5)


@pytest.mark.parametrize(
    "record",
    [make_search(SEARCH), make_failed_search(SEARCH), without_speed(make_search(SEARCH))],
    ids=["found", "failed", "background load"],
)
def test_a_search_is_read_as_it_was_written(tmp_path: Path, record: SearchRecord) -> None:
    SEARCH_FILE.write(record, tmp_path / "search.json")

    assert SEARCH_FILE.read(tmp_path / "search.json") == record


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values["answers"].update(largest=0), "answers.largest: Input should be"),
        (lambda values: values.update(tries=[]), "tries: List should have at least 1 item"),
        (lambda values: values.update(schema_version=2), "update gpu-report"),
    ],
)
def test_what_the_schema_forbids_is_refused_in_one_line(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    values = make_search(SEARCH).model_dump()
    change(values)
    (tmp_path / "search.json").write_text(json.dumps(values), "utf-8")

    with pytest.raises(RecordError, match=message) as caught:
        SEARCH_FILE.read(tmp_path / "search.json")
    assert "\n" not in str(caught.value)
