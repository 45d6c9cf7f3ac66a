"""A finding: one question answered from the tables, in words, with the evidence; written as JSON
and as a table.

Finding -> JSON, which the report reads again
Finding -> one row of CSV per piece of evidence, or one alone: the number behind every word of a
verdict, and its source
"""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, field_validator

from gpu_report.errors import ReportError
from gpu_report.storage.columns import Table, number, text
from gpu_report.storage.files import write_text_atomically
from gpu_report.storage.json_files import JsonFile, Part
from gpu_report.tables.bundle import grouped

SCHEMA_VERSION: Final = 3
"""3: `too close to call` instead of `not resolved`; numbers are in the evidence alone."""

Verdict = Literal["yes", "no", "too close to call", "not measured"]


class Evidence(Part):
    """One number that a verdict rests on, and the table that has it."""

    label: str = Field(min_length=1, description="What the number is, for instance 'throughput'.")
    value: str = Field(
        min_length=1, description="The number as text, with interval, count and unit."
    )
    table: str = Field(description="Name of the table without .csv; empty if derived.")
    variant: str = Field(
        description="The variant it was measured on; empty where it is about several."
    )


class Finding(Part):
    """The answer to one question about one subject."""

    id: str = Field(
        pattern=r"^[a-z0-9_]+(/[a-z0-9_]+)?$",
        description="Question and subject, as in device_faster/lstm.",
    )
    experiment: str = Field(min_length=1, description="Name of the experiment or chapter.")
    question: str = Field(min_length=1)
    subject: str = Field(
        default="", description="What it is about, as in 'U-Net'; empty where that is no one thing."
    )
    verdict: Verdict
    statement: str = Field(
        min_length=1, description="Plain text, whole sentences, every number formatted."
    )
    evidence: tuple[Evidence, ...]
    threshold: str = Field(description="What decides, and why it is drawn there.")
    recommendation: str = Field(default="", description="What to do; empty where nothing follows.")
    gain: float | None = Field(
        default=None, gt=0, description="Measured factor that following the recommendation gave."
    )

    gain_interval: tuple[float, float] | None = Field(
        default=None, description="95 % interval of the gain."
    )

    @property
    def name(self) -> str:
        """Name of the question, without the experiment and the subject."""
        return self.id.removeprefix(f"{self.experiment}_").partition("/")[0]

    @property
    def is_decided(self) -> bool:
        """Whether the data say yes or no."""
        return self.verdict in ("yes", "no")

    @property
    def sure_gain(self) -> float:
        """The lower end of the gain's interval; without one the gain, and 0 without that."""
        low, _ = self.gain_interval or (math.nan, math.nan)
        return (self.gain or 0.0) if math.isnan(low) else low

    @field_validator("gain", mode="before")
    @classmethod
    def _nothing_for_nan(cls, gain: object) -> object:
        return None if isinstance(gain, float) and math.isnan(gain) else gain


class _File(Part):
    schema_version: int
    findings: tuple[Finding, ...]


def recommendations(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that recommend something, the greatest sure gain first, those without a measured
    gain last.

    What two recommend in the same words is recommended once, by the one with the greater gain.
    """
    advising = [finding for finding in findings if finding.recommendation]
    ranked = sorted(advising, key=lambda finding: (-finding.sure_gain, finding.id))
    return [alike[0] for alike in grouped(ranked, lambda each: each.recommendation).values()]


def findings_to_json(findings: Sequence[Finding]) -> str:
    """The text of a findings file; the same findings give the same text."""
    file = _File(schema_version=SCHEMA_VERSION, findings=tuple(findings))
    return json.dumps(file.model_dump(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


FINDINGS_FILE: Final = JsonFile(
    name="findings",
    content=_File,
    version=SCHEMA_VERSION,
    error=ReportError,
    again="delete it and make it again with gpu-report stage derive-findings",
)


def read_findings(path: Path) -> list[Finding]:
    """Read the findings file that `write_findings` wrote, and check it.

    Raises:
        ReportError: the file is missing, cut short, of another schema version, or holds what a
            finding cannot hold.
    """
    return list(FINDINGS_FILE.read(path).findings)


FINDINGS: Final = Table(
    name="findings",
    meaning="One row per finding and piece of evidence behind it; at least one row.",
    columns=(
        text("finding", "Identifier: experiment, question and subject, as in device_faster/lstm."),
        text("verdict", "The answer: yes, no, too close to call or not measured."),
        text("question", "The question."),
        text("statement", "The answer in words, with its numbers."),
        text("threshold", "What decides, and why it is drawn there."),
        text("evidence", "What the number is; empty without evidence."),
        text("value", "The number as text, with interval, count and unit."),
        text(
            "table",
            "The table that has it, without .csv; empty where it was derived from others.",
        ),
        text("variant", "The variant it was measured on; empty where it is about several."),
        text("recommendation", "What to do; empty where nothing follows."),
        number(
            "gain",
            "1",
            "Factor in throughput that following the recommendation gave; missing if not measured.",
        ),
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
    same = {
        **finding.model_dump(
            include={"verdict", "question", "statement", "threshold", "recommendation"}
        ),
        "finding": finding.id,
        "gain": math.nan if finding.gain is None else finding.gain,
        "gain_low": low,
        "gain_high": high,
    }
    cells = [
        {"evidence": one.label, "value": one.value, "table": one.table, "variant": one.variant}
        for one in finding.evidence
    ]
    return [{**same, **cell} for cell in cells or [_NO_EVIDENCE]]


def write_findings(findings: Sequence[Finding], folder: Path) -> None:
    """Write findings.json and the table FINDINGS as findings.csv, each whole or not at all.

    Raises:
        FileWriteError: the disk is full or the folder cannot be written.
    """
    write_text_atomically(folder / "findings.json", findings_to_json(findings))
    write_text_atomically(folder / "findings.csv", findings_to_csv(findings))
