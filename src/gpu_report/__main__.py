"""Where `gpu-report` begins: Ctrl-C ends it in one line, also while everything else is still
imported.
"""

import atexit
import gc
import sys
import traceback
from collections.abc import Sequence

from gpu_report.printing.terminal import takes


def _set_all_aside() -> None:
    """Leave nothing to the last look for garbage, unless there may be objects of Triton, which
    prints each that is left as a leak.
    """
    if "torch" not in sys.modules:
        gc.freeze()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that was typed, or this one, and return its exit status for the shell: 3 if
    gpu-report itself fails.
    """
    # Looking for garbage takes a sixth of the time, and at the end of the process as much again:
    # nearly all is kept to the end, and then goes with the process.
    gc.set_threshold(50_000)
    atexit.register(_set_all_aside)
    try:
        from gpu_report import cli

        if "" not in sys.path:  # where a study's own workloads and train:build_model are found
            sys.path.insert(0, "")
        return cli.main(arguments, carry_out=main)
    except KeyboardInterrupt:
        takes(sys.stderr, "gpu-report: interrupted\n")
        return 130
    except Exception:  # noqa: BLE001 -- Python's own status, 1, would mean a regression for guard and compare
        takes(sys.stderr, traceback.format_exc())
        return 3
    finally:
        for stream in (sys.stdout, sys.stderr):
            takes(stream)


if __name__ == "__main__":
    sys.exit(main())
