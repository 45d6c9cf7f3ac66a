"""Machines side by side: how much faster each trains the same variants than the machine it is
compared with.

comparison -> FigureSpec per pair of machines and page -> rows (variant) -> Figure
"""

from functools import partial
from typing import Final

import pandas as pd

from gpu_report.figures import labels
from gpu_report.figures.declaration import (
    FigureSpec,
    extremes,
    split_into_pages,
)
from gpu_report.figures.points import rows_figure
from gpu_report.glossary import RATIO, machine_words
from gpu_report.printing.number_format import counted
from gpu_report.words import shorten

_CAPTION: Final = (
    "Throughput of {machine} over that of {reference}, on the same configurations: {machine} is "
    "faster right of the dashed line. Points are ratios of means over processes and bars show "
    "95 % intervals."
)


def comparison_figures(comparison: pd.DataFrame) -> list[FigureSpec]:
    """The figures that hold every row of the table COMPARISON, no two pairs of machines in one;
    none without rows.
    """
    specs: list[FigureSpec] = []
    for (machine_id, reference_id), pair in labels.with_labels_across_machines(comparison).groupby(
        ["machine", "reference_machine"], sort=False
    ):
        machine, reference = machine_words(str(machine_id)), machine_words(str(reference_id))
        short = [shorten(labels.printable(name), 36) for name in (machine, reference)]
        title = f"Throughput of {short[0]} over that of {short[1]}"
        pages = split_into_pages(pair["heading"].tolist())
        for number, page in enumerate(pages, start=1):
            rows = pair.iloc[page].reset_index(drop=True)
            part = f" Part {number} of {len(pages)}." if len(pages) > 1 else ""
            variants = counted(len(rows), "configuration")
            specs.append(
                FigureSpec(
                    name="machines_comparison" + (f"_{len(specs) + 1}" if specs else ""),
                    subject=str(machine_id),
                    kind="comparison",
                    title=title,
                    caption=_CAPTION.format(machine=machine, reference=reference) + part,
                    alt=f"{title}: {variants}. {extremes(RATIO, rows, '')}".rstrip(),
                    variants=tuple(rows["variant"]),
                    drawing=partial(rows_figure, rows, metric=RATIO, title=title, numbers="ratio"),
                )
            )
    return specs
