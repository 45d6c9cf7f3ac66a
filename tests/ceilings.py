"""What a machine's devices reach, made without calibrating: a calibration of any devices."""

from collections.abc import Sequence
from itertools import combinations
from typing import Final

from gpu_report.records.calibration import (
    SCHEMA_VERSION,
    Calibration,
    Ceilings,
    DevicePair,
    Direction,
    HostMemory,
    Link,
    LinkOperation,
    MatrixProduct,
    Operation,
    Transfer,
)
from gpu_report.records.record import Provenance
from gpu_report.tables.ceilings import bus_bandwidth_per_s

_FLOPS_PER_S: Final = {
    "cpu": {"fp32": 0.9e12, "bf16": 1.8e12},
    "cuda": {"fp32": 51e12, "tf32": 380e12, "fp16": 760e12, "bf16": 787e12},
}
_COPY_BYTES_PER_S: Final = {"cpu": 21e9, "cuda": 3.03e12}
_LINK: Final[dict[HostMemory, tuple[float, float]]] = {
    "pageable": (14e-6, 9e9),
    "pinned": (8e-6, 53e9),
}
"""Time that a copy of nothing takes in s, and bytes per second beyond it."""

_DIRECTIONS: Final[tuple[Direction, ...]] = ("to device", "to host")
_SPREAD: Final = (0.99, 0.995, 1.0, 1.005, 1.01)
_SIZES: Final = [4**power for power in range(6, 16)]


_BUS_BYTES_PER_S: Final[dict[Operation, float]] = {
    "all-reduce": 330e9,
    "all-gather": 345e9,
    "reduce-scatter": 350e9,
    "point-to-point": 310e9,
}


def make_calibration(
    devices: Sequence[str] = ("cpu", "cuda"),
    *,
    linked: int = 0,
    machine: str = "xeon-2c",
    provenance: Provenance,
) -> Calibration:
    """Five processes' ceilings of each device, 1 % apart, with sizes of 4 KiB to 1 GiB, and of so
    many linked GPUs.
    """
    return Calibration(
        schema_version=SCHEMA_VERSION,
        machine=machine,
        ceilings=[_make_ceilings(device) for device in devices],
        link=_make_link(linked) if linked else None,
        environment={"torch": "2.15.0"},
        provenance=provenance,
    )


def _make_ceilings(device: str) -> Ceilings:
    kind = "cpu" if device == "cpu" else "cuda"
    return Ceilings(
        device=device,
        name="Intel(R) Xeon(R)" if kind == "cpu" else "NVIDIA H100 80GB HBM3",
        matrix_products=[
            MatrixProduct(
                precision=precision,
                size=2048 if kind == "cpu" else 8192,
                flops_per_s=_spread(flops_per_s),
            )
            for precision, flops_per_s in _FLOPS_PER_S[kind].items()
        ],
        copy_bytes=2**28 if kind == "cpu" else 2**30,
        copy_bytes_per_s=_spread(_COPY_BYTES_PER_S[kind]),
        transfers=[] if kind == "cpu" else _make_transfers(),
    )


def _make_transfers() -> list[Transfer]:
    return [
        Transfer(
            direction=direction,
            memory=memory,
            bytes=size,
            times_s=_spread(latency_s + size / bytes_per_s),
        )
        for direction in _DIRECTIONS
        for memory, (latency_s, bytes_per_s) in _LINK.items()
        for size in _SIZES
    ]


def _make_link(devices: int) -> Link:
    names = ["cuda", *(f"cuda:{index}" for index in range(1, devices))]
    return Link(
        devices=names,
        backend="nccl",
        backend_version="2.27.5",
        multicast="off",
        pairs=[
            DevicePair(devices=pair, has_peer_access=True, connection="NV18")
            for pair in combinations(names, 2)
        ],
        operations=[
            LinkOperation(
                operation=operation,
                devices=count,
                bytes=size,
                times_s=_spread(
                    30e-6
                    + bus_bandwidth_per_s(
                        operation, devices=count, payload_bytes=size, time_s=bytes_per_s
                    )
                ),
            )
            for count in sorted({2, devices})
            for operation, bytes_per_s in _BUS_BYTES_PER_S.items()
            if operation != "point-to-point" or count == 2
            for size in _SIZES
        ],
    )


def _spread(value: float) -> list[float]:
    return [value * factor for factor in _SPREAD]
