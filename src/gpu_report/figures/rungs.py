"""The rungs of a ladder of optimizations, found again in the names of the variants that climbed it.

names of optimizations -> Rung (alone, climbed), the lowest first
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_report.figures import labels
from gpu_report.options import NO_OPTIONS, ladder, option_names

_DIGITS = "0123456789"


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One optimization of a ladder: by itself, and together with those below that it leaves work to do."""

    title: str
    alone: str
    """An optimization's name, as `climbed`; the two are the same where nothing below is left."""
    climbed: str


def rungs_of(names: Sequence[str]) -> list[Rung]:
    """The rungs, in the order in which the names alone come; none where the names do not make a ladder.

    They make one where each is the plain loop, a rung alone or a rung climbed, and some rung has others below it.
    """
    alone = [name for name in dict.fromkeys(names) if name != NO_OPTIONS and len(option_names(name)) == 1]
    kinds = {name.rstrip(_DIGITS) for name in alone}
    together = set(names) - {NO_OPTIONS, *alone}
    if len(kinds) < len(alone) or not together or not together <= set(ladder(alone)):
        return []
    return [_rung(alone, position) for position in range(len(alone))]


def _rung(alone: Sequence[str], position: int) -> Rung:
    name = alone[position]
    below = ladder(alone[:position])
    new = [found for found in ladder(alone[: position + 1]) if found not in below and found != name]
    return Rung(title=labels.part_label(name), alone=name, climbed=new[0] if new else name)


def rung_label(name: str, rungs: Sequence[Rung]) -> str:
    """An optimization as it stands in a row: `+ fused optimizer` with all rungs below, otherwise its parts in words."""
    climbed = next((rung for rung in rungs if rung.climbed == name != rung.alone), None)
    return f"+ {climbed.title}" if climbed else labels.optimization_label(name)
