import math
import re
from argparse import Namespace
from collections.abc import Hashable
from pathlib import Path

import pytest
from pydantic import ValidationError

from gpu_report.answers.finding import (
    FINDINGS,
    Evidence,
    Finding,
    findings_to_csv,
    findings_to_json,
    read_findings,
    recommendations,
    write_findings,
)
from gpu_report.answers.questions import derive_findings as derive
from gpu_report.commands.results import derive_findings
from gpu_report.commands.results_folder import ResolvedStudy
from gpu_report.errors import ReportError
from gpu_report.tables import STUDY_TABLES
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.experiments import EXPERIMENT
from tests.unit.answers.editing import base, make_finding


def finding(
    name: str = "device_faster/lstm", *values: str, recommendation: str = "", **changes: object
) -> Finding:
    """With these values as evidence."""
    evidence = [
        Evidence(label="throughput", value=value, table="device", variant="lstm")
        for value in values
    ]
    return make_finding(
        id=name,
        statement='The one "with commas, and quotes".',
        evidence=tuple(evidence),
        recommendation=recommendation,
        **changes,
    )


def test_findings_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    findings = [
        finding("device_faster/lstm", recommendation="Use it.", gain=12.0),
        finding("device_gains_most"),
    ]

    write_findings(findings, tmp_path)

    assert read_findings(tmp_path / "findings.json") == findings


def test_a_gain_that_is_not_a_number_is_no_gain() -> None:
    assert finding(gain=math.nan).gain is None
    assert "NaN" not in findings_to_json([finding(gain=math.nan)])


@pytest.mark.parametrize("gain", [0.0, -2.0, math.inf])
def test_a_gain_is_a_positive_number(gain: float) -> None:
    with pytest.raises(ValidationError, match="gain"):
        finding(gain=gain)


def test_what_is_recommended_alike_is_so_once_the_greatest_gain_first_the_unmeasured_last() -> None:
    findings = [
        finding("study_marks", recommendation="Measure again."),
        finding("device_faster/a", recommendation="Use it.", gain=2.0),
        finding("workers_enough", recommendation="Use four.", gain=2.5),
        finding("crossover_faster/b", recommendation="Use it.", gain=3.0),
        finding("device_first_epoch"),
    ]

    assert [found.id for found in recommendations(findings)] == [
        "crossover_faster/b",
        "workers_enough",
        "study_marks",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema_version": 3, "findings": [', "not whole JSON.*; delete it and make it again"),
        ('{"findings": []}', "no schema_version; delete it and make it again"),
        ('{"schema_version": 4, "findings": []}', "schema version 4.*; update gpu-report"),
        (
            '{"schema_version": 3, "findings": [{"id": "x"}]}',
            r"findings\.0\.experiment.*; delete it and make it again",
        ),
        (findings_to_json([finding()]).replace('"yes"', '"likely"'), "verdict.*delete it"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line_that_says_what_to_do(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "findings.json"
    with pytest.raises(ReportError, match=r"findings\.json"):
        read_findings(path)
    path.write_text(content, "utf-8")

    with pytest.raises(ReportError, match=message) as caught:
        read_findings(path)

    assert "\n" not in str(caught.value)


def read(text: str, folder: Path) -> list[dict[Hashable, object]]:
    path = folder / "findings.csv"
    path.write_text(text, "utf-8")
    return [*FINDINGS.read_csv(path).to_dict("records")]


def test_a_gain_is_a_number_and_missing_where_none_was_measured(tmp_path: Path) -> None:
    with_gain, without = read(
        findings_to_csv([finding(gain=2.5, gain_interval=(2.0, 3.0)), finding()]), tmp_path
    )

    assert [with_gain[name] for name in ("gain", "gain_low", "gain_high")] == [2.5, 2.0, 3.0]
    assert all(math.isnan(float(str(without[name]))) for name in ("gain", "gain_low", "gain_high"))


def test_every_number_in_the_words_of_a_study_is_in_the_table(tmp_path: Path) -> None:
    tables, study = base()
    findings = derive(tables, study.experiments)

    rows = read(findings_to_csv(findings), tmp_path)

    number = re.compile(r"\d[\d.,]*\d|\d")
    written = {
        digits for row in rows for cell in row.values() for digits in number.findall(str(cell))
    }
    texts = [
        text
        for one in findings
        for text in (one.statement, one.recommendation, *(e.value for e in one.evidence))
    ]
    assert {digits for text in texts for digits in number.findall(text)} <= written
    assert {row["finding"] for row in rows} == {one.id for one in findings}


def test_the_command_writes_both_files_of_the_same_findings(tmp_path: Path) -> None:
    tables, study = base(("cpu",))
    ResolvedStudy.of("any", study).write(tmp_path)
    (tmp_path / "tables").mkdir()
    for table in STUDY_TABLES:
        (tmp_path / "tables" / f"{table.name}.csv").write_text(
            table.rows_to_csv(rows_of(getattr(tables, table.name))), "utf-8"
        )
    for name, frame in tables.experiments.items():
        (tmp_path / "tables" / f"{name}.csv").write_text(
            EXPERIMENT.rows_to_csv(rows_of(frame)), "utf-8"
        )

    derive_findings(Namespace(study=tmp_path / "study.json", experiment=""))

    assert (tmp_path / "findings.csv").read_text("utf-8") == findings_to_csv(
        read_findings(tmp_path / "findings.json")
    )
