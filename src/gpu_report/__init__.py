"""Measure PyTorch training on this machine and turn what was measured into a report."""

from importlib import import_module
from typing import Final

__version__ = "0.2.0"

_MODULES: Final = {
    "Profile": "profile",
    "profile": "profile",
    "BatchSizes": "batch_size",
    "find_batch_size": "batch_size",
    "OptionGains": "option_gains",
    "compare_options": "option_gains",
    "TraceAnalysis": "trace",
    "trace": "trace",
    "step": "watching",
    "watch": "watching",
}
"""Of `gpu_report.user_training`, for what is called from Python."""


def __getattr__(name: str) -> object:
    """What is called from Python mostly needs PyTorch, and is imported with its first use;
    __init__.pyi declares it.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Kept: a loop asks for `gpu_report.step` in every step.
    found = globals()[name] = getattr(
        import_module(f"gpu_report.user_training.{_MODULES[name]}"), name
    )
    return found
