"""The tables in the text that are about the whole study: machine, learning, operations, and the appendix's.

Each takes rows of the study's tables and gives a TableBlock.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_report.glossary import AXES, METRICS, Metric, Row
from gpu_report.number_format import Quantity, duration, exact, percent, share
from gpu_report.writing.fields import Field, count_field, text_field
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import escape
from gpu_report.writing.words import device_words, marks_of, on_device, telling, titled

_LONGEST_OPERATION_NAME: Final = 90
_METRIC_WORDS: Final = {"train_loss": "training loss", "test_loss": "held-out loss", "quality": "quality"}


def machine_table(rows: Sequence[Row], *, topics: Sequence[str], name: str, caption: str, source: str) -> TableBlock:
    """Facts about the machine, those of the topics given."""
    return lay_out(
        [row for row in rows if row["topic"] in topics],
        name=name,
        caption=escape(caption),
        fields=[
            Field(header="fact", text=_fact, width=0.3),
            text_field("as found", "value", width=0.6, longest=500),
        ],
        group=lambda row: row["topic"],
        source=source,
    )


def _fact(row: Row) -> str:
    """The fact's name in the table of the machine, in the words of the report."""
    return str(row["name"]).replace("accelerator", "GPU").replace("variant", "configuration")


def consistency_table(rows: Sequence[Row], *, titles: Mapping[str, str], source: str) -> TableBlock:
    """How far CPU and accelerator are apart after the last epoch, by workload."""
    pairs = []
    for alike in _grouped(rows, "workload", "size", "batch_size", "device").values():
        last = [row for row in alike if row["epoch"] == max(one["epoch"] for one in alike)]
        differences = {f"difference_{row['metric']}": float(row["difference_percent"]) for row in last}
        pairs.append({**dict.fromkeys(map("difference_{}".format, _METRIC_WORDS), math.nan), **last[0], **differences})
    differing = telling(("size", "batch_size"), pairs, beside=("workload", "device"))
    return lay_out(
        pairs,
        name="consistency",
        caption=escape(
            "By how much the GPU differs from the CPU after the last epoch, trained from the same seeds; "
            "the values are in the CSV file."
        ),
        fields=[
            Field(header="workload", text=lambda row: titles[row["workload"]]),
            *(text_field(AXES[axis], axis) for axis in differing),
            Field(header="GPU", text=lambda row: device_words(row["device"])),
        ],
        metrics=[
            Metric(column=f"difference_{name}", header=words, show=_difference) for name, words in _METRIC_WORDS.items()
        ],
        group=lambda row: row["workload"],
        source=source,
    )


def _difference(value: float) -> Quantity:
    """In per cent; what would show as a zero that it is not is told as less than the last digit."""
    return Quantity(value="$<$0.1", unit="%") if 0 < value < 0.05 else percent(value)


def operations_table(rows: Sequence[Row], *, variants: Sequence[Row], source: str) -> TableBlock:
    """The operations of each variant that took most time of their own."""
    titles = {str(row["variant"]): f"{titled(row)} {on_device(row['device'])}, {row['variant']}" for row in variants}
    return lay_out(
        rows,
        name="operations",
        caption=escape("The operations that took most time of their own in the profiled steps, workload by workload."),
        fields=[
            Field(header="", text=lambda row: str(row["rank"]), is_number=True),
            Field(
                header="operation",
                text=lambda row: str(row["name"]),
                is_name=True,
                width=0.36,
                longest=_LONGEST_OPERATION_NAME,
            ),
            text_field("category", "category"),
            count_field("calls", "calls"),
        ],
        metrics=[
            Metric(column="total_ms", header="with callees", show=_milliseconds),
            Metric(column="self_ms", header="own time", show=_milliseconds),
            Metric(column="self_share", header="share", show=share),
        ],
        group=lambda row: row["variant"],
        heading=lambda row: titles[str(row["variant"])],
        source=source,
    )


def sources_table(rows: Sequence[Row], *, source: str) -> TableBlock | None:
    """The sources' figures beside ours: those of each requirement of which any was measured here; None without one."""
    reported = [row for row in rows if math.isfinite(row["reported"])]
    answered = {row["row"] for row in reported if math.isfinite(row["ours"])}
    shown = [row for row in reported if row["row"] in answered]
    if not shown:
        return None
    return lay_out(
        shown,
        name="sources",
        caption=escape(
            "What the sources of this study report on their hardware, and the same trainings on this machine."
        ),
        fields=[
            text_field("", "row"),
            text_field("measured", "measured"),
            Field(header="source", text=_theirs, is_number=True),
            Field(header="ours", text=_ours, is_number=True),
        ],
        metrics=[Metric(column="ratio", header="ratio")],
        group=lambda row: row["source"],
        heading=lambda row: f"{row['source']} (hardware: {row['hardware']})",
        marks=marks_of,
        notes=[
            escape(
                "The ratio is ours over the source's, with all that differs between them: below 1, a time is shorter "
                "here. A time is that of a whole training, the first epoch included, and so is a ratio of times. The "
                "CSV file says what a source leaves open and was chosen here, and has the trainings that one side "
                "alone has a figure for."
            )
        ],
        source=source,
    )


def _theirs(row: Row) -> str:
    unit = {"1": "", "1/s": "samples/s"}.get(str(row["unit"]), str(row["unit"]))
    return exact(float(row["reported"]), unit).plain()


def _ours(row: Row) -> str:
    """As such numbers are shown elsewhere."""
    show = METRICS[str(row["metric"])].show
    bounds = {end: float(row[f"ours_{end}"]) for end in ("low", "high") if math.isfinite(row[f"ours_{end}"])}
    return str(show(float(row["ours"]), **bounds).plain())


def _milliseconds(value: float) -> Any:
    return duration(value / 1000, unit="ms")


def _grouped(rows: Sequence[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups
