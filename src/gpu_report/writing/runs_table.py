"""The appendix's table of runs: which code measured each variant, when, by which protocol, and its trace's hash."""

from collections.abc import Sequence
from typing import Final

from gpu_report.glossary import Row
from gpu_report.records import Record
from gpu_report.writing.fields import Field
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import escape

_HASH_CHARACTERS: Final = 12
"""Enough to tell any two runs of a study apart, and to find the whole hash in the record."""
_COMMIT_CHARACTERS: Final = 9


def runs_table(records: Sequence[Record], *, source: str) -> TableBlock:
    """One row per record; what is the same in all rows stands in the caption."""
    rows = [_row(record) for record in records]
    columns = {
        "measured_at": Field(header="measured, UTC", text=lambda row: str(row["measured_at"])),
        "protocol": Field(header="protocol", text=lambda row: str(row["protocol"])),
        "commit": Field(header="commit", text=lambda row: str(row["commit"]), is_name=True),
        "code": Field(header="measuring code", text=lambda row: str(row["code"]), is_name=True),
        "trace": Field(header="trace, SHA-256", text=lambda row: str(row["trace"]), is_name=True),
    }
    constant = {name: field for name, field in columns.items() if len({field.text(row) for row in rows}) == 1}
    same = ", ".join(f"{field.header} {field.text(rows[0])}" for field in constant.values())
    return lay_out(
        rows,
        name="runs",
        title=escape("The runs behind the numbers"),
        caption=escape(
            "The runs behind the numbers: the record of each has the step times of every process, and the whole hashes "
            "of which the first characters stand here." + (f" The same in all rows: {same}." if same else "")
        ),
        fields=[
            Field(header="variant", text=lambda row: str(row["variant"]), is_name=True, width=0.56, longest=100),
            *(field for name, field in columns.items() if name not in constant),
        ],
        group=lambda row: row["workload"],
        source=source,
    )


def _row(record: Record) -> Row:
    provenance = record.provenance
    commit = (provenance.git_commit or "unknown")[:_COMMIT_CHARACTERS]
    return {
        "variant": record.variant,
        "workload": record.as_variant().workload,
        "measured_at": provenance.measured_at[:16].replace("T", " "),
        "protocol": record.measurement["protocol"]["version"],
        "commit": f"{commit}, with changes" if provenance.git_dirty else commit,
        "code": provenance.code_digest[:_HASH_CHARACTERS],
        "trace": record.profile.trace_sha256[:_HASH_CHARACTERS] if record.profile else "none",
    }
