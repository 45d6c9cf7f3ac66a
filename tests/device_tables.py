"""What a machine's devices reach, made without calibrating: a calibration of any devices, and tables as from it."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gpu_report.calibration import (
    SCHEMA_VERSION,
    Calibration,
    Ceilings,
    Direction,
    HostMemory,
    MatrixProduct,
    Transfer,
)
from gpu_report.records import Provenance, Record
from gpu_report.tables import schema
from gpu_report.tables.processes import process_values
from gpu_report.tables.statistics import Summary, summarise
from tests.record_parts import make_work

if TYPE_CHECKING:
    import pandas as pd

_FLOPS_PER_S: Final = {
    "cpu": {"fp32": 0.9e12, "bf16": 1.8e12},
    "cuda": {"fp32": 51e12, "tf32": 380e12, "fp16": 760e12, "bf16": 787e12},
}
_COPY_BYTES_PER_S: Final = {"cpu": 21e9, "cuda": 3.03e12}
_LINK: Final[dict[HostMemory, tuple[float, float]]] = {"pageable": (14e-6, 9e9), "pinned": (8e-6, 53e9)}
"""Time that a copy of nothing takes in s, and bytes per second beyond it."""

_DIRECTIONS: Final[tuple[Direction, ...]] = ("to device", "to host")
_SPREAD: Final = (0.99, 1.0, 1.01)
_SIZES: Final = [4**power for power in range(6, 16)]


def make_calibration(
    devices: Sequence[str] = ("cpu", "cuda"), *, machine: str = "xeon-2c", provenance: Provenance
) -> Calibration:
    """Three processes' ceilings of each device, 1 % apart; an accelerator has copies of 4 KiB to 1 GiB."""
    return Calibration(
        schema_version=SCHEMA_VERSION,
        machine=machine,
        ceilings=[_make_ceilings(device) for device in devices],
        environment={"torch": "2.15.0"},
        provenance=provenance,
    )


def _make_ceilings(device: str) -> Ceilings:
    kind = "cpu" if device == "cpu" else "cuda"
    return Ceilings(
        device=device,
        name="Intel(R) Xeon(R)" if kind == "cpu" else "NVIDIA H100 80GB HBM3",
        matrix_products=[
            MatrixProduct(precision=precision, size=2048 if kind == "cpu" else 8192, flops_per_s=_spread(flops_per_s))
            for precision, flops_per_s in _FLOPS_PER_S[kind].items()
        ],
        copy_bytes=2**28 if kind == "cpu" else 2**30,
        copy_bytes_per_s=_spread(_COPY_BYTES_PER_S[kind]),
        transfers=[] if kind == "cpu" else _make_transfers(),
    )


def _make_transfers() -> list[Transfer]:
    return [
        Transfer(direction=direction, memory=memory, bytes=size, times_s=_spread(latency_s + size / bytes_per_s))
        for direction in _DIRECTIONS
        for memory, (latency_s, bytes_per_s) in _LINK.items()
        for size in _SIZES
    ]


def _spread(value: float) -> list[float]:
    return [value * factor for factor in _SPREAD]


def make_peaks(calibration: Calibration) -> "pd.DataFrame":
    """The table PEAKS."""
    rows: list[dict[str, Any]] = []
    for one in calibration.ceilings:
        products = {product.precision: product.flops_per_s for product in one.matrix_products}
        rows += [_peak(one.device, "matrix product", of, "FLOP/s", values) for of, values in products.items()]
        rows.append(_peak(one.device, "device copy", "", "B/s", one.copy_bytes_per_s))
        largest = [each for each in one.transfers if each.memory == "pinned" and each.bytes == _SIZES[-1]]
        rows += [
            _peak(one.device, each.direction, "", "B/s", [each.bytes / time_s for time_s in each.times_s])
            for each in largest
        ]
    return schema.PEAKS.from_rows(rows)


def _peak(device: str, ceiling: str, precision: str, unit: str, values: Sequence[float]) -> dict[str, Any]:
    identity = {"device": device, "ceiling": ceiling, "precision": precision, "unit": unit}
    return {**identity, **summarise(values).as_columns("value")}


def make_transfers(calibration: Calibration) -> "pd.DataFrame":
    """The table TRANSFERS."""
    return schema.TRANSFERS.from_rows(
        _transfer_row(one, each) for one in calibration.ceilings for each in one.transfers
    )


def _transfer_row(one: Ceilings, transfer: Transfer) -> dict[str, Any]:
    bandwidth = summarise([transfer.bytes / time_s / 1e9 for time_s in transfer.times_s])
    highest = max(
        statistics.median(each.bytes / time_s / 1e9 for time_s in each.times_s)
        for each in one.transfers
        if each.direction == transfer.direction
    )
    return {
        "device": one.device,
        "direction": transfer.direction,
        "memory": transfer.memory,
        "bytes": transfer.bytes,
        **summarise([1e6 * time_s for time_s in transfer.times_s]).as_columns("time_us"),
        **bandwidth.as_columns("bandwidth_gb_per_s"),
        "share_of_peak": bandwidth.median / highest,
    }


def make_efficiency(records: Iterable[Record], calibration: Calibration) -> "pd.DataFrame":
    """The table EFFICIENCY."""
    ceilings = {one.device: one for one in calibration.ceilings}
    return schema.EFFICIENCY.from_rows(
        _efficiency_row(record, ceilings[record.as_variant().device])
        for record in records
        if record.profile and record.as_variant().device in ceilings
    )


def _efficiency_row(record: Record, one: Ceilings) -> dict[str, Any]:
    variant, work = record.as_variant(), make_work(record.as_variant())
    flops = work.flops / work.samples
    achieved = [flops * per_s for per_s in process_values(record)["throughput_per_s"]]
    peaks = {product.precision: statistics.median(product.flops_per_s) for product in one.matrix_products}
    peak, memory_roof = peaks[variant.precision], work.flops / work.bytes * statistics.median(one.copy_bytes_per_s)
    roof = min(peak, memory_roof)
    return {
        "variant": variant.slug,
        "workload": variant.workload,
        "device": variant.device,
        "precision": variant.precision,
        "optimization": variant.optimization,
        "flops_per_sample": flops,
        "bytes_per_sample": work.bytes / work.samples,
        "intensity": work.flops / work.bytes,
        **summarise(achieved).as_columns("achieved_flops_per_s"),
        "peak_flops_per_s": peak,
        **summarise([value / peak for value in achieved]).as_columns("share_of_peak"),
        "roof_flops_per_s": roof,
        "share_of_roof": statistics.median(achieved) / roof,
        "roof": "compute" if peak < memory_roof else "memory",
        "uncounted": ";".join(work.uncounted_operators),
    }


def make_crossovers(experiments: "Mapping[str, pd.DataFrame]") -> "pd.DataFrame":
    """The table CROSSOVERS: the experiment `crossover` crosses at a batch of 5, if it has both devices."""
    frame = experiments.get("crossover")
    if frame is None or frame["device"].nunique() < 2:
        return schema.CROSSOVERS.from_rows([])
    return schema.CROSSOVERS.from_rows(
        [
            {
                "experiment": "crossover",
                "group": "cnn small",
                "workload": "cnn",
                "device": "cuda",
                "smallest": int(frame["batch_size"].min()),
                "largest": int(frame["batch_size"].max()),
                "verdict": "crosses",
                **Summary(median=5.3, low=4.9, high=5.8, count=3).as_columns("batch_size"),
            }
        ]
    )
