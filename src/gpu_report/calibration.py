"""The calibration: what a machine reaches at most, measured by a few plain operations, in a versioned schema.

calibration.json -> Calibration -> one Ceilings per device -> matrix products, copies, transfers; one value per process
"""

import json
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpu_report.errors import RecordError
from gpu_report.files import write_text_atomically
from gpu_report.records import Provenance

SCHEMA_VERSION: Final = 1

Direction = Literal["to device", "to host"]
HostMemory = Literal["pageable", "pinned"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MatrixProduct(_Part):
    """Square matrix products in one precision."""

    precision: str = Field(description="fp32, tf32, fp16 or bf16, as in a variant.")
    size: int = Field(gt=0, description="Rows and columns of the matrices.")
    flops_per_s: list[float] = Field(description="2 size^3 over the median time of a product, one per process.")


class Transfer(_Part):
    """Copies of one size between host and device."""

    direction: Direction
    memory: HostMemory = Field(description="Kind of the host's memory.")
    bytes: int = Field(gt=0)
    times_s: list[float] = Field(description="Median time of a copy, one per process; the host waits for each.")


class Ceilings(_Part):
    """What one device reaches at most."""

    device: str = Field(description="PyTorch device name.")
    name: str = Field(description="The hardware's own name.")
    matrix_products: list[MatrixProduct]
    copy_bytes: int = Field(gt=0, description="Size of the buffer that was copied inside the device's memory.")
    copy_bytes_per_s: list[float] = Field(description="Bytes read and bytes written, over the time; one per process.")
    transfers: list[Transfer] = Field(description="Empty on the CPU.")


class Calibration(_Part):
    """The ceilings of one machine's devices."""

    schema_version: int
    machine: str
    ceilings: list[Ceilings]
    environment: dict[str, str | int | float | None]
    provenance: Provenance


def read_calibration(path: Path) -> Calibration:
    """Read a calibration and check it.

    Raises:
        RecordError: the file is missing, cut short, of another schema, or holds values that the schema forbids.
    """
    mend = "delete it and run the same command again to calibrate anew"
    try:
        values = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RecordError(f"cannot read calibration {path}: {error.strerror}; {mend}") from error
    except ValueError as error:
        raise RecordError(f"calibration {path} is not whole JSON ({error}); {mend}") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if version != SCHEMA_VERSION:
        raise RecordError(f"calibration {path} has schema version {version}, this reads {SCHEMA_VERSION}; {mend}")
    try:
        return Calibration.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"calibration {path}: {where}: {first['msg']}; {mend}") from error


def write_calibration(calibration: Calibration, path: Path) -> None:
    """Write a calibration whole or not at all.

    Raises:
        FileWriteError: the disk is full or the folder cannot be written.
    """
    write_text_atomically(path, json.dumps(calibration.model_dump(), indent=1, sort_keys=True) + "\n")
