from gpu_report.writing.runs_table import runs_table
from tests.factories import make_record, make_records, make_study

RECORDS = make_records(make_study(devices=("cpu",)))


def test_every_run_has_its_trace_and_what_is_the_same_in_all_stands_in_the_caption() -> None:
    block = runs_table(RECORDS, source="record.json")

    traces = [record.profile.trace_sha256[:12] for record in RECORDS if record.profile]
    told = " ".join([str(block.caption), *(str(cell) for row in block.rows for cell in row.cells)])
    assert len(block.rows) == len(RECORDS)
    assert all(trace in told.replace(r"\gpurepbreak{}", "") for trace in traces)
    assert "protocol" in told
    assert RECORDS[0].provenance.code_digest[:12] in told.replace(r"\gpurepbreak{}", "")


def test_a_run_without_a_trace_says_so() -> None:
    failed = make_record(RECORDS[0].variant, status="oom")

    block = runs_table([failed, *RECORDS[1:]], source="record.json")

    assert str(block.rows[0].cells[-1]) == r"\gpurepname{none}" or "none" in str(block.caption)


def test_of_code_that_was_not_committed_as_it_was_the_table_says_so() -> None:
    clean, changed = RECORDS[0], RECORDS[1]
    changed = changed.model_copy(update={"provenance": changed.provenance.model_copy(update={"git_dirty": True})})

    block = runs_table([clean, changed], source="record.json")

    assert [("with" in str(row.cells)) for row in block.rows] == [False, True]
