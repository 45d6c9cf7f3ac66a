import json
import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from gpu_report.findings.finding import (
    Evidence,
    Finding,
    FindingError,
    findings_to_json,
    read_findings,
    recommendations,
    write_findings,
)


def finding(name: str = "device_faster/lstm", *, recommendation: str = "", gain: float | None = None) -> Finding:
    return Finding(
        id=name,
        experiment="device",
        question="Does it train faster?",
        verdict="yes",
        statement="It trains 12 times faster (95 % interval 11 to 13 over 3 processes).",
        evidence=(Evidence(label="speedup", value="12", table="device", variant="lstm-cuda-b64-w0-fp32-e3"),),
        threshold="Faster means above 1.",
        recommendation=recommendation,
        gain=gain,
    )


def test_findings_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    findings = [finding("device_faster/lstm", recommendation="Use it.", gain=12.0), finding("device_gains_most")]

    write_findings(findings, tmp_path / "findings.json")

    assert read_findings(tmp_path / "findings.json") == findings


def test_a_file_without_findings_is_read_back_empty(tmp_path: Path) -> None:
    write_findings([], tmp_path / "findings.json")

    assert read_findings(tmp_path / "findings.json") == []


def test_a_gain_that_is_not_a_number_is_no_gain() -> None:
    assert finding(gain=math.nan).gain is None
    assert "NaN" not in findings_to_json([finding(gain=math.nan)])


@pytest.mark.parametrize("gain", [0.0, -2.0, math.inf])
def test_a_gain_is_a_positive_number(gain: float) -> None:
    with pytest.raises(ValidationError, match="gain"):
        finding(gain=gain)


def test_what_two_findings_recommend_in_the_same_words_is_recommended_once_by_the_greater_gain() -> None:
    findings = [
        finding("device_faster/a", recommendation="Use it.", gain=2.0),
        finding("crossover_faster/b", recommendation="Use it.", gain=3.0),
        finding("workers_enough", recommendation="Use four.", gain=2.5),
    ]

    assert [found.id for found in recommendations(findings)] == ["crossover_faster/b", "workers_enough"]


def test_the_greatest_gain_is_recommended_first_and_the_unmeasured_last() -> None:
    findings = [
        finding("study_marks", recommendation="Measure again."),
        finding("workers_enough", recommendation="Use four.", gain=1.4),
        finding("device_faster", recommendation="Use the accelerator.", gain=12.0),
        finding("device_first_epoch"),
    ]

    assert [found.id for found in recommendations(findings)] == ["device_faster", "workers_enough", "study_marks"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema_version": 1, "findings": [', "not whole JSON.*; delete it and make it again"),
        ('{"findings": []}', "no schema_version; delete it and make it again"),
        ('{"schema_version": 2, "findings": []}', "schema version 2.*; update gpu-report"),
        ('{"schema_version": 1, "findings": [{"id": "x"}]}', r"findings\.0\.experiment.*; delete it and make it again"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line_that_says_what_to_do(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "findings.json"
    path.write_text(content, "utf-8")

    with pytest.raises(FindingError, match=message) as caught:
        read_findings(path)

    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(FindingError, match=r"findings\.json"):
        read_findings(tmp_path / "findings.json")


def test_an_unknown_verdict_is_refused(tmp_path: Path) -> None:
    values = json.loads(findings_to_json([finding()]))
    values["findings"][0]["verdict"] = "likely"
    path = tmp_path / "findings.json"
    path.write_text(json.dumps(values), "utf-8")

    with pytest.raises(FindingError, match="verdict"):
        read_findings(path)
