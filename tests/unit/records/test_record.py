"""Records that one report is about are named apart."""

from gpu_report.records.record import with_distinct_titles
from tests.factories import make_record


def titles(*slugs: str) -> list[str]:
    records = with_distinct_titles([make_record(slug, facts={"title": "my net"}) for slug in slugs])
    return [record.workload.title for record in records if record.workload]


def test_workloads_of_one_title_have_their_names_behind_it() -> None:
    assert titles("first-cpu-b16-w0-fp32-e1", "first-cpu-b64-w0-fp32-e1") == ["my net", "my net"]
    assert titles("first-cpu-b16-w0-fp32-e1", "second-cpu-b16-w0-fp32-e1") == ["my net first", "my net second"]
