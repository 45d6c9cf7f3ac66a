"""What the guard asks a side to measure, and what it answers: lines of JSON, since a side may have
another Python.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec


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


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one process measured; without numbers where the status is not ok. Fields are those of a
    `Side`.
    """

    status: Literal["ok", "oom", "failed", "skipped"] = "ok"
    reason: str = ""
    interrupted: bool = False
    """Whether the process was ended from outside, which says nothing about this version."""
    step_time_ms: float | None = None
    memory_mib: float | None = None
    memory_kind: Literal["allocator", "resident set"] = "allocator"
    quality: float | None = None
    quality_name: str = ""
    better: Literal["higher", "lower"] = "higher"
    diverged: bool = False
    doubts: tuple[str, ...] = ()
    code_digest: str = ""
    """Of the code of gpu-report that measured."""
    environment: Mapping[str, str | int | float | None] = msgspec.field(default_factory=dict)
