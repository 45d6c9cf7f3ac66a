"""Copies between host and device, by direction, kind of host memory and size: their time and what it makes a second.

Calibration -> Transfer -> one time per process -> time and bandwidth, and the share of the direction's highest
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from gpu_report.calibration import Calibration, Ceilings, Transfer
from gpu_report.tables.schema import TRANSFERS
from gpu_report.tables.statistics import summarise

if TYPE_CHECKING:
    import pandas as pd

_MICRO: Final = 1e6
_GIGA: Final = 1e9


def tabulate_transfers(calibration: Calibration | None) -> "pd.DataFrame":
    """The table TRANSFERS in the order of the calibration; no rows without one, and none of the CPU."""
    ceilings = calibration.ceilings if calibration else []
    return TRANSFERS.from_rows(row for one in ceilings for row in _rows(one))


def rates_per_s(transfer: Transfer) -> list[float]:
    """Bytes per second, one per process."""
    return [transfer.bytes / time_s for time_s in transfer.times_s]


def fastest(transfers: Sequence[Transfer]) -> Transfer:
    """The one with the highest mean bandwidth; there must be one."""
    return max(transfers, key=_bandwidth)


def _bandwidth(transfer: Transfer) -> float:
    return summarise(rates_per_s(transfer)).value


def _rows(ceilings: Ceilings) -> Iterator[dict[str, Any]]:
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
