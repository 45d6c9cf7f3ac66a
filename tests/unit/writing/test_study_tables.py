from gpu_report.tables.bundle import rows_of
from gpu_report.writing.study_tables import consistency_table
from tests.report.synthetic import tables_of


def test_a_difference_between_devices_too_small_to_show_is_no_power_of_ten() -> None:
    rows = rows_of(tables_of("cpu", "cuda").consistency)
    titles = {str(row["workload"]): str(row["workload"]) for row in rows}

    block = consistency_table([{**row, "difference_percent": 1.4e-6} for row in rows], titles=titles, source="")

    assert {str(cell) for row in block.rows for cell in row.cells[-3:]} == {"{$<$0.1}"}
