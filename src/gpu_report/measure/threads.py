"""How many threads a training uses; decided here alone, whatever variables of OpenMP and MKL a scheduler has set."""

import os
from typing import Final

from gpu_report.errors import MachineError
from gpu_report.machine import usable_cores

SETTING: Final = "GPU_REPORT_THREADS"
"""The environment variable by which a user asks for another number."""


def training_threads() -> int:
    """One thread for each logical core that this process may run on, or what the user asks for.

    Raises:
        MachineError: the user asks for something that is no number of threads.
    """
    asked = os.environ.get(SETTING, "")
    if not asked:
        return len(usable_cores())
    if not (asked.isascii() and asked.isdecimal() and int(asked) > 0):
        raise MachineError(
            f"{SETTING}={asked!r} is no number of threads; set it to 1 or more, or unset it for one per core"
        )
    return int(asked)
