"""Every declared rule, by what it asks about; the order here is the order of the findings."""

from typing import Final

from gpu_report.findings.rule import Rule
from gpu_report.findings.rules import any_axis, batch_size, consistency, device, growth, size, study, training, workers

RULES: Final[tuple[Rule, ...]] = (
    *device.RULES,
    *consistency.RULES,
    *any_axis.RULES,
    *batch_size.RULES,
    *size.RULES,
    *growth.RULES,
    *workers.RULES,
    *study.RULES,
    *training.RULES,
)
