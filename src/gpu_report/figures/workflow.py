"""The rules of the workflow and what they hand on, as a picture with the numbers of this study.

counts -> rules that took part -> layers of boxes -> Figure

The rules are declared here, since Snakemake knows what follows from what only while it runs; a test compares them with
the rule graph that Snakemake gives.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

from gpu_report.figures import style
from gpu_report.figures.boxes import Box, Point, draw_box, new_sheet, write
from gpu_report.figures.kind import STUDY, Subject
from gpu_report.figures.layered import Way, in_layers, needed_directly

KIND: Final = "workflow"

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
class WorkflowSpec:
    """The picture of the workflow that made this report."""

    counts: Counts

    name: str = KIND
    kind: str = KIND
    title: str = "The workflow"

    @property
    def subject(self) -> Subject:
        return Subject(name=STUDY, axis="", baseline="")

    @property
    def caption(self) -> str:
        return (
            "The rules of the workflow, from what is measured to the report, with what each hands on in this study. "
            "An arrow leads to a rule that reads it; where it is also read further on, only the longer way is drawn."
        )

    @property
    def alt(self) -> str:
        """The rules in order with what they hand on."""
        steps = "; ".join(f"{name} gives {_gives(name, self.counts)}" for name in rules_of(self.counts))
        return f"The rules of the workflow as boxes from measuring to the report, joined by arrows: {steps}."


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


def draw_workflow(spec: WorkflowSpec) -> Figure:
    """Draw the rules, those first that need none."""
    layers, ways = in_layers(needed_directly(rules_of(spec.counts)))
    height = len(layers) * _LAYER_IN - (_LAYER_IN - _BOX_HEIGHT_IN) + 0.04
    with style.report_style():
        figure, axes = new_sheet(height_in=height)
        centres = _centres(layers, top=height - 0.02 - _BOX_HEIGHT_IN / 2)
        for way in ways:
            _draw_way(axes, way, centres)
        for name, rule in RULES.items():
            if name in centres:
                box = Box(centre=centres[name], width=_BOX_WIDTH_IN, height=_BOX_HEIGHT_IN)
                draw_box(axes, box, fill=_FILLS[rule.part])
                write(axes, (box.centre[0], box.centre[1] + _LINE_IN), name, fontweight="bold")
                write(axes, (box.centre[0], box.centre[1] - _LINE_IN), _gives(name, spec.counts))
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
