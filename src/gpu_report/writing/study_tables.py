"""The tables in the text that are about the whole study: machine, learning, operations, and the appendix's.

Each takes rows of the study's tables and gives a TableBlock.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpu_report.glossary import METRICS, SHOWN, Metric, Row
from gpu_report.number_format import Quantity, duration, exact, percent, share
from gpu_report.writing.fields import Field, count_field, text_field
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import escape
from gpu_report.writing.words import AXES, device_words, marks_of, on_device, status_words, telling, titled

_LONGEST_OPERATION_NAME: Final = 90
_LONG_NAMES: Final = 0.42
_MAIN_FIGURES: Final = (
    *("step_time", "throughput", "epoch_time", "first_epoch_ratio", "memory", "quality", "profile_overhead"),
)
_METRIC_WORDS: Final = {"train_loss": "training loss", "test_loss": "held-out loss", "quality": "quality"}


def machine_table(rows: Sequence[Row], *, topics: Sequence[str], name: str, caption: str, source: str) -> TableBlock:
    """Facts about the machine, those of the topics given."""
    return lay_out(
        [row for row in rows if row["topic"] in topics],
        name=name,
        caption=escape(caption),
        fields=[text_field("fact", "name", width=0.3), text_field("as found", "value", width=0.6, longest=500)],
        group=lambda row: row["topic"],
        source=source,
    )


def learning_table(variants: Sequence[Row], convergence: Sequence[Row], *, source: str) -> TableBlock | None:
    """What each variant learnt: quality and held-out loss after the last epoch, beside chance and the first epoch.

    None where no variant learns from epoch to epoch.
    """
    first_loss = _mean_by_variant(convergence, "train_loss", last=False)
    last_loss = _mean_by_variant(convergence, "train_loss", last=True)
    rows = [
        {**row, "first_train_loss": first_loss[row["variant"]], "last_train_loss": last_loss[row["variant"]]}
        for row in variants
        if row["variant"] in first_loss
    ]
    if not rows:
        return None
    return lay_out(
        rows,
        name="learning",
        caption=escape(
            "What was learnt: training loss in the first and in the last epoch, held-out loss and quality; "
            "the intervals are in the CSV file."
        ),
        fields=[_variant_field(_LONG_NAMES), text_field("metric", "quality_name")],
        metrics=[
            Metric(column="first_train_loss", header="first epoch"),
            Metric(column="last_train_loss", header="last epoch"),
            SHOWN["test_loss"],
            SHOWN["quality"],
            Metric(column="quality_chance", header="chance"),
        ],
        intervals=False,
        source=source,
    )


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
            "By how much an accelerator differs from the CPU after the last epoch, trained from the same seeds; "
            "the values are in the CSV file."
        ),
        fields=[
            Field(header="workload", text=lambda row: titles[row["workload"]]),
            *(text_field(AXES[axis], axis) for axis in differing),
            Field(header="accelerator", text=lambda row: device_words(row["device"])),
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


def variants_table(rows: Sequence[Row], *, source: str) -> TableBlock:
    """Every variant of the study with its main figures, and with what became of it where that differs."""
    optional = {
        "processes": Field(header="processes", text=lambda row: str(row["processes"]), is_number=True),
        "measured_at": Field(header="measured", text=lambda row: str(row["measured_at"])[:10]),
        "same_code": Field(header="code", text=lambda row: "today's" if row["same_code"] else "other"),
    }
    measured = [row for row in rows if row["status"] == "ok"] or rows
    constant = {name: field for name, field in optional.items() if len({field.text(row) for row in measured}) == 1}
    same = ", ".join(f"{field.header} {field.text(measured[0])}" for field in constant.values())
    return lay_out(
        rows,
        name="variants",
        caption=escape("Every variant of the study: what was measured; the intervals are in the CSV file.")
        + escape(f" The same in all rows with numbers: {same}." if same else ""),
        fields=[_variant_field(_LONG_NAMES), *(field for name, field in optional.items() if name not in constant)],
        intervals=False,
        metrics=[SHOWN[key] for key in _MAIN_FIGURES],
        group=lambda row: row["workload"],
        missing=status_words,
        marks=marks_of,
        notes=[
            escape(
                "A variant's name gives workload, size, device, batch size (b), parts of a batch (a) where there are "
                "several, DataLoader workers (w), precision, epochs (e), where shortened the steps of each (x),"
                " the seed "
                "where it is not 0, and what is switched on."
            )
        ],
        source=source,
    )


def _variant_field(width: float = 0.3) -> Field:
    return Field(header="variant", text=lambda row: str(row["variant"]), is_name=True, width=width, longest=100)


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
                "here. A time is that of a whole training, the first epoch included. The CSV file says what a source "
                "leaves open and was chosen here, and has the trainings that one side alone has a figure for."
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


def _mean_by_variant(convergence: Sequence[Row], column: str, *, last: bool) -> dict[str, float]:
    """The mean over processes of a figure of the first or the last epoch."""
    from statistics import fmean

    found = {}
    for (variant,), rows in _grouped(convergence, "variant").items():
        epoch = (max if last else min)(row["epoch"] for row in rows)
        found[variant] = fmean(float(row[column]) for row in rows if row["epoch"] == epoch)
    return found
