"""What the calibration reached on this machine: the ceilings that a training is held against.

Calibration -> one Ceilings per device -> a row per matrix product, for the device's own copy, and
for either direction Calibration -> Link between devices -> a row per operation, number of devices
and payload
data sheets -> beside each, what the vendor's document gives for a GPU of that name
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, get_args

from gpu_report.glossary import Row
from gpu_report.printing.number_format import share
from gpu_report.records.calibration import (
    Calibration,
    Ceilings,
    DevicePair,
    Direction,
    Link,
    LinkOperation,
    Operation,
    Transfer,
)
from gpu_report.records.data_sheets import DataSheet, data_sheets
from gpu_report.storage.columns import Table, number, text, whole
from gpu_report.tables.statistics import DEVICE, summarise, summary, summary_of
from gpu_report.traces.ranks import BUS_FACTORS

PEAKS: Final = Table(
    name="peaks",
    meaning="One row per device and ceiling: what the calibration reached on this machine.",
    columns=(
        DEVICE,
        text(
            "ceiling",
            "'matrix product', 'device copy', 'to device' or 'to host' (the last two from pinned "
            "memory).",
        ),
        text("precision", "Of a matrix product; empty otherwise."),
        text("shape", "Of that product, the fastest tried: rows, columns, inner length."),
        text("unit", "FLOP/s or B/s."),
        *summary(
            "value",
            "unit",
            "The rate reached; a copy inside the device counts bytes read and bytes written",
        ),
        number(
            "data_sheet",
            "unit",
            "What the vendor gives for dense matrices, or for the memory's bandwidth.",
        ),
        number(
            "share_of_data_sheet",
            "1",
            "value over data_sheet; missing for a GPU that is not known, and for CPUs.",
        ),
        text(
            "data_sheet_source",
            "The vendor's document, or why it is not compared; empty for an unknown device.",
        ),
    ),
)

TRANSFERS: Final = Table(
    name="transfers",
    meaning="One row per device, direction, kind of host memory and size of a copy between host "
    "and device.",
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

LINKS: Final = Table(
    name="links",
    meaning="One row per operation, number of devices and payload: what the link between devices "
    "reached.",
    columns=(
        text(
            "operation",
            "'all-reduce', 'all-gather', 'reduce-scatter' or 'point-to-point' (from one to "
            "another).",
        ),
        whole(
            "devices",
            "1",
            "Devices that took part, the first of their kind, by a process for each.",
        ),
        whole(
            "bytes",
            "B",
            "Payload: what each has after an all-gather, or before any other operation.",
        ),
        *summary(
            "time_us", "us", "Time of one operation on its slowest rank, several behind each other"
        ),
        *summary_of("bus_bandwidth_gb_per_s"),
        text("backend", "PyTorch's backend with the version of its library."),
        text(
            "connections",
            "Kinds of connection between these devices, as in nvidia-smi topo -m; empty if "
            "unknown.",
        ),
        text(
            "peer_access",
            "'all', 'some' or 'none' of these devices can read each other's memory; empty if "
            "unknown.",
        ),
        text("multicast", "NVLink SHARP: 'off' or 'left to NCCL'; empty for another backend."),
        number(
            "data_sheet_gb_per_s",
            "GB/s",
            "Bandwidth, in one direction, of the NVLinks from one of these devices to all others, "
            "by the vendor's data sheet; missing if unknown or if other links connect some.",
        ),
    ),
)

_MICRO: Final = 1e6
_GIGA: Final = 1e9
_MOST_OF_DATA_SHEET: Final = 1.05
"""A device that reaches more is another than the one that the document describes."""


def tabulate_peaks(calibration: Calibration | None) -> list[Row]:
    """The table PEAKS in the order of the calibration; no rows without one.

    The link to the host is that of the fastest size from pinned memory, in each direction; the CPU
    has none.
    """
    return [
        row for ceilings in (calibration.ceilings if calibration else []) for row in _rows(ceilings)
    ]


def _rows(ceilings: Ceilings) -> list[Row]:
    rows, sheet = [*_measured(ceilings)], data_sheets().get(ceilings.name)
    given = [sheet and sheet.rate(row["ceiling"], row["precision"]) for row in rows]
    shares = [row["value"] / rate if rate else None for row, rate in zip(rows, given, strict=True)]
    source = sheet.document if sheet else ""
    highest = max((reached for reached in shares if reached), default=0.0)
    if highest > _MOST_OF_DATA_SHEET:
        source = (
            f"not compared, because a ceiling is {share(highest).plain()} of what {source} gives "
            f"for {ceilings.name}"
        )
        given = shares = [None] * len(rows)
    return [
        {**row, "data_sheet": rate, "share_of_data_sheet": reached, "data_sheet_source": source}
        for row, rate, reached in zip(rows, given, shares, strict=True)
    ]


def _measured(ceilings: Ceilings) -> Iterator[Row]:
    device = ceilings.device
    for product in sorted(ceilings.peaks.values(), key=ceilings.matrix_products.index):
        yield _row(
            device,
            "matrix product",
            "FLOP/s",
            product.flops_per_s,
            precision=product.precision,
            shape=" x ".join(map(str, product.shape)),
        )
    yield _row(device, "device copy", "B/s", ceilings.copy_bytes_per_s)
    for direction in get_args(Direction):
        pinned = [
            one
            for one in ceilings.transfers
            if (one.direction, one.memory) == (direction, "pinned")
        ]
        if pinned:
            yield _row(device, direction, "B/s", rates_per_s(max(pinned, key=_bandwidth)))


def _row(
    device: str,
    ceiling: str,
    unit: str,
    rates: Sequence[float],
    *,
    precision: str = "",
    shape: str = "",
) -> Row:
    return {
        "device": device,
        "ceiling": ceiling,
        "precision": precision,
        "shape": shape,
        "unit": unit,
        **summarise(rates).as_columns("value"),
    }


def tabulate_transfers(calibration: Calibration | None) -> list[Row]:
    """The table TRANSFERS in the order of the calibration; no rows without one, and none of the
    CPU.
    """
    ceilings = calibration.ceilings if calibration else []
    return [
        {
            "device": one.device,
            "direction": transfer.direction,
            "memory": transfer.memory,
            "bytes": transfer.bytes,
            **summarise([_MICRO * time_s for time_s in transfer.times_s]).as_columns("time_us"),
            **summarise([rate / _GIGA for rate in rates_per_s(transfer)]).as_columns(
                "bandwidth_gb_per_s"
            ),
            "share_of_peak": _bandwidth(transfer)
            / max(
                _bandwidth(each) for each in one.transfers if each.direction == transfer.direction
            ),
        }
        for one in ceilings
        for transfer in one.transfers
    ]


def rates_per_s(transfer: Transfer) -> list[float]:
    """Bytes per second, one per process."""
    return [transfer.bytes / time_s for time_s in transfer.times_s]


def _bandwidth(transfer: Transfer) -> float:
    return summarise(rates_per_s(transfer)).value


def bus_bandwidth_per_s(
    operation: Operation, *, devices: int, payload_bytes: int, time_s: float
) -> float:
    """Bytes per second that the slowest connection carries in one direction, whatever the number of
    devices.
    """
    return BUS_FACTORS[operation](devices) * payload_bytes / time_s


def tabulate_links(calibration: Calibration | None) -> list[Row]:
    """The table LINKS in the order of the calibration; no rows without one, and none where no
    devices were linked.
    """
    if calibration is None or calibration.link is None:
        return []
    link = calibration.link
    kind = link.devices[0].partition(":")[0]
    names = [one.name for one in calibration.ceilings if one.device.partition(":")[0] == kind]
    sheet = data_sheets().get(names[0]) if names else None
    return [_link_row(link, one, sheet) for one in link.operations]


def _link_row(link: Link, one: LinkOperation, sheet: DataSheet | None) -> Row:
    involved = set(link.devices[: one.devices])
    pairs = [pair for pair in link.pairs if involved.issuperset(pair.devices)]
    connections = {pair.connection for pair in pairs}
    access = [pair.has_peer_access for pair in pairs]
    rates = [
        bus_bandwidth_per_s(
            one.operation, devices=one.devices, payload_bytes=one.bytes, time_s=time_s
        )
        for time_s in one.times_s
    ]
    return {
        "operation": one.operation,
        "devices": one.devices,
        "bytes": one.bytes,
        **summarise([_MICRO * time_s for time_s in one.times_s]).as_columns("time_us"),
        **summarise([rate / _GIGA for rate in rates]).as_columns("bus_bandwidth_gb_per_s"),
        "backend": " ".join(filter(None, (link.backend, link.backend_version))),
        "connections": "" if None in connections else ", ".join(sorted(filter(None, connections))),
        "peer_access": ("all" if all(access) else "some" if any(access) else "none")
        if access
        else "",
        "multicast": link.multicast or "",
        "data_sheet_gb_per_s": sheet.one_way_gb_per_s(_fewest_nvlinks(pairs))
        if sheet
        else math.nan,
    }


def _fewest_nvlinks(pairs: Sequence[DevicePair]) -> int:
    """Those of the device that has the fewest to all others together; 0 where other links connect
    some. Through a switch, the same links lead to all others, and more are counted than it has.
    """
    links: Counter[str] = Counter()
    for pair in pairs:
        name = pair.connection or ""
        if not name.startswith("NV"):
            return 0
        links.update(dict.fromkeys(pair.devices, int(name[2:])))
    return min(links.values(), default=0)


MADE_BY_CALIBRATION: Final[Mapping[Table, Callable[[Calibration | None], list[Row]]]] = {
    PEAKS: tabulate_peaks,
    TRANSFERS: tabulate_transfers,
    LINKS: tabulate_links,
}
"""The tables that the calibration alone decides, and what makes each."""
