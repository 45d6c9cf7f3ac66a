"""The kinds of figures about the machine's devices: what they reach, and what they did while they trained.

tables -> kind -> Figure, on one page
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from matplotlib.figure import Figure

from gpu_report.figures import labels
from gpu_report.figures.alt_text import Told, range_in, sentences
from gpu_report.figures.overview import draw_overview, has_overview, told_of_overview
from gpu_report.figures.roofline import roofline_figure
from gpu_report.figures.telemetry import QUANTITIES, draw_telemetry
from gpu_report.figures.transfers import draw_transfers
from gpu_report.tables.bundle import Tables


@dataclass(frozen=True, kw_only=True)
class MachineKind:
    """One kind of figure about the machine's devices, drawn from its tables on one page."""

    title: str
    caption: str
    has_data: Callable[[Tables], bool]
    draw: Callable[[Tables], Figure]
    told: Told

    def alt(self, tables: Tables) -> str:
        """What it shows, in plain sentences."""
        return sentences(f"{self.title}.", self.told(tables.variants.iloc[:0], "", tables))


def _draw_telemetry(tables: Tables) -> Figure:
    return draw_telemetry(tables.telemetry, labels.with_titles(tables.variants, tables.variants))


def _draw_roofline(tables: Tables) -> Figure:
    variants = labels.with_titles(tables.variants, tables.variants)
    titles = dict(zip(variants["workload"], variants["workload_title"], strict=True))
    return roofline_figure(tables.efficiency, tables.peaks, titles)


MACHINE_KINDS: Final[Mapping[str, MachineKind]] = {
    "overview": MachineKind(
        title="The study at a glance",
        caption=(
            "What a GPU gains over the CPU, what each optimization gains over the eager baseline, and how near every "
            "variant comes to the measured roofs. Bars are 95 % intervals, of three processes the range."
        ),
        has_data=has_overview,
        draw=draw_overview,
        told=told_of_overview,
    ),
    "transfer": MachineKind(
        title="Copies between host and device",
        caption=(
            "Bandwidth of copies between host and device by their size, from pageable and from pinned host memory, the "
            "host waiting for each. Points are means over processes, bars their 95 % intervals, of three the "
            "range; the dashed line is "
            "the peak of that direction."
        ),
        has_data=lambda tables: not tables.transfers.empty,
        draw=lambda tables: draw_transfers(tables.transfers, tables.peaks),
        told=range_in("transfers", "bandwidth_gb_per_s", what="Bandwidths", unit="GB/s"),
    ),
    "roofline": MachineKind(
        title="Roofline",
        caption=(
            "Achieved floating-point operations per second of every variant over its arithmetic intensity, below the "
            "roofs that the calibration measured: matrix products in each precision, and the rate of a copy inside the "
            "device's memory. Shape tells the workload, colour the precision; points of the same look differ in "
            "size, batch or optimizations. Bars are 95 % intervals, of three processes the range."
        ),
        has_data=lambda tables: not tables.efficiency.empty,
        draw=_draw_roofline,
        told=range_in("efficiency", "achieved_flops_per_s", what="Rates", unit="TFLOP/s", factor=1e-12),
    ),
    "telemetry": MachineKind(
        title="The accelerator while it trains",
        caption=(
            "What the accelerator's driver told during the timed epochs, of the variant of each workload that took "
            "most power, for up to three workloads. Each line is a process."
        ),
        has_data=lambda tables: bool(tables.telemetry[list(QUANTITIES)].notna().any(axis=None)),
        draw=_draw_telemetry,
        told=range_in("telemetry", "power_w", what="Powers", unit="W"),
    ),
}
"""Figures of the machine and all its variants at once, by the word that ends the figure's name."""
