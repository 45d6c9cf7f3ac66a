"""What the guard asks a side to measure, and what it answers: lines of JSON, since a side may have
another Python.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gpu_report.tables.verdicts import Side

OTHER_VERSIONS: Final = (
    "two versions of gpu-report measure the two sides; install the same one in both"
)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh process: `configuration` of the study in `configfile`, or a function, whose
    `training` is given.

    `training` has fields of OwnTraining. What is imported must come from the repository of
    `folder`, unless that is empty; guard was started in `here`. With `trace_folder` the process is
    profiled, and leaves its traces there. The study's machine is described in `machine_file`, which
    is outside of the user's folder.
    """

    configuration: str
    configfile: str = ""
    machine_file: str = ""
    training: Mapping[str, Any] = msgspec.field(default_factory=dict)
    folder: str = ""
    here: str = ""
    index: int
    trace_folder: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer(Side):
    """What one process measured: a side with one process."""

    interrupted: bool = False
    """Whether the process was ended from outside, which says nothing about this version."""
    code_digest: str = ""
    """Of the code of gpu-report that measured."""
    environment: Mapping[str, str | int | float | None] = field(default_factory=dict)
