"""What the report says of its intervals follows from the recorded processes."""

import csv
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from scipy.special import stdtr, stdtrit

from benchmarks.coverage import CONFIGURATIONS, show
from gpu_report.tables import statistics

RECORDED = Path(__file__).parents[2] / "benchmarks/recorded"


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text("utf-8"))


def in_report(name: str) -> dict[str, str]:
    text = resources.files("gpu_report.tables").joinpath("coverage.csv").read_text("utf-8")
    (row,) = (row for row in csv.DictReader(text.splitlines()) if row["configuration"] == name)
    return row


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_table_in_the_report_is_what_the_recorded_processes_show(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # SciPy's quantiles are the same ones at a hundredth of the time; test_statistics.py compares
    # the two.
    monkeypatch.setattr(
        statistics,
        "students_t",
        lambda freedom, confidence=0.95: float(stdtrit(freedom, (1 + confidence) / 2)),
    )
    monkeypatch.setattr(
        statistics, "students_p", lambda t, freedom: 2 * float(stdtr(freedom, -abs(t)))
    )
    row, shown = in_report(name), show(recorded(name), draws=2000).as_row()

    assert set(row) == set(shown)
    assert int(row["processes"]) == len(recorded(name)["samples_per_s"]["0"])
    for exact in ("samples_per_s", "spread", "coverage_in_a_row"):
        assert float(row[exact]) == pytest.approx(shown[exact], rel=1e-3)
    for drawn in ("coverage", "different", "slower_in_pairs_0.05"):
        assert float(row[drawn]) == pytest.approx(shown[drawn], abs=0.025)
