"""How many threads a training uses; decided here alone, whatever variables of OpenMP and MKL a
scheduler has set.
"""

import os
from typing import Final

from gpu_report.errors import MachineError
from gpu_report.study.machine import core_count, default_threads

SETTING: Final = "GPU_REPORT_THREADS"
"""The environment variable by which a user asks for another number."""


def training_threads(device: str = "cpu", *, sharing: int = 1, cores: int = 0) -> int:
    """The threads of each process that shares a training on this device, here or on a machine with
    this many cores.

    A user may ask for another number than the default, which each of them gets.

    Raises:
        MachineError: the user asks for something that is not a valid thread count.
    """
    asked = os.environ.get(SETTING, "")
    if not asked:
        return default_threads(device, cores=cores or core_count(), sharing=sharing)
    if not (asked.isascii() and asked.isdecimal() and int(asked) > 0):
        raise MachineError(
            f"{SETTING}={asked!r} is not a valid thread count; set it to 1 or more, or unset it "
            "for one per core"
        )
    return int(asked)
