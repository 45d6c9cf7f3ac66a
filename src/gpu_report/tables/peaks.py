"""What the calibration reached on this machine: the ceilings that a training is held against.

Calibration -> one Ceilings per device -> a row per matrix product, for the device's own copy, and for either direction
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from gpu_report.calibration import Calibration, Ceilings, Direction
from gpu_report.tables.schema import PEAKS
from gpu_report.tables.statistics import summarise
from gpu_report.tables.transfers import fastest, rates_per_s

if TYPE_CHECKING:
    import pandas as pd

_PINNED: Final = "pinned"


def tabulate_peaks(calibration: Calibration | None) -> "pd.DataFrame":
    """The table PEAKS in the order of the calibration; no rows without one.

    The link to the host is that of the fastest size from pinned memory, in each direction; the CPU has none.
    """
    return PEAKS.from_rows(row for ceilings in (calibration.ceilings if calibration else []) for row in _rows(ceilings))


def _rows(ceilings: Ceilings) -> Iterator[dict[str, Any]]:
    device = ceilings.device
    for product in ceilings.matrix_products:
        yield _row(device, "matrix product", "FLOP/s", product.flops_per_s, precision=product.precision)
    yield _row(device, "device copy", "B/s", ceilings.copy_bytes_per_s)
    for direction in get_args(Direction):
        pinned = [one for one in ceilings.transfers if (one.direction, one.memory) == (direction, _PINNED)]
        if pinned:
            yield _row(device, direction, "B/s", rates_per_s(fastest(pinned)))


def _row(device: str, ceiling: str, unit: str, rates: Sequence[float], *, precision: str = "") -> dict[str, Any]:
    return {
        "device": device,
        "ceiling": ceiling,
        "precision": precision,
        "unit": unit,
        **summarise(rates).as_columns("value"),
    }
