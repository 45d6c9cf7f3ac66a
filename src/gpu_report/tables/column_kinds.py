"""The kinds of columns that the study's tables are made of, and the columns that many of them share."""

from typing import Final

from gpu_report.columns import Column


def text(name: str, meaning: str) -> Column:
    """A name, or words."""
    return Column(name=name, dtype="str", meaning=meaning)


def flag(name: str, meaning: str) -> Column:
    """Whether something is so."""
    return Column(name=name, dtype="bool", meaning=meaning)


def whole(name: str, unit: str, meaning: str) -> Column:
    """A whole number, which is always there."""
    return Column(name=name, dtype="int64", unit=unit, meaning=meaning)


def number(name: str, unit: str, meaning: str) -> Column:
    """A number that may be missing."""
    return Column(name=name, dtype="float64", unit=unit, meaning=meaning)


def summary(name: str, unit: str, meaning: str) -> tuple[Column, Column, Column]:
    """A median over processes with the two ends of its interval."""
    return (
        number(name, unit, f"{meaning}; median over processes."),
        number(f"{name}_low", unit, "Lower end of its 95 % bootstrap interval."),
        number(f"{name}_high", unit, "Upper end of its 95 % bootstrap interval."),
    )


VARIANT: Final = text("variant", "Name of the variant, the folder of its record.")
WORKLOAD: Final = text("workload", "What is trained, as named in the configuration.")
DEVICE: Final = text("device", "PyTorch device name.")
REPETITION: Final = whole("repetition", "1", "Index of the fresh process.")
EPOCH: Final = whole("epoch", "1", "Index of the epoch; 0 is the first, kept apart as warm-up.")
