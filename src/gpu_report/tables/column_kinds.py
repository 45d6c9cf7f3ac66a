"""Columns that many of the study's tables share, and a median over processes as three of them."""

from typing import Final

from gpu_report.columns import Column, number, text, whole


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
EPOCH: Final = whole("epoch", "1", "Index of the epoch, from 0.")
