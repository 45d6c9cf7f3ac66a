"""What the calibration reached on this machine: the ceilings that a training is held against.

Calibration -> one Ceilings per device -> a row per matrix product, for the device's own copy, and for either direction
data_sheets.yaml -> beside each, what the vendor's document gives for a GPU of that name
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, get_args

from gpu_report.glossary import Row
from gpu_report.printing.number_format import share
from gpu_report.records.calibration import Calibration, Ceilings, Direction, Transfer
from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.storage.json_files import Part, Positive
from gpu_report.tables.column_kinds import DEVICE, summary, summary_of
from gpu_report.tables.statistics import summarise

PEAKS: Final = Table(
    name="peaks",
    meaning="One row per device and ceiling: what the calibration reached on this machine.",
    columns=(
        DEVICE,
        text("ceiling", "'matrix product', 'device copy', 'to device' or 'to host' (the last two from pinned memory)."),
        text("precision", "Of a matrix product; empty otherwise."),
        text("unit", "FLOP/s or B/s."),
        *summary("value", "unit", "The rate reached; a copy inside the device counts bytes read and bytes written"),
        number("data_sheet", "unit", "What the vendor gives for dense matrices, or for the memory's bandwidth."),
        number("share_of_data_sheet", "1", "value over data_sheet; missing for a GPU that is not known, and for CPUs."),
        text("data_sheet_source", "The vendor's document, or why it is not compared; empty for an unknown device."),
    ),
)

TRANSFERS: Final = Table(
    name="transfers",
    meaning="One row per device, direction, kind of host memory and size of a copy between host and device.",
    columns=(
        DEVICE,
        text("direction", "'to device' or 'to host'."),
        text("memory", "'pageable' or 'pinned'."),
        whole("bytes", "B", "Size of the copy."),
        *summary_of("time_us"),
        *summary_of("bandwidth_gb_per_s"),
        number("share_of_peak", "1", "bandwidth over the highest of that direction."),
    ),
)

_MICRO: Final = 1e6
_GIGA: Final = 1e9
_PINNED: Final = "pinned"
_MOST_OF_DATA_SHEET: Final = 1.05
"""A device that reaches more is another than the one that the document describes."""


class DataSheet(Part):
    """What a vendor's document says of GPUs; data_sheets.yaml explains the fields."""

    names: list[str]
    document: str
    tflops: dict[str, Positive]
    memory_gb_per_s: Positive

    def rate(self, ceiling: str, precision: str) -> float | None:
        """FLOP/s of a matrix product, B/s of a copy inside the device; None of what it does not give."""
        if ceiling == "device copy":
            return 1e9 * self.memory_gb_per_s
        return 1e12 * self.tflops[precision] if precision in self.tflops else None


@cache
def data_sheets() -> Mapping[str, DataSheet]:
    """What tables/data_sheets.yaml holds, checked, by the name that the driver reports."""
    import yaml

    text = resources.files("gpu_report.tables").joinpath("data_sheets.yaml").read_text("utf-8")
    return {name: sheet for sheet in map(DataSheet.model_validate, yaml.safe_load(text)) for name in sheet.names}


def tabulate_peaks(calibration: Calibration | None) -> list[Row]:
    """The table PEAKS in the order of the calibration; no rows without one.

    The link to the host is that of the fastest size from pinned memory, in each direction; the CPU has none.
    """
    return [row for ceilings in (calibration.ceilings if calibration else []) for row in _rows(ceilings)]


def _rows(ceilings: Ceilings) -> list[Row]:
    rows, sheet = [*_measured(ceilings)], data_sheets().get(ceilings.name)
    given = [sheet and sheet.rate(row["ceiling"], row["precision"]) for row in rows]
    shares = [row["value"] / rate if rate else None for row, rate in zip(rows, given, strict=True)]
    source = sheet.document if sheet else ""
    highest = max((reached for reached in shares if reached), default=0.0)
    if highest > _MOST_OF_DATA_SHEET:
        source = (
            f"not compared, because a ceiling is {share(highest).plain()} of what {source} gives for {ceilings.name}"
        )
        given = shares = [None] * len(rows)
    return [
        {**row, "data_sheet": rate, "share_of_data_sheet": reached, "data_sheet_source": source}
        for row, rate, reached in zip(rows, given, shares, strict=True)
    ]


def _measured(ceilings: Ceilings) -> Iterator[Row]:
    device = ceilings.device
    for product in ceilings.matrix_products:
        yield _row(device, "matrix product", "FLOP/s", product.flops_per_s, precision=product.precision)
    yield _row(device, "device copy", "B/s", ceilings.copy_bytes_per_s)
    for direction in get_args(Direction):
        pinned = [one for one in ceilings.transfers if (one.direction, one.memory) == (direction, _PINNED)]
        if pinned:
            yield _row(device, direction, "B/s", rates_per_s(fastest(pinned)))


def _row(device: str, ceiling: str, unit: str, rates: Sequence[float], *, precision: str = "") -> Row:
    return {
        "device": device,
        "ceiling": ceiling,
        "precision": precision,
        "unit": unit,
        **summarise(rates).as_columns("value"),
    }


def tabulate_transfers(calibration: Calibration | None) -> list[Row]:
    """The table TRANSFERS in the order of the calibration; no rows without one, and none of the CPU."""
    ceilings = calibration.ceilings if calibration else []
    return [row for one in ceilings for row in _transfer_rows(one)]


def rates_per_s(transfer: Transfer) -> list[float]:
    """Bytes per second, one per process."""
    return [transfer.bytes / time_s for time_s in transfer.times_s]


def fastest(transfers: Sequence[Transfer]) -> Transfer:
    """The one with the highest mean bandwidth; there must be one."""
    return max(transfers, key=_bandwidth)


def _bandwidth(transfer: Transfer) -> float:
    return summarise(rates_per_s(transfer)).value


def _transfer_rows(ceilings: Ceilings) -> Iterator[Row]:
    for transfer in ceilings.transfers:
        peak = fastest([one for one in ceilings.transfers if one.direction == transfer.direction])
        rates = rates_per_s(transfer)
        yield {
            "device": ceilings.device,
            "direction": transfer.direction,
            "memory": transfer.memory,
            "bytes": transfer.bytes,
            **summarise([_MICRO * time_s for time_s in transfer.times_s]).as_columns("time_us"),
            **summarise([rate / _GIGA for rate in rates]).as_columns("bandwidth_gb_per_s"),
            "share_of_peak": _bandwidth(transfer) / _bandwidth(peak),
        }
