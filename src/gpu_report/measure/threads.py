"""How many threads a training uses; decided here alone, whatever variables of OpenMP and MKL a scheduler has set.

On the CPU one for each logical core. With an accelerator the threads only collate batches: on 16 cores one H100 trained
as fast with 1 thread as with 16, and epochs that read batches from a loader varied by 10 % instead of 16 %
(`python -m benchmarks.host_jitter`). Pinning the process to fewer cores changed neither.
"""

import os
from typing import Final

from gpu_report.errors import MachineError
from gpu_report.study.machine import usable_cores

SETTING: Final = "GPU_REPORT_THREADS"
"""The environment variable by which a user asks for another number."""


def training_threads(device: str = "cpu", *, sharing: int = 1) -> int:
    """For each of the processes that share a training on this device: on the CPU one thread per core between them.

    A user may ask for another number, which each of them gets.

    Raises:
        MachineError: the user asks for something that is not a valid thread count.
    """
    asked = os.environ.get(SETTING, "")
    if not asked:
        return max(1, len(usable_cores()) // sharing) if device == "cpu" else 1
    if not (asked.isascii() and asked.isdecimal() and int(asked) > 0):
        raise MachineError(
            f"{SETTING}={asked!r} is not a valid thread count; set it to 1 or more, or unset it for one per core"
        )
    return int(asked)
