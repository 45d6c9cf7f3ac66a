"""The errors a person can fix: one line that says what is wrong, which value, and what to do."""

from collections.abc import Mapping
from typing import Final

EXTRAS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("torch", "torchvision"), "torch"),
    **dict.fromkeys(("PIL", "matplotlib", "pandas", "snakemake", "tensorboard"), "report"),
}
"""The extra of the package that brings a module."""


class GpuReportError(Exception):
    """Base of every error the tool raises on purpose; the command line prints it without a
    traceback.
    """


class ConfigError(GpuReportError):
    """The study's configuration cannot be used."""


class MachineError(GpuReportError):
    """The machine lacks what was asked of it, for instance a device."""


class RecordError(GpuReportError):
    """A record cannot be read, checked or written."""


class FileWriteError(GpuReportError):
    """A file could not be written whole, for instance because the disk is full."""


class TableError(GpuReportError):
    """A table does not have the columns that were declared for it."""


class TraceError(GpuReportError):
    """A trace cannot be read, or its content cannot be trusted."""


class BundleError(GpuReportError):
    """A bundle cannot be made, or its content cannot be trusted."""


class ReportError(GpuReportError):
    """A figure, a section or the PDF cannot be made or exported from what was measured."""


class ProfileError(GpuReportError):
    """A model, a batch or a step of the user's own cannot be trained and profiled as it is."""


def lacking(error: ModuleNotFoundError) -> str:
    """What to install for a module of an extra.

    Raises:
        ModuleNotFoundError: that given, where it is about another module.
    """
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        raise error
    return f'{module} is not installed; install it with: pip install "gpu-report[{EXTRAS[module]}]"'
