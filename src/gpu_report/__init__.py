"""Measure PyTorch training on this machine and turn what was measured into a report."""

from importlib import import_module

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """What is called from Python needs PyTorch, and is imported with its first use; __init__.pyi declares it."""
    if name in ("Profile", "profile"):
        return getattr(import_module("gpu_report.own.quick"), name)
    if name in ("BatchSizes", "find_batch_size"):
        return getattr(import_module("gpu_report.own.batch_size"), name)
    if name in ("OptionGains", "compare_options"):
        return getattr(import_module("gpu_report.own.option_gains"), name)
    if name in ("step", "watch"):
        return getattr(import_module("gpu_report.own.watching"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
