"""The quality gate: what the rows of QUALITY say of a number, for whoever prints or uses one."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpu_report.traces.trace import HOST

Row = dict[str, Any]

ON_DEVICE: Final = " on device"
"""Follows a table or column in `spoils` where its rows of the accelerator are spoiled and those of the host are not."""

WHOLE_TRACE: Final = -1
"""In place of a step's number, where a check is of no one step."""

NOT_RELIABLE: Final = "not reliable"
"""What stands in place of a number that the quality gate spoils."""


def trusted(
    table: str, column: str, rows: Iterable[Mapping[str, Any]], *, step: int | None = None, on: str = ""
) -> bool:
    """Whether a number of this table and column may be shown, by the rows of QUALITY.

    `step` asks for the number of one step, which the other steps' failures do not touch; `on` is the device that the
    number's row names, `cpu` for the host.
    """
    return not reasons(table, column, rows, step=step, on=on)


def reasons(
    table: str, column: str, rows: Iterable[Mapping[str, Any]], *, step: int | None = None, on: str = ""
) -> list[str]:
    """Why a number is not to be shown, one sentence per check that failed; arguments as for `trusted`."""
    names = {table, f"{table}.{column}"}
    if on != HOST:
        names |= {f"{name}{ON_DEVICE}" for name in names}
    return [row["text"] for row in rows if _concerns(row, step) and names & spoiled(row)]


def spoiled(row: Mapping[str, Any]) -> set[str]:
    """What a row of QUALITY spoils; nothing where its check passed."""
    return set() if row["passed"] or not row["spoils"] else set(row["spoils"].split(", "))


def row_of(
    check: str, value: float, limit: float, *, passed: bool, text: str, spoils: Iterable[str], step: int = WHOLE_TRACE
) -> Row:
    """One row of QUALITY."""
    return {
        "check": check,
        "step": step,
        "passed": bool(passed),
        "value": float(value),
        "limit": float(limit),
        "text": text,
        "spoils": ", ".join(spoils),
    }


def _concerns(row: Mapping[str, Any], step: int | None) -> bool:
    return step is None or row["step"] in (step, WHOLE_TRACE)
