"""Every declared rule, by what it asks about; the order here is the order of the findings."""

from typing import Final

from gpu_report.findings.rule import Rule
from gpu_report.findings.rules import (
    axes,
    custom_loops,
    device,
    hardware,
    model_split,
    optimization,
    scaling,
    sizes,
    study,
    trace,
)

RULES: Final[tuple[Rule, ...]] = (
    *device.RULES,
    *axes.RULES,
    *sizes.RULES,
    *optimization.RULES,
    *scaling.RULES,
    *custom_loops.RULES,
    *model_split.RULES,
    *hardware.RULES,
    *trace.RULES,
    *study.RULES,
)
