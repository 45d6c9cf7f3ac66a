"""Findings as a table, so that whoever reads CSV files has the number behind every word of a verdict, and its source.

Finding -> one row per piece of evidence, or one alone -> CSV
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from gpu_report.columns import Table, number, text
from gpu_report.files import write_text_atomically
from gpu_report.findings.finding import Evidence, Finding

FINDINGS: Final = Table(
    name="findings",
    meaning="One row per finding and piece of evidence behind it, or number derived from that; at least one row.",
    columns=(
        text("finding", "Identifier: experiment, rule and subject, as in device_faster/lstm."),
        text("verdict", "The answer: yes, no, not resolved or not measured."),
        text("question", "The question that the rule asks."),
        text("statement", "The answer in words, with its numbers."),
        text("threshold", "What decides, and why it is drawn there."),
        text("evidence", "What the number is; empty without evidence."),
        text("value", "The number as text, with interval, count and unit."),
        text("table", "The table that has it, without .csv; empty where it was derived from those of the evidence."),
        text("variant", "The variant it was measured on; empty where it is about several."),
        text("recommendation", "What to do; empty where nothing follows."),
        number("gain", "1", "Factor in throughput that following the recommendation gave; missing if not measured."),
        number("gain_low", "1", "Lower end of its 95 % interval."),
        number("gain_high", "1", "Upper end of its 95 % interval."),
    ),
)

_NO_EVIDENCE: Final = {"evidence": "", "value": "", "table": "", "variant": ""}


def findings_to_csv(findings: Iterable[Finding]) -> str:
    """The table FINDINGS as CSV text, in the order given; the same findings give the same text."""
    return FINDINGS.rows_to_csv(row for finding in findings for row in _rows(finding))


def _rows(finding: Finding) -> list[dict[str, Any]]:
    low, high = finding.gain_interval or (math.nan, math.nan)
    told = {
        "finding": finding.id,
        "verdict": finding.verdict,
        "question": finding.question,
        "statement": finding.statement,
        "threshold": finding.threshold,
        "recommendation": finding.recommendation,
        "gain": math.nan if finding.gain is None else finding.gain,
        "gain_low": low,
        "gain_high": high,
    }
    derived = [{**_NO_EVIDENCE, "evidence": name, "value": value} for name, value in _derived(finding)]
    cells = [*map(_cells, finding.evidence), *derived] or [_NO_EVIDENCE]
    return [{**told, **evidence} for evidence in cells]


def _derived(finding: Finding) -> list[tuple[str, str]]:
    """The numbers of the statement that are in no evidence as they are."""
    shown = [evidence.value for evidence in finding.evidence]
    return [(name, value) for name, value in finding.numbers.items() if not any(value in one for one in shown)]


def _cells(evidence: Evidence) -> dict[str, str]:
    return {
        "evidence": evidence.label,
        "value": evidence.value,
        "table": evidence.table,
        "variant": evidence.variant,
    }


def write_findings_table(findings: Iterable[Finding], path: Path) -> None:
    """Write the table FINDINGS whole or not at all.

    Raises:
        FileWriteError: the disk is full or the folder cannot be written.
    """
    write_text_atomically(path, findings_to_csv(findings))
