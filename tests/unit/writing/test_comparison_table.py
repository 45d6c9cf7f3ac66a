from gpu_report.tables.bundle import rows_of
from gpu_report.writing.comparison_table import comparison_tables
from tests.factories import make_comparison


def test_each_pair_of_machines_has_a_table_and_a_label_of_its_own() -> None:
    first, second = comparison_tables(rows_of(make_comparison(("a", "b", "c"))))

    assert "b over a, the reference" in first.caption
    assert "c over a, the reference" in second.caption
    assert first.name != second.name


def test_what_else_differs_is_a_column_only_where_something_does() -> None:
    same, other_software = comparison_tables(rows_of(make_comparison(("a", "b", "c"))))

    assert "what else differs" not in [str(text) for text in same.header]
    assert "what else differs" in [str(text) for text in other_software.header]
    assert "2.11.0" in " ".join(str(cell) for cell in other_software.rows[0].cells).replace(r"\gpurepbreak{}", "")


def test_machines_without_a_variant_in_common_have_no_table() -> None:
    assert comparison_tables([]) == []
