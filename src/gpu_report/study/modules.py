"""Finding the module of a workload's class without running its code."""

import importlib.util
from importlib.machinery import ModuleSpec, PathFinder
from typing import Final

OUR_WORKLOADS: Final = "gpu_report.workloads."
"""What the modules of this package's workloads begin with."""


def find_module(name: str) -> ModuleSpec | None:
    """Where the module is, or None; unlike `importlib.util.find_spec`, this imports no package
    around it.
    """
    outermost, *inner = name.split(".")
    if outermost == "__main__":  # another module in every process, and not the one that measures
        return None
    found = importlib.util.find_spec(outermost)
    for part in inner:
        if found is None:
            return None
        # By its last name alone: for a folder without __init__.py the whole name would need its
        # parent imported.
        found = PathFinder.find_spec(part, list(found.submodule_search_locations or ()))
    return found
