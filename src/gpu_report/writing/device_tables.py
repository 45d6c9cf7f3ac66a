"""The tables in the text about what a device can do and what it takes: ceilings, copies, efficiency, energy.

Each takes rows of a machine's tables and gives a TableBlock.
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import median
from typing import Final

from gpu_report.glossary import METRICS, SHOWN, Metric, Row
from gpu_report.number_format import exact, prefix_of, quantity, scaled, share
from gpu_report.writing.fields import Field, text_field
from gpu_report.writing.table_block import TableBlock, lay_out
from gpu_report.writing.tex import escape
from gpu_report.writing.words import device_words, marks_of

_PRICED: Final = (("electricity", "kwh", "kWh"), ("device time", "device_hour", "hour"))
"""What a cost may count, and the ends of the price's name and of its words."""
_ENERGY_METRICS: Final = ("power", "energy_per_sample", "energy_per_epoch", "utilisation", "sm_clock", "temperature")


def peaks_table(rows: Sequence[Row], *, source: str) -> TableBlock:
    """What each device reaches at most, each ceiling in its own unit, beside what the vendor gives."""
    sources = {str(row["data_sheet_source"]): device_words(row["device"]) for row in rows if row["data_sheet_source"]}
    given = Field(header="data sheet", text=_data_sheet_text, is_number=True)
    return lay_out(
        rows,
        name="peaks",
        caption=escape("Ceilings: what a plain operation reaches on this machine, measured by the calibration."),
        fields=[
            Field(header="device", text=lambda row: device_words(row["device"])),
            text_field("ceiling", "ceiling"),
            text_field("precision", "precision"),
            Field(header="reached", text=_peak_text, is_number=True),
            *([given] if any(math.isfinite(row["data_sheet"]) for row in rows) else []),
        ],
        metrics=[Metric(column="share_of_data_sheet", header="of it", show=share)],
        group=lambda row: row["device"],
        notes=[escape(f"Data sheet of {device}: {source}.") for source, device in sources.items()],
        source=source,
    )


def efficiency_table(rows: Sequence[Row], *, source: str) -> TableBlock:
    """How near variants came to the ceilings of their device."""
    return lay_out(
        rows,
        name="efficiency",
        caption=escape(
            "Efficiency: achieved floating-point operations per second, their share of the peak of the variant's "
            "precision and of its roof, and the arithmetic intensity; the intervals are in the CSV file."
        ),
        fields=[
            Field(header="variant", text=lambda row: str(row["variant"]), is_name=True, width=0.36, longest=100),
            text_field("roof", "roof"),
        ],
        metrics=[
            _scaled_metric("flops_per_sample", "per sample", "FLOP", rows),
            Metric(column="intensity", header="intensity", show=partial(quantity, unit="FLOP/B")),
            _scaled_metric("achieved_flops_per_s", "achieved", "FLOP/s", rows),
            METRICS["share_of_peak"],
            Metric(column="share_of_roof", header="of the roof", show=share),
        ],
        group=lambda row: row["workload"],
        intervals=False,
        source=source,
    )


def energy_table(rows: Sequence[Row], *, source: str) -> TableBlock:
    """Power, energy, cost, clocks and temperature of the variants that were watched."""
    currencies = [str(row["currency"]) for row in rows if row["currency"]]
    cost = Metric(
        column="cost_per_epoch",
        header="1000 epochs cost",
        show=lambda value, **_: quantity(1000 * value, currencies[0] if currencies else ""),
    )
    return lay_out(
        rows,
        name="energy",
        caption=escape(
            "Power and energy of the GPU over the timed epochs, its clock and its temperature; "
            "the intervals are in the CSV file."
        ),
        notes=[escape(cost_note(rows))],
        fields=[Field(header="variant", text=lambda row: str(row["variant"]), is_name=True, width=0.36, longest=100)],
        metrics=[*(SHOWN[key] for key in _ENERGY_METRICS), cost],
        marks=lambda row: [mark for mark in marks_of(row) if mark != "projected"],
        intervals=False,
        source=source,
    )


def cost_note(rows: Sequence[Row]) -> str:
    """What the cost of these variants counts at which price, and for each price that is missing where it would be."""
    counted, missing = [], []
    for what, key, each in _PRICED:
        price = float(rows[0][f"price_per_{key}"])
        if math.isfinite(price):
            counted.append(f"{what} at {exact(price, str(rows[0]['currency'])).plain()} per {each}")
        else:
            missing.append(f"The price of {what} is not configured: prices.per_{key} in config/study.yaml.")
    return " ".join([*([f"Cost: {' and '.join(counted)}."] if counted else []), *missing])


def best_of_each(rows: Iterable[Row], column: str, *by: str) -> list[Row]:
    """Of the rows that agree in `by`, the one with the highest number in the column, in the order they first appear."""
    best: dict[tuple[object, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in by)
        if key not in best or float(row[column]) > float(best[key][column]):
            best[key] = row
    return list(best.values())


def _peak_text(row: Row) -> str:
    return Metric(column="value", header="reached", show=partial(scaled, unit=str(row["unit"]))).quantity(row).plain()


def _data_sheet_text(row: Row) -> str:
    return scaled(row["data_sheet"], str(row["unit"])).plain() if math.isfinite(row["data_sheet"]) else "–"


def _scaled_metric(column: str, header: str, unit: str, rows: Sequence[Row]) -> Metric:
    """A column whose numbers all have the prefix that suits their median."""
    middle = median([abs(float(row[column])) for row in rows if math.isfinite(row[column])] or [0.0])
    prefix = prefix_of(middle)
    return Metric(column=column, header=header, show=partial(scaled, unit=unit, prefix=prefix))
