"""Measure PyTorch training on this machine and turn what was measured into a report."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_report.quick import Profile as Profile
    from gpu_report.quick import profile as profile

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What a user calls from Python is imported with its first use, since it needs PyTorch."""
    if name in ("Profile", "profile"):
        return getattr(import_module("gpu_report.quick"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
