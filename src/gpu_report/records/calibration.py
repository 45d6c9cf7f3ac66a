"""The calibration: what a machine reaches at most, measured by a few plain operations, in a
versioned schema.

calibration.json -> Calibration
Calibration -> one Ceilings per device -> matrix products, copies, transfers; one value per process
            -> Link between devices    -> operations by payload; one value per launch
"""

import statistics
from typing import Final, Literal

from pydantic import Field

from gpu_report.errors import RecordError
from gpu_report.records.record import DeviceName, Environment, MachineId, Provenance
from gpu_report.storage.json_files import JsonFile, Part, Positive, PositiveCount, Text, Values

SCHEMA_VERSION: Final = 1

Direction = Literal["to device", "to host"]
HostMemory = Literal["pageable", "pinned"]
Operation = Literal["all-reduce", "all-gather", "reduce-scatter", "point-to-point"]
Multicast = Literal["off", "left to NCCL"]


class MatrixProduct(Part):
    """Matrix products of one shape in one precision."""

    precision: str = Field(
        pattern="^[a-z0-9]+$",
        description="fp32, tf32, fp16 or bf16, as in a variant, or fp8 (E4M3, sums in fp32).",
    )
    size: PositiveCount = Field(description="Rows of the product.")
    columns: PositiveCount | None = Field(
        default=None, description="Of the product; None: as many as rows."
    )
    inner: PositiveCount | None = Field(
        default=None, description="Products that each sum has; None: as many as rows."
    )
    flops_per_s: Values[Positive] = Field(
        min_length=1,
        description="2 size columns inner over the median time of a product, one per process.",
    )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and inner length."""
        return self.size, self.columns or self.size, self.inner or self.size


class Transfer(Part):
    """Copies of one size between host and device."""

    direction: Direction
    memory: HostMemory = Field(description="Kind of the host's memory.")
    bytes: PositiveCount
    times_s: Values[Positive] = Field(
        min_length=1, description="Median time of a copy, one per process; the host waits for each."
    )


class Ceilings(Part):
    """What one device reaches at most."""

    device: DeviceName
    name: Text = Field(description="The hardware's own name.")
    matrix_products: Values[MatrixProduct]
    copy_bytes: PositiveCount = Field(
        description="Size of the buffer that was copied inside the device's memory."
    )
    copy_bytes_per_s: Values[Positive] = Field(
        min_length=1, description="Bytes read and bytes written, over the time; one per process."
    )
    transfers: Values[Transfer] = Field(description="Empty on the CPU.")

    @property
    def peaks(self) -> dict[str, MatrixProduct]:
        """Of each precision the product of the shape with the highest mean rate."""
        return {
            product.precision: product
            for product in sorted(
                self.matrix_products, key=lambda product: statistics.fmean(product.flops_per_s)
            )
        }


class LinkOperation(Part):
    """One operation with one payload on the first devices of a link, by a process for each."""

    operation: Operation
    devices: int = Field(ge=2, lt=2**20)
    bytes: PositiveCount = Field(
        description="Payload: what each device has after an all-gather, before any other operation."
    )
    times_s: Values[Positive] = Field(
        min_length=1, description="Median time of an operation on its slowest rank, one per launch."
    )


class DevicePair(Part):
    """How two devices are connected."""

    devices: tuple[DeviceName, DeviceName]
    has_peer_access: bool = Field(description="Whether one can read the other's memory.")
    connection: str | None = Field(
        pattern="^(NV[0-9]+|PIX|PXB|PHB|NODE|SYS)$",
        description="As in nvidia-smi topo -m; None where not known.",
    )


class Link(Part):
    """What the connection between devices of one kind reaches, through the library that trainings
    use.
    """

    devices: Values[DeviceName] = Field(min_length=2)
    backend: str = Field(pattern="^[a-z]+$", description="Of PyTorch, such as nccl.")
    backend_version: str | None = Field(
        default=None, pattern="^[0-9a-z.+-]{1,40}$", description="Of NCCL; None of other backends."
    )
    multicast: Multicast | None = Field(
        default=None,
        description="NVLink SHARP (NVLS): off by NCCL_NVLS_ENABLE=0, or used where NCCL sees fit.",
    )
    pairs: Values[DevicePair] = Field(description="Every two of CUDA devices; empty of others.")
    operations: Values[LinkOperation]


class Calibration(Part):
    """The ceilings of one machine's devices, and of the link between those that share trainings."""

    schema_version: int
    machine: MachineId
    ceilings: Values[Ceilings]
    link: Link | None = Field(
        default=None, description="None where fewer than two accelerators share a training."
    )
    environment: Environment
    provenance: Provenance


CALIBRATION_FILE: Final = JsonFile(
    name="calibration",
    content=Calibration,
    version=SCHEMA_VERSION,
    error=RecordError,
    again="delete it and run the same command again to calibrate anew",
)
