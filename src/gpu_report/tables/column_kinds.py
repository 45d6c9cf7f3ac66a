"""Columns that many of the study's tables share, and a mean over processes as four of them."""

from typing import Final

from gpu_report.glossary import METRICS
from gpu_report.storage.columns import Column, number, text, whole


def metric(name: str) -> Column:
    """A number of the glossary, by its column."""
    found = METRICS[name]
    return number(name, found.unit, f"{found.description}.")


def summary_of(name: str) -> tuple[Column, ...]:
    """A number of the glossary that is summarized over processes, by its column."""
    return summary(name, METRICS[name].unit, METRICS[name].description)


def summary(name: str, unit: str, meaning: str) -> tuple[Column, ...]:
    """A mean over processes, the two ends of its interval or range, and how many processes it is
    from.
    """
    return (
        number(
            name,
            unit,
            f"{meaning}; mean over processes, of ratios and positive quantities the geometric one.",
        ),
        number(
            f"{name}_low",
            unit,
            "Lower end of its 95 % interval; of 3 processes the least value, of fewer missing.",
        ),
        number(
            f"{name}_high",
            unit,
            "Upper end of its 95 % interval; of 3 processes the greatest, of fewer missing.",
        ),
        whole(f"{name}_count", "1", "Processes that it is the mean of."),
    )


VARIANT: Final = text("variant", "Name of the variant, the folder of its record.")
WORKLOAD: Final = text("workload", "What is trained, as named in the configuration.")
DEVICE: Final = text("device", "PyTorch device name.")
REPETITION: Final = whole("repetition", "1", "Index of the fresh process.")
EPOCH: Final = whole("epoch", "1", "Index of the epoch, from 0.")
PROFILED: Final = (VARIANT, WORKLOAD, DEVICE)
"""The first columns of every table by profiled variant."""
