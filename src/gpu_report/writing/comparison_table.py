"""The table of machines side by side: what each measured of the same variant, and the ratio of the two."""

from collections.abc import Sequence
from typing import Final

from gpu_report.glossary import RATIO, Metric, Row, machine_words
from gpu_report.number_format import throughput
from gpu_report.writing.fields import Field, text_field
from gpu_report.writing.pictures import COMPARISON_CSV
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import escape
from gpu_report.writing.words import marks_of

_METRICS: Final = (
    Metric(
        column="reference_throughput_per_s",
        header="on the reference",
        show=throughput,
    ),
    Metric(
        column="throughput_per_s",
        header="on the machine",
        show=throughput,
    ),
    RATIO,
)


def comparison_tables(rows: Sequence[Row]) -> list[TableBlock]:
    """One table per pair of machines that measured the same variants, one row per variant."""
    pairs = list(dict.fromkeys((str(row["machine"]), str(row["reference_machine"])) for row in rows))
    return [
        _table([row for row in rows if (row["machine"], row["reference_machine"]) == pair], *pair, number=number)
        for number, pair in enumerate(pairs, start=1)
    ]


def _table(rows: Sequence[Row], machine: str, reference: str, *, number: int) -> TableBlock:
    differing = any(row["differences"] for row in rows)
    names = f"{machine_words(machine)} over {machine_words(reference)}"
    return lay_out(
        rows,
        name="comparison" if number == 1 else f"comparison_{number}",
        caption=escape(f"Throughput of the same configurations: {names}, the reference."),
        fields=[
            Field(header="variant", text=lambda row: str(row["variant"]), is_name=True, width=0.3, longest=100),
            *([text_field("what else differs", "differences", width=0.25, longest=120)] if differing else []),
        ],
        metrics=_METRICS,
        group=lambda row: row["workload"],
        marks=marks_of,
        notes=[escape("A ratio is between two machines, with all that differs between them.")],
        source=COMPARISON_CSV,
    )
