"""What a table's numbers do not say: too few processes, doubts about the machine, projections, what did not run."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gpu_report.findings.phrases import why_no_numbers
from gpu_report.glossary import SHOWN, Row
from gpu_report.tables.marks import MEANINGS
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL
from gpu_report.writing.tex import Tex, breakable, escape
from gpu_report.writing.words import marks_of

_LONGEST_REASON: Final = 300
Limit = Callable[[Sequence[Row]], Iterator[Tex]]


def limits(rows: Sequence[Row]) -> list[Tex]:
    """A sentence or two for each limit that these rows have."""
    measured = [row for row in rows if row["status"] == "ok"]
    return [sentence for limit in _LIMITS for sentence in limit(rows if limit is _not_measured else measured)]


def doubts(rows: Sequence[Row]) -> list[Tex]:
    """The same in short: how many variants have no numbers, or a mark."""
    measured = [row for row in rows if row["status"] == "ok"]
    lost = [row for row in rows if row["status"] != "ok"]
    numbers = {mark: sum(mark in marks_of(row) for row in measured) for mark in MEANINGS}
    marked = ", ".join(f"{mark} ({number})" for mark, number in numbers.items() if number)
    not_measured = f"{_of(lost, rows).capitalize()} could not be measured; the appendix gives the reasons."
    with_marks = f"Marks on variants, with the number of those that have them: {marked}."
    return [
        *([escape(not_measured)] if lost else []),
        *_processes(measured),
        *([escape(with_marks)] if marked else []),
        *_unwatched(measured),
    ]


def doubted_rows(rows: Sequence[Row]) -> list[Row]:
    """The variants that have no numbers, or any doubt about them."""
    return [row for row in rows if row["status"] != "ok" or marks_of(row) or any(_unwatched([row]))]


def _processes(rows: Sequence[Row]) -> Iterator[Tex]:
    counts = sorted({int(row["processes"]) for row in rows})
    if not counts:
        yield escape("No variant was measured, so that nothing can be said.")
    elif counts == [1]:
        yield escape("Each number comes from one process; how far it scatters is not known.")
    else:
        number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        fewer = (
            f" Fewer than {FEWEST_FOR_INTERVAL} processes give no 95 % interval, and no difference is claimed."
            if counts[0] < FEWEST_FOR_INTERVAL
            else ""
        )
        yield escape(f"Each number is the mean of {number} processes.{fewer}")


def _not_measured(rows: Sequence[Row]) -> Iterator[Tex]:
    for row in rows:
        if row["status"] != "ok":
            yield _name(row) + escape(" has no numbers: ") + breakable(why_no_numbers(row)) + "."


def _not_profiled(rows: Sequence[Row]) -> Iterator[Tex]:
    for row in rows:
        reason = textwrap.shorten(str(row["reason"]), _LONGEST_REASON, placeholder=" …")
        if reason:
            yield _name(row) + escape(" was timed but not profiled: ") + breakable(reason.rstrip(".")) + "."


def _projected(rows: Sequence[Row]) -> Iterator[Tex]:
    projected = [row for row in rows if row["epoch_time_projected"]]
    if projected:
        yield escape(
            f"In {_of(projected, rows)} epochs were shortened to a fixed number of steps: times of a full epoch are "
            "projected from them, and the quality reached is that of a short training."
        )


def _marked(rows: Sequence[Row]) -> Iterator[Tex]:
    for mark, meaning in MEANINGS.items():
        sentence = _MARK_SENTENCES.get(mark, f"In {{share}}: {meaning}.")
        marked = [row for row in rows if mark in marks_of(row)]
        if mark != "projected" and marked and not (mark == "single" and len(marked) == len(rows)):
            yield escape(sentence.format(share=_of(marked, rows)))


def _unwatched(rows: Sequence[Row]) -> Iterator[Tex]:
    on_accelerator = [row for row in rows if row["device"] != "cpu"]
    unwatched = [row for row in on_accelerator if not SHOWN["sm_clock"].is_in([row])]
    if unwatched:
        yield escape(
            f"In {_of(unwatched, on_accelerator)} on an accelerator, clock throttling and other programs on it were "
            "not watched; either would make the times too long unnoticed."
        )


def _of(some: Sequence[Row], rows: Sequence[Row]) -> str:
    return "every variant" if len(some) == len(rows) else f"{len(some)} of {len(rows)} variants"


def _name(row: Row) -> Tex:
    return Tex(r"\gpurepname{") + breakable(str(row["variant"])) + Tex("}")


_MARK_SENTENCES: Final = {
    "throttled": "In {share} heat or the hardware's own protection lowered the clocks; those times are too long.",
    "power capped": "In {share} the limit on power lowered the clocks, as is usual under full load.",
    "clock drift": "In {share} the clocks differ between the processes, which therefore do not tell of one device.",
    "shared device": "In {share} others used the accelerator too; those times are too long.",
    "other software": "In {share} PyTorch has another version than in what it is compared with; compare with care.",
    "single": "In {share} there was one process only; how far those numbers scatter is not known.",
    "unsettled": "In {share} no epoch of a process met the rule by which warm-up ends; those times are in doubt.",
    "host jitter": "In {share} the host's jitter limits the accelerator: throughput varies from epoch to epoch, and "
    "more processes alone do not average it out.",
    "high variance": "In {share} the processes differ so much that the interval is wide; small differences"
    " there mean nothing.",
    "background load": "In {share} other programs used the processor while the clock ran; those times are too long.",
    "CPU steal": "In {share} the hypervisor gave processor time to other machines; those times are too long.",
    "diverged": "In {share} a loss was not finite; the training failed there, whatever its speed.",
    "other code": "In {share} another version of the measuring code was used than the one at hand.",
    "other settings": "In {share} the workload had other settings than the study asks for today; do not compare.",
    "other protocol": "In {share} another measuring protocol was used; they are not compared with others.",
}
_LIMITS: Final[tuple[Limit, ...]] = (_not_measured, _not_profiled, _processes, _projected, _marked, _unwatched)
