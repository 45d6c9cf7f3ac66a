"""JSON files with a versioned schema: checked once, and refused in one line that says what to do.

JsonFile (name, schema, version) -> parse(bytes) or read(path) -> Part; whatever a file holds, no
more than this happens
"""

import json
import math
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
)
from pydantic_core import from_json

from gpu_report.errors import GpuReportError
from gpu_report.storage.files import write_bytes_atomically

_LARGEST: Final = 1e39
_LONGEST_TEXT: Final = 10_000
_PLACE: Final = re.compile(r"[\w ./-]{1,60}")
_MOMENT: Final = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|\+00:00)")

Item = TypeVar("Item")


class Part(BaseModel):
    """One object of such a file: every key is known, and every number is finite unless its field
    says otherwise.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _moment(text: str) -> str:
    if _MOMENT.fullmatch(text) is None:
        raise ValueError("use a time in UTC such as 2026-05-04T10:00:00+00:00")
    datetime.fromisoformat(text)
    return text


def _computed(value: float) -> float:
    if math.isfinite(value) and abs(value) > _LARGEST:
        raise ValueError("use a number that single precision can hold")
    return value


def _storable(text: Any) -> Any:
    """A text from a user's code may be of any length, and hold half a character, which no
    file can.
    """
    if not isinstance(text, str):
        return text
    if len(text) > _LONGEST_TEXT:
        text = (
            f"{text[: _LONGEST_TEXT - 50]} ({len(text) - _LONGEST_TEXT + 50} characters left out)"
        )
    return text.encode("utf-8", "replace").decode("utf-8")


Values = Annotated[list[Item], FailFast()]
"""A list that is refused at its first bad value."""
AnyFloat = Annotated[float, Field(allow_inf_nan=True), AfterValidator(_computed)]
"""What a training computes, which is infinite or no number once it diverges."""
Finite = Annotated[float, Field(gt=-1e30, lt=1e30)]
NotNegative = Annotated[float, Field(ge=0, lt=1e30)]
Positive = Annotated[float, Field(gt=1e-12, lt=1e30)]
"""Beyond what any clock or counter shows, so that every quotient of two is finite."""
Seconds = Annotated[Positive, AfterValidator(lambda value: float(f"{value:.9g}"))]
"""Without the digits that no clock resolves, which would be half of each number in published
files.
"""
Count = Annotated[int, Field(ge=0, lt=2**53)]
PositiveCount = Annotated[int, Field(gt=0, lt=2**53)]
"""No larger than the whole numbers that a float holds exactly."""
Moment = Annotated[str, AfterValidator(_moment)]
"""A time in UTC, ISO 8601."""
Text = Annotated[str, BeforeValidator(_storable)]
"""Text from a workload's code or from an error message."""
Title = Annotated[Text, Field(pattern=r"^[\P{Cc}\n\t]*$")]
"""A name that a reader sees, as a workload's code gives it, without control characters."""
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,254}$")]
"""The name of a file in a folder that is known, and no path out of it."""
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256."""

Content = TypeVar("Content", bound=Part)


@dataclass(frozen=True, kw_only=True)
class JsonFile(Generic[Content]):
    """One kind of file.

    `again` says how to get a new one, and `older` how to replace one of an older version, as the
    end of an error.
    """

    name: str
    content: type[Content]
    version: int
    error: type[GpuReportError]
    again: str
    older: str = ""

    def read(self, path: Path) -> Content:
        """Read a file and check it.

        Raises:
            GpuReportError: of type `error`; the file cannot be read, or as for `parse`.
        """
        try:
            text = path.read_bytes()
        except OSError as error:
            raise self.error(
                f"cannot read {self.name} {path}: {error.strerror}; {self.again}"
            ) from error
        return self.parse(text, where=f"{self.name} {path}")

    def write(self, content: Content, path: Path) -> None:
        """Write a file whole or not at all.

        Raises:
            FileWriteError: the disk is full or the folder cannot be written.
        """
        write_bytes_atomically(path, self.as_bytes(content))

    @staticmethod
    def as_bytes(content: Content) -> bytes:
        """The bytes of a file, the same for the same content; without spaces, which were half of a
        long record.
        """
        return (
            json.dumps(content.model_dump(), separators=(",", ":"), sort_keys=True) + "\n"
        ).encode()

    def parse(self, text: bytes, *, where: str) -> Content:
        """Check the text of a file; `where` names it in errors.

        Raises:
            GpuReportError: of type `error`; the text is not complete JSON, is of another version,
                or contains what the schema forbids.
        """
        try:
            values = from_json(text)
        except ValueError as error:
            raise self.error(f"{where} is not whole JSON ({error}); {self.again}") from error
        version = values.get("schema_version") if isinstance(values, dict) else None
        if not isinstance(version, int):
            raise self.error(f"{where} has no schema_version; {self.again}")
        if version != self.version:
            action = "update gpu-report" if version > self.version else self.older or self.again
            raise self.error(
                f"{where} has schema version {version}, this gpu-report reads {self.version}; "
                f"{action}"
            )
        try:
            return self.content.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(str(part) for part in first["loc"] if _PLACE.fullmatch(str(part)))[
                :100
            ]
            raise self.error(
                f"{where}: {f'{place}: ' if place else ''}{first['msg']}; {self.again}"
            ) from error
