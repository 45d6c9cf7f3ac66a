"""The steps of an optimization ladder, recognized in the names of its variants.

names of optimizations -> LadderStep (individual, cumulative), the lowest first
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_report.figures import labels
from gpu_report.options import NO_OPTIONS, ladder, option_names

_DIGITS = "0123456789"


@dataclass(frozen=True, kw_only=True)
class LadderStep:
    """One optimization of a ladder: by itself, and together with those below that it does not make redundant."""

    title: str
    individual: str
    """An optimization's name, as `cumulative`; the two are the same where nothing below is left."""
    cumulative: str


def ladder_steps_of(names: Sequence[str]) -> list[LadderStep]:
    """The steps, in the order of the individual names; none where the names do not make a ladder.

    They make one where each is the eager baseline, an individual or a cumulative step, and some step has others below.
    """
    alone = [name for name in dict.fromkeys(names) if name != NO_OPTIONS and len(option_names(name)) == 1]
    kinds = {name.rstrip(_DIGITS) for name in alone}
    together = set(names) - {NO_OPTIONS, *alone}
    if len(kinds) < len(alone) or not together or not together <= set(ladder(alone)):
        return []
    return [_ladder_step(alone, position) for position in range(len(alone))]


def _ladder_step(alone: Sequence[str], position: int) -> LadderStep:
    name = alone[position]
    below = ladder(alone[:position])
    new = [found for found in ladder(alone[: position + 1]) if found not in below and found != name]
    return LadderStep(title=labels.part_label(name), individual=name, cumulative=new[0] if new else name)


def ladder_step_label(name: str, steps: Sequence[LadderStep]) -> str:
    """An optimization as it stands in a row: `+ fused optimizer` with all steps below, otherwise its parts in words."""
    cumulative = next((step for step in steps if step.cumulative == name != step.individual), None)
    return f"+ {cumulative.title}" if cumulative else labels.optimization_label(name)
