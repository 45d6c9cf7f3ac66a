"""In which order both sides are measured, when that is enough, and what follows: rows of
VERDICTS.

pairs in turns (ABBA) -> first look -> where it shows nothing more pairs, second look -> what
changed, measured again

Two looks at growing data find something by chance more often than one. Each has Pocock's level
(Biometrika 1977), so that both together hold 95 %, and its intervals are repeated confidence
intervals (Jennison and Turnbull, JRSS B 1989): whenever one stops, they hold. Processes of a pair
ran one after the other and began alike, so that what drifts on a machine is in both.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpu_report.glossary import Row
from gpu_report.guard.messages import Answer
from gpu_report.printing.number_format import NOT_MEASURED
from gpu_report.tables.verdicts import (
    IMPROVEMENTS,
    NO_VERDICT,
    NOT_WORSE,
    REGRESSIONS,
    STATUS,
    Side,
    in_words,
    tabulate_verdicts,
)

FIRST_LOOK: Final = 6
"""Pairs; an even number has each side first as often."""
SECOND_LOOK: Final = 10
CONFIRMING: Final = 6
MOST_REPEATED: Final = 3
"""Pairs that are measured once more because others used the machine meanwhile."""
LOOK_CONFIDENCE: Final = 1 - 0.0294
"""Of each of two looks; the level is Pocock's for two of equal steps, a little strict for 6
and 10.
"""

_CHANGES: Final = REGRESSIONS | IMPROVEMENTS

Measure = Callable[[int, str, int], Answer]
"""Takes the side, 0 before and 1 after, the configuration and the index of the pair."""
Pair = tuple[Answer, Answer]


class Guarded:
    """The pairs of each configuration, and what follows from them."""

    def __init__(
        self,
        configurations: Sequence[str],
        measure: Measure,
        *,
        tolerance: float,
        on_pair: Callable[[str, Pair], None],
    ) -> None:
        self._measure, self._tolerance, self._on_pair = measure, tolerance, on_pair
        self.pairs: dict[str, list[Pair]] = {name: [] for name in configurations}
        self.confirming: dict[str, list[Pair]] = {}

    def run(self) -> list[Row]:
        """Measure until every row has a verdict or the second look is over, then what changed once
        more.
        """
        self._measure_up_to(FIRST_LOOK, self.pairs)
        rows = self._look()
        unclear = {
            row["configuration"]
            for row in rows
            if row["verdict"] == NO_VERDICT and row["compared"] != STATUS
        }
        further = {
            name: pairs
            for name, pairs in self.pairs.items()
            if name in unclear
            and len(_undoubted(pairs)) >= FIRST_LOOK  # else the machine has other work to do
        }
        if further:
            self._measure_up_to(SECOND_LOOK, further)
            rows = self._look()
        changed = {
            row["configuration"]
            for row in rows
            if row["verdict"] in _CHANGES and row["compared"] != STATUS
        }
        self.confirming = {name: [] for name in self.pairs if name in changed}
        self._measure_up_to(CONFIRMING, self.confirming)
        again = {
            (row["configuration"], row["compared"]): row
            for row in tabulate_verdicts(
                _sides(self.confirming, CONFIRMING), in_turns=True, tolerance=0.0
            )
        }
        return [_confirmed(row, again) for row in rows]

    def _look(self) -> list[Row]:
        return tabulate_verdicts(
            _sides(self.pairs, FIRST_LOOK),
            in_turns=True,
            tolerance=self._tolerance,
            confidence=LOOK_CONFIDENCE,
        )

    def _measure_up_to(self, pairs: int, of_each: Mapping[str, list[Pair]]) -> None:
        """Configurations take turns, too, so that all are spread over the same time."""
        while waiting := [name for name, found in of_each.items() if _needs_more(found, pairs)]:
            for name in waiting:
                of_each[name].append(self._pair(name))
                self._on_pair(name, of_each[name][-1])

    def _pair(self, name: str) -> Pair:
        """Each side is first in every other pair.

        What failed is tried once more, and then the other side as well: a GPU that is taken fails
        both.
        """
        index = len(self.pairs[name]) + len(self.confirming.get(name, ()))
        answers: dict[int, Answer] = {}
        for side in (0, 1) if index % 2 == 0 else (1, 0):
            answers[side] = self._measure(side, name, index)
            if answers[side].status != "ok":
                answers[side] = self._measure(side, name, index)
        failed = [side for side, answer in answers.items() if answer.status != "ok"]
        if len(failed) == 1:
            answers[1 - failed[0]] = self._measure(1 - failed[0], name, index)
        return answers[0], answers[1]


def _needs_more(pairs: Sequence[Pair], wanted: int) -> bool:
    if any(answer.status != "ok" for pair in pairs for answer in pair):
        return False
    return len(_undoubted(pairs)) < wanted and len(pairs) < wanted + MOST_REPEATED


def _undoubted(pairs: Iterable[Pair]) -> list[Pair]:
    return [pair for pair in pairs if not (pair[0].doubts or pair[1].doubts)]


def _sides(pairs: Mapping[str, Sequence[Pair]], wanted: int) -> dict[str, tuple[Side, Side]]:
    """Of the pairs without doubts, if they are as many as wanted; else of all, with the doubts."""
    found = {}
    for name, each in pairs.items():
        undoubted = _undoubted(each)
        used = undoubted if len(undoubted) >= wanted else each
        found[name] = _side([before for before, _ in used]), _side([after for _, after in used])
    return found


def _side(answers: Sequence[Answer]) -> Side:
    failed = next((answer for answer in answers if answer.status != "ok"), None)
    if failed is not None:
        return failed
    return replace(
        answers[-1],
        step_times_ms=_by_index(answers, "step_times_ms"),
        memory_mib=_by_index(answers, "memory_mib"),
        quality=_by_index(answers, "quality"),
        diverged=sum(answer.diverged for answer in answers),
        doubts=list(dict.fromkeys(doubt for answer in answers for doubt in answer.doubts)),
    )


def _by_index(answers: Sequence[Answer], field: str) -> dict[int, float]:
    """Nothing where a process has none: the others are no sample of all."""
    values = [value for answer in answers for value in getattr(answer, field).values()]
    return dict(enumerate(values)) if len(values) == len(answers) else {}


def _confirmed(row: Row, again: Mapping[tuple[str, str], Row]) -> Row:
    """The row with what the second measurement says of it; what was not measured again stays as it
    is.
    """
    name, what = row["configuration"], row["compared"]
    second = again.get((name, what)) or again.get(
        (name, STATUS)
    )  # that of a side which fails by now
    if row["verdict"] not in _CHANGES or second is None:
        return row
    seen = in_words(second)["change"] or NOT_MEASURED
    if second["verdict"] == row["verdict"]:
        return {**row, "why": f"measured again with {CONFIRMING} pairs: {seen}"}
    why = "; ".join(
        filter(None, (f"{row['verdict']} at first, but measured again {seen}", second["why"]))
    )
    is_no_worse = second["compared"] == what and not REGRESSIONS & {
        row["verdict"],
        second["verdict"],
    }
    return {**row, "verdict": NOT_WORSE[what] if is_no_worse else NO_VERDICT, "why": why}
