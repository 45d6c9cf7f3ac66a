"""What a record keeps of its times, and how those that one report is about are distinguished."""

from gpu_report.records.record import TimedEpoch, with_distinct_titles
from tests.factories import make_record


def titles(*slugs: str) -> list[str]:
    records = with_distinct_titles([make_record(slug, facts={"title": "my net"}) for slug in slugs])
    return [record.workload.title for record in records if record.workload]


def test_workloads_of_one_title_have_their_names_behind_it() -> None:
    assert titles("first-cpu-b16-w0-fp32-e1", "first-cpu-b64-w0-fp32-e1") == ["my net", "my net"]
    assert titles("first-cpu-b16-w0-fp32-e1", "second-cpu-b16-w0-fp32-e1") == [
        "my net first",
        "my net second",
    ]


def test_an_epochs_time_has_no_more_digits_than_a_clock_resolves() -> None:
    epoch = TimedEpoch(
        wall_time_s=0.09455135600001086, step_times_ms=[94.5], data_wait_ms=[0.1], samples=64
    )

    assert epoch.wall_time_s == 0.094551356
