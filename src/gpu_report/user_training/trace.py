"""What a trace file shows, asked from Python: `gpu_report.trace(path).tables["operations"]`.

file or folder of ranks -> tables of each rank -> one DataFrame per table, the card, and the page
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from gpu_report import __version__
from gpu_report.printing.terminal import new_console, say
from gpu_report.storage.columns import Table
from gpu_report.traces.advice import ADVICE
from gpu_report.traces.analysis import AnalysedTrace, analyse_all, have_own_ranks, labels
from gpu_report.traces.card import card, heading
from gpu_report.traces.tables import TRACE_TABLES
from gpu_report.traces.trace import HOST

if TYPE_CHECKING:
    import pandas as pd

_RANK: Final = "rank"


def trace(path: Path | str, *, uncaptured: Path | str | None = None) -> "TraceAnalysis":
    """Read a trace of PyTorch's profiler, or a folder with one per rank; needs no PyTorch.

    Args:
        path: The file or folder.
        uncaptured: A trace of the same work before it was captured in CUDA graphs: a replayed graph
            shows kernels without operations, and they have them from there.

    Raises:
        TraceError: there is no trace, or none that can be read; in one line that names the file.
    """
    path = Path(path)
    other = None if uncaptured is None else Path(uncaptured)
    return TraceAnalysis(path=path, ranks=tuple(analyse_all(path, say, other)))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TraceAnalysis:
    """The tables of a trace; `print` shows the card of `gpu-report trace FILE`.

    Attributes:
        path: The file or folder.
        ranks: The tables of each file, in the order of the ranks.
    """

    path: Path
    ranks: tuple[AnalysedTrace, ...]

    def __str__(self) -> str:
        console = new_console()
        with console.capture() as shown:
            console.print(card(self.ranks))
        return shown.get().rstrip("\n")

    __repr__ = __str__

    @cached_property
    def tables(self) -> "dict[str, pd.DataFrame]":
        """The tables over the profiled steps by name; `gpu-report columns` explains them.

        Those of a folder have the column `rank` too, or `file` where the traces are not of
        different ranks. Numbers that the trace's checks do not let through are NaN; the table
        `quality` says why.
        """
        return {table.name: self._frame(table) for table in TRACE_TABLES}

    def to_html(self, path: Path | str) -> None:
        """Write one HTML file for a browser, which needs no network: parts of the step, what to
        try, timeline and tables; of a folder those of the first rank.

        Raises:
            FileWriteError: the file cannot be written, or is there and gpu-report did not make it.
        """
        from gpu_report.page.profile import render_profile
        from gpu_report.page.shared import write_page
        from gpu_report.user_training.step_parts import PARTS_IN_WORDS, parts_of_steps

        # Only a clock of the thread would show what of it is Python and what is waiting.
        in_words = {**PARTS_IN_WORDS, "host": "nothing recorded: Python, or waiting"}
        first = self.ranks[0]
        parts = parts_of_steps(first.rows, first.device or HOST)
        others = f"{len(self.ranks) - 1} others of the folder are not shown"
        text = render_profile(
            card="\n".join(line.plain for line in heading(first)),
            facts={
                "Trace": str(first.path),
                **({"Ranks": others} if len(self.ranks) > 1 else {}),
                "gpu-report": __version__,
            },
            parts=[
                {"part": in_words[name], "share": part}
                for name, part in sorted(parts.items(), key=lambda part: -part[1])
            ],
            suggestions=[
                {
                    "finding": row["finding"],
                    "remedy": row["advice"],
                    "at_stake": float("nan"),
                    "gain": float("nan"),
                }
                for row in first.rows[ADVICE]
            ],
            gate=first.gate,
        )
        write_page(Path(path), text)

    def _frame(self, table: Table) -> "pd.DataFrame":
        frames = []
        for label, each in zip(labels(self.ranks), self.ranks, strict=True):
            frame = table.from_rows(each.rows.get(table, ()))
            for column, withheld in each.gate.withheld(table).items():
                frame[column] = frame[column].mask(np.array(withheld))
            if self.path.is_dir() and _RANK not in frame:
                is_rank = have_own_ranks(self.ranks)
                frame.insert(0, _RANK if is_rank else "file", each.rank if is_rank else label)
            frames.append(frame)

        import pandas as pd  # which `from_rows` has asked for

        return pd.concat([each for each in frames if len(each)] or frames[:1], ignore_index=True)
