"""The figures about the study itself: the networks that were trained, and the rules of the workflow with its numbers.

records of the machines -> counts -> rules that took part -> layers of boxes -> Figure

The rules are declared here, since Snakemake knows what follows from what only while it runs; a test compares them with
the rule graph that Snakemake gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

from gpu_report.catalogue import BUILT_IN_WORKLOADS
from gpu_report.figures import style
from gpu_report.figures.boxes import Box, Point, draw_box, new_sheet, write
from gpu_report.figures.declaration import STUDY, FigureSpec
from gpu_report.figures.layered import Way, in_layers, needed_directly
from gpu_report.figures.networks import network_figures
from gpu_report.records import Record
from gpu_report.tables.schema import PEAKS, STUDY_TABLES, TRANSFERS
from gpu_report.traces.tables import TRACE_TABLES

_LAYER_IN: Final = 0.56
_BOX_WIDTH_IN: Final = 1.36
_BEND_ROOM: Final = 0.15
"""Of a long edge that passes a layer, as a part of a box's room."""
_BOX_HEIGHT_IN: Final = 0.34
_LINE_IN: Final = 0.066
_FILLS: Final = {"measure": style.SKY, "tables": style.OTHERS, "document": style.YELLOW}


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How much of each there is in this study, over all its machines."""

    measured: int
    """Records that were measured where the report was made."""
    imported: int
    """Records that came in a bundle."""
    image_files: bool
    """Whether a workload that was measured here reads image files."""
    trace_tables: int
    """Tables that are made from one trace."""
    calibration_tables: int
    study_tables: int
    """Those of the experiments among them."""
    networks: int
    sections: int


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule of the workflow."""

    needs: tuple[str, ...]
    gives: str
    """What it hands on, in a few words; fields of Counts stand in braces."""
    part: str


RULES: Final[Mapping[str, Rule]] = {
    "write_image_files": Rule(needs=(), gives="JPEG files", part="measure"),
    "calibrate_machine": Rule(needs=(), gives="what the devices reach", part="measure"),
    "measure_variant": Rule(needs=("write_image_files",), gives="{measured} records, traces", part="measure"),
    "import_bundle": Rule(needs=(), gives="{imported} records, trace tables", part="measure"),
    "tabulate_trace": Rule(needs=("measure_variant",), gives="{trace_tables} tables for each trace", part="tables"),
    "write_tensorboard_logs": Rule(needs=("measure_variant",), gives="TensorBoard logs", part="document"),
    "tabulate_calibration": Rule(
        needs=("calibrate_machine", "import_bundle"), gives="{calibration_tables} tables", part="tables"
    ),
    "tabulate_study": Rule(
        needs=("measure_variant", "calibrate_machine", "tabulate_trace", "import_bundle"),
        gives="{study_tables} tables",
        part="tables",
    ),
    "compare_machines": Rule(
        needs=("tabulate_study", "measure_variant", "import_bundle"), gives="1 table", part="tables"
    ),
    "derive_findings": Rule(needs=("tabulate_calibration", "tabulate_study"), gives="findings", part="tables"),
    "derive_comparison": Rule(needs=("compare_machines",), gives="findings", part="tables"),
    "draw_figures": Rule(
        needs=("tabulate_calibration", "tabulate_study"),
        gives="figures of a machine",
        part="document",
    ),
    "draw_comparison": Rule(needs=("compare_machines",), gives="figures of all machines", part="document"),
    "draw_study": Rule(
        needs=("measure_variant", "import_bundle"),
        gives="this, {networks} networks",
        part="document",
    ),
    "write_sections": Rule(
        needs=(
            *("tabulate_calibration", "tabulate_study", "compare_machines"),
            *("derive_findings", "derive_comparison", "measure_variant", "calibrate_machine", "import_bundle"),
        ),
        gives="{sections} sections",
        part="document",
    ),
    "compile_report": Rule(
        needs=(
            *("write_sections", "draw_figures", "draw_comparison", "draw_study"),
            *("measure_variant", "calibrate_machine", "import_bundle"),
        ),
        gives="the report",
        part="document",
    ),
}
"""By name; a rule stands after those that it needs."""


@dataclass(frozen=True, kw_only=True)
class MachineShown:
    """What one machine gave for the study, as far as the figures of the study count it."""

    records: Sequence[Record]
    is_imported: bool
    """Whether its records came in a bundle."""
    experiments: int
    """Those that it has variants of."""


def study_figures(machines: Sequence[MachineShown], *, sections: int) -> list[FigureSpec]:
    """Every known network that the first machine trained, and the workflow, which has the part of each machine."""
    networks = network_figures(machines[0].records)
    return [*networks, workflow_figure(counts_of(machines, networks=len(networks), sections=sections))]


def counts_of(machines: Sequence[MachineShown], *, networks: int, sections: int) -> Counts:
    """How much of each the machines gave; the tables of what a machine reaches are those of the first alone."""
    calibration_tables = len((PEAKS, TRANSFERS))
    measured = [record for machine in machines if not machine.is_imported for record in machine.records]
    return Counts(
        measured=len(measured),
        imported=sum(len(machine.records) for machine in machines if machine.is_imported),
        image_files=any(_reads_image_files(record) for record in measured),
        trace_tables=len(TRACE_TABLES),
        calibration_tables=calibration_tables,
        study_tables=sum(len(STUDY_TABLES) - calibration_tables + machine.experiments for machine in machines),
        networks=networks,
        sections=sections,
    )


def _reads_image_files(record: Record) -> bool:
    workload = BUILT_IN_WORKLOADS.get(record.as_variant().workload)
    return workload is not None and workload.reads_image_files


def workflow_figure(counts: Counts) -> FigureSpec:
    """The workflow that made this report, with what each rule handed on."""
    steps = "; ".join(f"{name} gives {_gives(name, counts)}" for name in rules_of(counts))
    return FigureSpec(
        name="workflow",
        subject=STUDY,
        kind="workflow",
        title="The workflow",
        caption=(
            "The rules of the workflow, from what is measured to the report, with what each hands on in this study. "
            "An arrow leads to a rule that reads it; where it is also read further on, only the longer way is drawn."
        ),
        alt=f"The rules of the workflow as boxes from measuring to the report, joined by arrows: {steps}.",
        tables=("variants",),
        drawing=partial(_workflow_figure, counts),
    )


def rules_of(counts: Counts) -> dict[str, tuple[str, ...]]:
    """The rules that took part, each with those among them that it needs."""
    absent = set()
    if not counts.measured:
        absent |= {"measure_variant", "calibrate_machine", "tabulate_trace", "write_tensorboard_logs"}
    if not counts.imported:
        absent.add("import_bundle")
    if not (counts.measured and counts.image_files):
        absent.add("write_image_files")
    # What machines reach that are compared alone is in no table of the report.
    unread = ("tabulate_calibration", "import_bundle") if counts.measured else ()
    return {
        name: tuple(need for need in rule.needs if need not in absent and (name, need) != unread)
        for name, rule in RULES.items()
        if name not in absent
    }


def _workflow_figure(counts: Counts) -> Figure:
    layers, ways = in_layers(needed_directly(rules_of(counts)))
    height = len(layers) * _LAYER_IN - (_LAYER_IN - _BOX_HEIGHT_IN) + 0.04
    figure, axes = new_sheet(height_in=height)
    centres = _centres(layers, top=height - 0.02 - _BOX_HEIGHT_IN / 2)
    for way in ways:
        _draw_way(axes, way, centres)
    for name, rule in RULES.items():
        if name in centres:
            box = Box(centre=centres[name], width=_BOX_WIDTH_IN, height=_BOX_HEIGHT_IN)
            draw_box(axes, box, fill=_FILLS[rule.part])
            write(axes, (box.centre[0], box.centre[1] + _LINE_IN), name, fontweight="bold")
            write(axes, (box.centre[0], box.centre[1] - _LINE_IN), _gives(name, counts))
    return figure


def _gives(name: str, counts: Counts) -> str:
    return RULES[name].gives.format(**vars(counts))


def _centres(layers: list[list[str]], *, top: float) -> dict[str, Point]:
    """Boxes share the width of the sheet evenly; a bend of a long edge takes a part of a box's room."""
    centres: dict[str, Point] = {}
    for number, layer in enumerate(layers):
        rooms = [1.0 if name in RULES else _BEND_ROOM for name in layer]
        begin = 0.0
        for name, room in zip(layer, rooms, strict=True):
            centres[name] = (style.TEXT_WIDTH_IN * (begin + room / 2) / sum(rooms), top - number * _LAYER_IN)
            begin += room
    return centres


def _draw_way(axes: Axes, way: Way, centres: Mapping[str, Point]) -> None:
    """A smooth line from the lower side of the first box to the upper side of the last, upright beside other boxes."""
    half = _BOX_HEIGHT_IN / 2
    vertices, codes = [(centres[way[0]][0], centres[way[0]][1] - half)], [Path.MOVETO]
    for name in way[1:]:
        (begin, upper), (end, centre) = vertices[-1], centres[name]
        lower = centre + half
        middle = (upper + lower) / 2
        vertices += [(begin, middle), (end, middle), (end, lower)]
        codes += [Path.CURVE4] * 3
        if name != way[-1]:
            vertices.append((end, centre - half))
            codes.append(Path.LINETO)
    arrow = FancyArrowPatch(
        path=Path(vertices, codes),
        arrowstyle="-|>,head_length=3,head_width=1.6",
        color=style.QUIET,
        linewidth=0.8,
        zorder=0.5,
    )
    axes.add_patch(arrow)
