"""What a notebook shows are the rows of the tables, with numbers as the report prints them."""

import pytest

from gpu_report.errors import BundleError, ReportError
from gpu_report.glossary import METRICS
from gpu_report.notebook import read_bundle, readable
from gpu_report.tables.bundle import rows_of
from gpu_report.writing.table import metric
from tests.report.synthetic import results_on


def test_numbers_are_written_as_in_the_report_and_a_dash_where_there_is_none() -> None:
    table = results_on("cpu", "cuda").tables.experiments["device"]

    shown = readable(table, ["throughput", "break_even", metric("parameters", "weights", "count")])

    expected = [each.plain() for each in METRICS["throughput_per_s"].quantities(rows_of(table))]
    assert [*shown["throughput"]] == expected
    assert {*shown.iloc[:, 1]} == {"–"}
    assert all(text.replace(",", "").isdigit() for text in shown["weights"])
    assert any("GPU" in name for name in shown.index)


def test_a_metric_or_a_bundle_that_is_not_there_is_named() -> None:
    with pytest.raises(ReportError, match="there is no metric 'speed'"):
        readable(results_on("cpu").tables.variants, ["speed"])
    with pytest.raises(BundleError, match=r"cannot read bundle nothing\.tar\.xz"):
        read_bundle("nothing.tar.xz", study="config/study.yaml")
