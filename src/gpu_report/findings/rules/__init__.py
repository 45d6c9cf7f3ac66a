"""Every declared rule, by what it asks about; the order here is the order of the findings."""

from dataclasses import replace
from typing import Final

from gpu_report.findings.rule import Rule
from gpu_report.findings.rules import (
    any_axis,
    batch_size,
    busy,
    consistency,
    crossover,
    device,
    efficiency,
    energy,
    frontier,
    growth,
    limits,
    operations,
    optimization,
    phases,
    precision,
    preparation,
    quality,
    saving,
    size,
    study,
    trace,
    training,
    transfer,
    workers,
)

RULES: Final[tuple[Rule, ...]] = (
    *device.RULES,
    *operations.RULES,
    *crossover.RULES,
    *consistency.RULES,
    *any_axis.RULES,
    *batch_size.RULES,
    *frontier.RULES,
    *phases.RULES,
    *size.RULES,
    *growth.RULES,
    *workers.RULES,
    *busy.RULES,
    *precision.RULES,
    *optimization.RULES,
    *preparation.RULES,
    *saving.RULES,
    replace(quality.QUALITY_OF_EACH, about="optimization"),
    *efficiency.RULES,
    *transfer.RULES,
    *energy.RULES,
    *limits.RULES,
    *trace.RULES,
    *study.RULES,
    *training.RULES,
)
