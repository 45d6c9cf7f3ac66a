"""What a table's numbers do not say: too few processes, doubts about the machine, projections, what
did not run.
"""

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from gpu_report.findings.phrases import why_no_numbers
from gpu_report.glossary import SHOWN, Row
from gpu_report.tables.marks import MEANINGS
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL
from gpu_report.writing.tex import Tex, breakable, escape
from gpu_report.writing.words import flags_of

_LONGEST_REASON: Final = 300
_OF_PROCESSES: Final = ("single", "high variance", "unsettled", "host jitter")
"""Marks of how processes and their epochs vary; the others are about the machine and its
software.
"""


def limits(rows: Sequence[Row]) -> Mapping[str, list[str]]:
    """The sentences about the limits that these rows have, by what limits them; those with names
    are TeX.
    """
    measured = [row for row in rows if row["status"] == "ok"]
    projected = [row for row in measured if row["epoch_time_projected"]]
    return {
        "machine": [
            *_marked(measured, set(MEANINGS) - {*_OF_PROCESSES, "projected"}),
            *_unwatched(measured),
        ],
        "processes": [*_processes(measured), *_marked(measured, _OF_PROCESSES)],
        "projected": [
            f"In {_of(projected, measured)}, epochs have a fixed number of steps, whatever the "
            "size of the training set: the time of a full epoch is projected, and the quality is "
            "that after these steps."
        ]
        if projected
        else [],
        "profiler": [
            _name(row)
            + escape(" was timed but not profiled: ")
            + breakable(reason.rstrip("."))
            + "."
            for row in measured
            if (reason := textwrap.shorten(str(row["reason"]), _LONGEST_REASON, placeholder=" …"))
        ],
        "missing": [
            _name(row) + escape(" has no numbers: ") + breakable(why_no_numbers(row)) + "."
            for row in rows
            if row["status"] != "ok"
        ],
    }


def doubts(rows: Sequence[Row]) -> list[str]:
    """The same in short, as plain text: how many variants have no numbers, or a mark."""
    measured = [row for row in rows if row["status"] == "ok"]
    lost = [row for row in rows if row["status"] != "ok"]
    numbers = {mark: sum(mark in flags_of(row) for row in measured) for mark in MEANINGS}
    marked = ", ".join(f"{mark} ({number})" for mark, number in numbers.items() if number)
    not_measured = f"{_of(lost, rows).capitalize()} could not be measured."
    with_marks = f"Quality flags, with the number of configurations that have each: {marked}."
    return [
        *([not_measured] if lost else []),
        *_processes(measured),
        *([with_marks] if marked else []),
        *_unwatched(measured),
    ]


def doubted_rows(rows: Sequence[Row]) -> list[Row]:
    """The variants that have no numbers, or any doubt about them."""
    return [row for row in rows if row["status"] != "ok" or flags_of(row) or any(_unwatched([row]))]


def _processes(rows: Sequence[Row]) -> Iterator[str]:
    counts = sorted({int(row["processes"]) for row in rows})
    if not counts:
        yield "No configuration was measured."
    elif counts == [1]:
        yield "Each number comes from one process; its spread is unknown."
    else:
        number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        fewer = (
            f" Fewer than {FEWEST_FOR_INTERVAL} processes give no 95 % interval, and no "
            "difference is claimed."
            if counts[0] < FEWEST_FOR_INTERVAL
            else ""
        )
        yield f"Each number is the mean of {number} processes.{fewer}"


def _marked(rows: Sequence[Row], marks: Collection[str]) -> Iterator[str]:
    for mark in MEANINGS:
        marked = [row for row in rows if mark in marks and mark in flags_of(row)]
        if marked and not (mark == "single" and len(marked) == len(rows)):
            yield f"In {_of(marked, rows)}, {_MARK_CLAUSES[mark]}."


def _unwatched(rows: Sequence[Row]) -> Iterator[str]:
    on_accelerator = [row for row in rows if row["device"] != "cpu"]
    unwatched = [row for row in on_accelerator if not SHOWN["sm_clock"].is_in([row])]
    if unwatched:
        yield (
            f"In {_of(unwatched, on_accelerator)} on a GPU, throttling and other programs on it "
            "were not watched; either would lengthen the times unnoticed."
        )


def _of(some: Sequence[Row], rows: Sequence[Row]) -> str:
    return (
        "every configuration"
        if len(some) == len(rows)
        else f"{len(some)} of {len(rows)} configurations"
    )


def _name(row: Row) -> Tex:
    return Tex(r"\gpurepname{") + breakable(str(row["variant"])) + Tex("}")


_MARK_CLAUSES: Final = {
    "single": "there was one process, and the spread is unknown",
    "high variance": "run-to-run variation makes the interval wide, which hides small differences",
    "unsettled": "the warm-up of a process did not settle, and the times support no conclusion",
    "host jitter": "host jitter changes the time of whole epochs",
    "background load": "background load lengthened the times, which support no conclusion",
    "CPU steal": "CPU steal lengthened the times, which support no conclusion",
    "throttled": "heat or hardware protection lowered the clocks, and the times support no "
    "conclusion",
    "power capped": "the power limit lowered the clocks, as is usual under full load",
    "clock drift": "the clocks differ between processes",
    "shared device": "other programs used the GPU, and the times support no conclusion",
    "shared node": "Slurm may have run other jobs on the node, whose load is marked where it was "
    "seen",
    "diverged": "a loss was not finite: the training failed, whatever its speed",
    "earlier code": "an earlier version of the measuring code was used",
    "other protocol": "another version of the protocol was used, and nothing is compared with it",
    "other settings": "the workload had other settings than the study asks for, and comparisons "
    "support no conclusion",
    "other software": "PyTorch, Python, NumPy, CUDA, cuDNN or the driver has a different version "
    "than in what it is compared with",
    "other threads": "the thread setting differs from that of what it is compared with, and the "
    "times support no conclusion",
}
"""What each mark but `projected` means for the numbers."""
