"""The calibration: what a machine reaches at most, measured by a few plain operations, in a versioned schema.

calibration.json -> Calibration -> one Ceilings per device -> matrix products, copies, transfers; one value per process
"""

from typing import Final, Literal

from pydantic import Field

from gpu_report.errors import RecordError
from gpu_report.records.record import DeviceName, Environment, MachineId, Provenance
from gpu_report.storage.json_files import JsonFile, Part, Positive, PositiveCount, Text, Values

SCHEMA_VERSION: Final = 1

Direction = Literal["to device", "to host"]
HostMemory = Literal["pageable", "pinned"]


class MatrixProduct(Part):
    """Square matrix products in one precision."""

    precision: str = Field(pattern="^[a-z0-9]+$", description="fp32, tf32, fp16 or bf16, as in a variant.")
    size: PositiveCount = Field(description="Rows and columns of the matrices.")
    flops_per_s: Values[Positive] = Field(
        min_length=1, description="2 size^3 over the median time of a product, one per process."
    )


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
    copy_bytes: PositiveCount = Field(description="Size of the buffer that was copied inside the device's memory.")
    copy_bytes_per_s: Values[Positive] = Field(
        min_length=1, description="Bytes read and bytes written, over the time; one per process."
    )
    transfers: Values[Transfer] = Field(description="Empty on the CPU.")


class Calibration(Part):
    """The ceilings of one machine's devices."""

    schema_version: int
    machine: MachineId
    ceilings: Values[Ceilings]
    environment: Environment
    provenance: Provenance


CALIBRATION_FILE: Final = JsonFile(
    name="calibration",
    content=Calibration,
    version=SCHEMA_VERSION,
    error=RecordError,
    again="delete it and run the same command again to calibrate anew",
)
