"""How fast the variants of an experiment train, and where a speedup crosses from slow to fast.

experiment table -> rows (variant), or panels (what the variants share) of lines (device) along an
axis of numbers
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_report.figures import labels, palette, style
from gpu_report.figures.declaration import (
    Shown,
    extremes,
    extremes_of,
    is_said_by_table,
    variant_figure,
)
from gpu_report.figures.points import panels_figure, rows_figure
from gpu_report.glossary import (
    AXES,
    METRICS,
    SPEEDUP,
    THROUGHPUT,
    TOKENS,
    Metric,
)
from gpu_report.printing.number_format import counted, quantity
from gpu_report.tables.bundle import rows_of
from gpu_report.words import per_device, with_configurations

_NUMBERS: Final = ("batch_size", "accumulation", "workers", "epochs", "steps_per_epoch", "seed")
"""Axes along which a line means something."""
_LEAST_HEIGHT_IN: Final = 2.0  # lower axes are shorter than their label
_VERDICTS: Final = {
    "accelerator always": "faster at every size",
    "cpu always": "slower at every size",
    "unclear": "no clear crossover",
    "flagged": "crossover not resolved: quality flags",
}


def repeats_crossover(shown: Shown) -> bool:
    """Whether it is a series of batch sizes, and another experiment compares the devices as
    well.
    """
    series = set(shown.tables.crossovers["experiment"])
    others = [frame for name, frame in shown.tables.experiments.items() if name not in series]
    elsewhere = any((frame.groupby("group")["device"].nunique() > 1).any() for frame in others)
    return shown.subject in series and elsewhere


_HOW_TO_READ: Final = "Points are means and bars show 95 % intervals."
_EFFICIENCY: Final = METRICS["weak_efficiency"]


def _weak_scaling_of_ddp(shown: Shown) -> pd.DataFrame:
    table = shown.tables.scaling_efficiency
    own = [column for column in table if column not in shown.rows]
    configurations = [row["configuration"] for row in with_configurations(rows_of(shown.rows))]
    rows: pd.DataFrame = shown.rows.assign(configuration=configurations).merge(
        table[["variant", *own]], on="variant"
    )
    is_shown = (
        rows["is_weak"]
        & (rows["strategy"] == "ddp")
        & (rows["devices"] > 1)
        & (rows["device"] != "cpu")
    )
    return rows[is_shown].dropna(subset=_EFFICIENCY.column)


def _by_samples_per_device(rows: pd.DataFrame, _axis: str) -> pd.DataFrame:
    headings = [
        f"{labels.workload_label(row)}, {per_device(row['batch_per_device'], row['device'])}"
        for row in rows_of(rows)
    ]
    rows = labels.sorted_by(
        rows.assign(heading=headings), "heading", "configuration", then=["devices"]
    )
    devices = [counted(devices, "GPU") for devices in rows["devices"]]
    return rows.assign(
        label=[labels.joined(*each) for each in zip(rows["configuration"], devices, strict=True)]
    )


SCALING: Final = partial(
    variant_figure,
    name="scaling",
    title="Weak scaling",
    caption=(
        "Weak efficiency of DistributedDataParallel, by model and samples per GPU: the speedup "
        f"over one process with the samples of one GPU, over the number of GPUs. {_HOW_TO_READ}"
    ),
    along=("parallelism",),
    rows=_weak_scaling_of_ddp,
    draw=lambda shown: rows_figure(shown.rows, metric=_EFFICIENCY),
    label=_by_samples_per_device,
    sentences=(extremes_of(_EFFICIENCY),),
    tables=("scaling_efficiency",),
)


def _repeats_scaling(shown: Shown) -> bool:
    """Whether the figure of scaling is drawn; or several ranks share a CPU, whose speeds forecast
    nothing.
    """
    return shown.axis == "parallelism" and (
        not _weak_scaling_of_ddp(shown).empty or bool((shown.rows["device"] == "cpu").all())
    )


def rate_of(rows: pd.DataFrame) -> Metric:
    """Tokens per second where everything that was measured trains on tokens, else samples per
    second.
    """
    measured = rows.loc[rows[THROUGHPUT.column].notna(), TOKENS.column]
    return TOKENS if len(measured) and measured.notna().all() else THROUGHPUT


def _compared(shown: Shown) -> pd.DataFrame:
    others = shown.rows[~shown.rows["is_baseline"]]
    compared = others[others[SPEEDUP.column].notna() | (others["status"] != "ok")]
    return compared if compared[SPEEDUP.column].notna().any() else compared.iloc[:0]


def curves_figure(shown: Shown) -> Figure:
    """Draw throughput along an axis of numbers, a panel for each group."""
    panels = shown.rows["panel"].nunique()
    columns = min(panels, 2) if panels in (1, 2, 4) else 3 if panels <= 9 else 4
    height_in = max(1.3 * math.ceil(panels / columns) + 0.35, _LEAST_HEIGHT_IN)

    def draw(axes: Axes, panel: pd.DataFrame) -> None:
        style.set_scale(axes, "y", [*panel["low"].dropna(), *panel["high"].dropna()])

    return panels_figure(
        shown.rows,
        rate_of(shown.rows),
        axis=shown.axis,
        by="device",
        looks=style.device_looks(shown.rows["device"]),
        columns=columns,
        height_in=height_in,
        draw=draw,
    )


def _crossing(shown: Shown) -> pd.DataFrame:
    others = shown.rows[~shown.rows["is_baseline"]]
    known = shown.subject in set(shown.tables.crossovers["experiment"])
    sizes = others.groupby(["workload", "size", "precision", "options"])["batch_size"]
    series = others[sizes.transform("nunique") > 1]
    return series if known and series[SPEEDUP.column].notna().any() else others.iloc[:0]


def crossover_figure(shown: Shown) -> Figure:
    """Draw the speedup of the GPUs along the batch size, and where it crosses 1."""
    baseline, looks = shown.baseline, style.device_looks(shown.rows["device"])
    crossovers = shown.tables.crossovers[shown.tables.crossovers["experiment"] == shown.subject]
    panels = shown.rows["panel"].nunique()
    columns = min(panels, 2)
    height_in = 1.6 * math.ceil(panels / columns) + 0.3

    def draw(axes: Axes, panel: pd.DataFrame) -> None:
        style.set_scale(axes, "y", [1.0, *panel["low"].dropna(), *panel["high"].dropna()])
        style.level(axes, 1, f"as fast as {baseline}", at_left=False, zorder=1)
        shared = set.intersection(*map(set, panel["group"].str.split()))
        for device, own in panel.groupby("device", sort=False):
            found = crossovers[
                (crossovers["device"] == device)
                & (crossovers["workload"] == own["workload"].iloc[0])
                & crossovers["group"].str.split().map(shared.issuperset)
            ]
            # Whether a quality flag invalidates a time of the workload on the device or on the CPU.
            compared = shown.tables.experiments[shown.subject]
            compared = compared[
                (compared["workload"] == own["workload"].iloc[0])
                & compared["device"].isin(["cpu", device])
            ]
            if labels.doubts(compared["marks"]):
                found = found.assign(verdict="flagged")
            for _, crossover in found.iterrows():
                _shade(axes, crossover, color=looks[str(device)]["color"])

    return panels_figure(
        shown.rows,
        SPEEDUP.named(baseline=baseline),
        axis="batch_size",
        by="device",
        looks=looks,
        columns=columns,
        height_in=height_in,
        draw=draw,
    )


def _shade(axes: Axes, crossover: "pd.Series[Any]", *, color: str) -> None:
    value, low, high = (crossover[f"batch_size{end}"] for end in ("", "_low", "_high"))
    text = _VERDICTS.get(str(crossover["verdict"]), "")
    if not text:
        if pd.isna(value):
            return
        if pd.notna(low) and pd.notna(high):
            axes.axvspan(low, high, color=color, alpha=0.2, linewidth=0)
        axes.axvline(value, color=color, linestyle=":", linewidth=1.0)
        text = f"crosses at {quantity(value, low=low, high=high).plain()}"
    style.note(axes, text, (0.02, 0.97), color=palette.INK, ha="left", va="top", bbox=style.BLANK)


_NO_SPEEDUP_ROWS: Final[Sequence[Callable[[Shown], bool]]] = (
    repeats_crossover,
    _repeats_scaling,
    lambda shown: is_said_by_table(replace(shown, rows=_compared(shown))),
)
SPEEDUP_ROWS: Final = partial(
    variant_figure,
    name="speedup",
    title="Speedup by {axis}",
    caption=f"Speedup over {{baseline}}, by throughput; points right of the dashed line are "
    f"faster. {_HOW_TO_READ}",
    along=("device", "precision", "parallelism"),
    rows=_compared,
    draw=lambda shown: rows_figure(shown.rows, metric=SPEEDUP.named(**shown.words)),
    sentences=(extremes_of(SPEEDUP),),
    unless=_NO_SPEEDUP_ROWS,
)
THROUGHPUT_ROWS: Final = partial(
    variant_figure,
    name="throughput",
    title="Throughput by {axis}",
    caption=f"Training throughput by {{axis}}, over the timed epochs; more is better. "
    f"{_HOW_TO_READ}",
    along=frozenset(AXES) - {"optimization", "precision", "workload", *_NUMBERS},
    rows=lambda shown: (
        shown.rows if shown.rows[THROUGHPUT.column].notna().any() else shown.rows.iloc[:0]
    ),
    draw=lambda shown: rows_figure(shown.rows, metric=rate_of(shown.rows)),
    sentences=(lambda shown: extremes(rate_of(shown.rows), shown.rows, shown.axis),),
    unless=(
        repeats_crossover,
        lambda shown: shown.axis == "device" and not _compared(shown).empty,
        _repeats_scaling,
        is_said_by_table,
    ),
)
THROUGHPUT_CURVES: Final = partial(
    THROUGHPUT_ROWS,
    along=_NUMBERS,
    draw=curves_figure,
    label=labels.with_panels,
    together="panel",
    groups_on_page=16,
)
CROSSOVER: Final = partial(
    variant_figure,
    name="crossover",
    title="Crossover of the devices",
    caption=(
        "Speedup over {baseline} against the batch size: above the dashed line the GPU is faster. "
        "A dotted line marks where both are equally fast, the shade its 95 % interval; neither is "
        "drawn where a quality flag invalidates a time."
    ),
    along=("device",),
    rows=_crossing,
    draw=crossover_figure,
    label=lambda rows, _: labels.with_panels(rows, "batch_size"),
    together="panel",
    groups_on_page=6,
    sentences=(extremes_of(SPEEDUP, along="batch_size"),),
    # The figure of speedups has these too, and more.
    unless=(
        lambda shown: (
            len(_crossing(shown)) < len(_compared(shown))
            and not any(holds(shown) for holds in _NO_SPEEDUP_ROWS)
        ),
    ),
    tables=("crossovers",),
)
