import json
import math
import re
from argparse import Namespace
from collections.abc import Hashable
from pathlib import Path

import pytest

from gpu_report.commands.results import derive_comparison, derive_findings
from gpu_report.findings.derive import derive_findings as derive
from gpu_report.findings.finding import FINDINGS, Evidence, Finding, findings_to_csv, read_findings
from gpu_report.tables.schema import COMPARISON, EXPERIMENT, STUDY_TABLES
from tests.factories import make_comparison
from tests.unit.findings.editing import base

NUMBER = re.compile(r"\d[\d.,]*\d|\d")


def finding(*values: str, **changes: object) -> Finding:
    evidence = [Evidence(label="throughput", value=value, table="device", variant="lstm") for value in values]
    found = Finding(
        id="device_faster/lstm",
        experiment="device",
        question="Which is faster?",
        verdict="yes",
        statement='The one "with commas, and quotes".',
        evidence=tuple(evidence),
        threshold="More is.",
    )
    return found.model_copy(update=changes)


def read(text: str, folder: Path) -> list[dict[Hashable, object]]:
    path = folder / "findings.csv"
    path.write_text(text, "utf-8")
    return [*FINDINGS.read_csv(path).to_dict("records")]


def test_each_piece_of_evidence_has_a_row_with_its_finding(tmp_path: Path) -> None:
    first, second = read(findings_to_csv([finding("12.0 s", "13.0 s")]), tmp_path)

    assert (first["value"], second["value"]) == ("12.0 s", "13.0 s")
    assert first["statement"] == second["statement"] == 'The one "with commas, and quotes".'
    assert {(row["finding"], row["table"], row["variant"]) for row in (first, second)} == {
        ("device_faster/lstm", "device", "lstm")
    }


def test_a_finding_without_evidence_has_a_row_of_its_own(tmp_path: Path) -> None:
    (row,) = read(findings_to_csv([finding(verdict="not measured")]), tmp_path)

    assert (row["verdict"], row["evidence"], row["value"]) == ("not measured", "", "")


def test_a_number_derived_for_the_words_has_a_row_unless_evidence_has_it(tmp_path: Path) -> None:
    told = {"rate": "12.0 s", "growth": "2.5 times (2.4 to 2.6)"}

    rows = read(findings_to_csv([finding("12.0 s (11.0 to 13.0)", numbers=told)]), tmp_path)

    assert [(row["evidence"], row["value"], row["table"]) for row in rows] == [
        ("throughput", "12.0 s (11.0 to 13.0)", "device"),
        ("growth", "2.5 times (2.4 to 2.6)", ""),
    ]


def test_a_gain_is_a_number_and_missing_where_none_was_measured(tmp_path: Path) -> None:
    with_gain, without = read(findings_to_csv([finding(gain=2.5, gain_interval=(2.0, 3.0)), finding()]), tmp_path)

    assert [with_gain[name] for name in ("gain", "gain_low", "gain_high")] == [2.5, 2.0, 3.0]
    assert all(math.isnan(float(str(without[name]))) for name in ("gain", "gain_low", "gain_high"))


def test_every_number_in_the_words_of_a_study_stands_in_the_table(tmp_path: Path) -> None:
    tables, study = base()
    findings = derive(tables, study.experiments)

    rows = read(findings_to_csv(findings), tmp_path)

    written = {number for row in rows for cell in row.values() for number in NUMBER.findall(str(cell))}
    texts = [text for one in findings for text in (one.statement, one.recommendation, *(e.value for e in one.evidence))]
    assert {number for text in texts for number in NUMBER.findall(text)} <= written
    assert {row["finding"] for row in rows} == {one.id for one in findings}


def test_evidence_names_tables_that_there_are() -> None:
    tables, study = base()
    known = {table.name for table in STUDY_TABLES} | {*tables.experiments}

    named = {part.table for one in derive(tables, study.experiments) for part in one.evidence}

    assert named <= known


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "cuda")])
def test_the_command_writes_both_files_of_the_same_findings(devices: tuple[str, ...], tmp_path: Path) -> None:
    tables, study = base(devices)
    experiments = [experiment for experiment in study.experiments if experiment.variants]
    (tmp_path / "tables").mkdir()
    for table in STUDY_TABLES:
        (tmp_path / "tables" / f"{table.name}.csv").write_text(table.to_csv(getattr(tables, table.name)), "utf-8")
    for name, frame in tables.experiments.items():
        (tmp_path / "tables" / f"{name}.csv").write_text(EXPERIMENT.to_csv(frame), "utf-8")

    derive_findings(
        Namespace(
            experiments=json.dumps([experiment.as_dict() for experiment in experiments]),
            results=tmp_path,
            findings=tmp_path / "findings.json",
            evidence=tmp_path / "findings.csv",
        )
    )

    assert (tmp_path / "findings.csv").read_text("utf-8") == findings_to_csv(read_findings(tmp_path / "findings.json"))


def test_the_comparison_of_machines_has_both_files_too(tmp_path: Path) -> None:
    (tmp_path / "comparison.csv").write_text(COMPARISON.to_csv(make_comparison()), "utf-8")

    derive_comparison(
        Namespace(
            comparison=tmp_path / "comparison.csv",
            findings=tmp_path / "findings.json",
            evidence=tmp_path / "findings.csv",
        )
    )

    found = read_findings(tmp_path / "findings.json")
    assert found
    assert (tmp_path / "findings.csv").read_text("utf-8") == findings_to_csv(found)
