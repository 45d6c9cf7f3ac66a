"""The parts of a training step that the card of a profile and its page name, from the tables of a
trace.
"""

import math
from collections.abc import Mapping
from typing import Final

from gpu_report.answers.question import HALF
from gpu_report.tables.traces import STEP_PARTS, shares_of_steps
from gpu_report.traces.quality import Gate
from gpu_report.traces.steps import STEPS
from gpu_report.traces.tables import TraceTables
from gpu_report.traces.trace import HOST

_PARTS: Final = {
    "kernels": ("kernel", "memset"),
    "transfer": ("memcpy",),
    "communication": ("communication",),
    "loader": ("loader",),
    "launch": ("runtime", "operator", "other"),
}
_PARTS_ON_CPU: Final = {
    "kernels": ("operator",),
    "communication": ("communication",),
    "loader": ("loader",),
    "host": tuple(
        part for part in STEP_PARTS if part not in ("operator", "communication", "loader")
    ),
}
"""Parts of a step by those of the table of shares; on a CPU nothing goes on behind another part."""

WAITING: Final = "waiting without the CPU (sleep, I/O or a lock)"
PARTS_IN_WORDS: Final[Mapping[str, str]] = {
    "kernels": "kernels",
    "transfer": "copies",
    "communication": "communication between processes",
    "loader": "waiting for data",
    "launch": "launching",
    "host": "Python between two operations",
    "waiting": WAITING,
}
"""Each part as a sentence names it; a trace alone shows no `waiting`."""


def parts_of(shares: Mapping[str, float], *, on_cpu: bool) -> dict[str, float]:
    """Each part of a step with its share, which sum to 1, from what `shares_of_steps` gives; none
    where that does not show them.

    Where it does not show how the host's time divides, a part that takes more than half is known
    all the same.
    """
    parts = {
        name: sum(shares[f"{one}_share"] for one in of_table)
        for name, of_table in (_PARTS_ON_CPU if on_cpu else _PARTS).items()
    }
    known = {name: part for name, part in parts.items() if not math.isnan(part)}
    is_whole = len(known) == len(parts) or max(known.values(), default=0.0) > HALF
    return known if is_whole else {}


def parts_of_steps(tables: TraceTables, device: str) -> dict[str, float]:
    """Each part of the steps of one trace, without those that took nothing; none where its checks
    do not let the steps through.
    """
    on_cpu = device == HOST or all(row["device_busy_ms"] is None for row in tables[STEPS])
    parts = parts_of(shares_of_steps(Gate(tables), on_cpu=on_cpu), on_cpu=on_cpu)
    return {name: part for name, part in parts.items() if part}
