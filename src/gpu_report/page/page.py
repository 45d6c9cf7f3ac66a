"""The page: one HTML file that shows a machine's results in a browser, without a network and without other files.

results of the machine -> tables and charts as JSON, answers and figures as HTML -> page.html.j2, page.css and page.js

Its numbers are those of the PDF: the texts come from the one formatter, and each has the CSV's own value beside it.
"""

import gzip
import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2
from markupsafe import Markup

from gpu_report.figures import labels, style
from gpu_report.figures.drawing import draw_all
from gpu_report.figures.machines import comparison_figures
from gpu_report.figures.roofline import PRECISION_COLORS
from gpu_report.figures.stacked_bars import CATEGORY_COLORS, PHASE_COLORS
from gpu_report.findings.finding import Finding
from gpu_report.glossary import METRICS, Metric, Row, american, device_words, machine_words
from gpu_report.printing.number_format import scaled
from gpu_report.study.options import is_bound
from gpu_report.tables.bundle import Tables, rows_of
from gpu_report.tables.profiled import shown_profiles
from gpu_report.writing import rows, words
from gpu_report.writing.answers import answer_word, answered, discussed
from gpu_report.writing.experiment import ExperimentResults
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.pictures import COMPARISON_CSV, COMPARISON_FOLDER, Picture, pictures
from gpu_report.writing.table import Text, metric

if TYPE_CHECKING:
    import pandas as pd

_FOLDER: Final = Path(__file__).parent
_CHAPTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "trace": ("What a step consists of", ("steps", "idle")),
    "transfer": ("Copies between host and GPU", ("transfer",)),
    "efficiency": ("Efficiency", ()),
    "energy": ("Power and energy", ("telemetry",)),
    "study": ("The study as a whole", ()),
}
"""Of findings about the machine: heading, and the kinds of its figures; the page draws roofline and timeline itself."""
_CONFIGURATION: Final = (
    Text("model", words.model_words),
    Text("device", words.device_of),
    Text("precision"),
    Text("batch size", "batch_size", is_number=True),
    Text("optimization", if_differs=True),
    Text("parallelism", lambda row: words.value_words("parallelism", row["parallelism"]), if_differs=True),
)
_FLAGS: Final = Text("quality flags", lambda row: ", ".join(words.flags_of(row)), width=0.2)
_NAME: Final = Text("name", "variant", is_name=True)
_METRICS: Final = (
    *("throughput", "step_time", "epoch_time", "memory", "quality", "data_wait", "preparation"),
    *("utilisation", "power", "energy_per_sample"),
)
"""Of every configuration, by their keys in the glossary."""
_KERNELS: Final = (
    Text("rank", is_number=True),
    Text("kernel", "name", is_name=True),
    Text("category", words.category_words),
    Text("library"),
    Text("tensor cores", "tensor_cores"),
    Text("launched by", "operation", is_name=True),
    Text("calls", is_number=True),
    metric("total_ms", "total", "ms"),
    metric("share", "share", "share"),
    metric("median_us", "median", "µs"),
)
_SCALING: Final = tuple(
    metric(column)
    for column in (
        *("throughput_per_s", "throughput_per_device_per_s", "base_throughput_per_s", "base_speedup"),
        *("weak_efficiency", "strong_speedup", "strong_efficiency", "memory_allocated_most_mib"),
    )
)
_LINKS: Final = (
    Text("operation"),
    Text("devices", is_number=True),
    Text("bytes", is_number=True),
    metric("time_us"),
    metric("bus_bandwidth_gb_per_s"),
    Text("backend"),
)
_COMPARISON: Final = (
    Text("configuration", lambda row: labels.joined(row["heading"], row["label"]), width=0.3),
    Text("machine", lambda row: machine_words(row["machine"])),
    Text("reference", lambda row: machine_words(row["reference_machine"])),
    metric("throughput_per_s", "on the machine", "samples/s"),
    metric("reference_throughput_per_s", "on the reference", "samples/s"),
    metric("ratio"),
    Text("what else differs", "differences", width=0.2),
    _FLAGS,
    _NAME,
)
_DATA_LOADING: Final = "#8C6239"
"""In figures it is hatched."""
_FONT_SCALE: Final = 0.9
"""The page's font is wider by so much than the one that figures are laid out in."""


def render_page(
    *,
    title: str,
    machine: MachineResults,
    memory: Mapping[str, Sequence[Row]],
    comparison: "pd.DataFrame",
    comparison_findings: Sequence[Finding],
) -> str:
    """The text of the file.

    Args:
        title: Title of the study.
        machine: What the machine measured.
        memory: The rows of the trace table MEMORY that its checks let through, by variant.
        comparison: The table COMPARISON, with the machines beside it; without rows where there is none.
        comparison_findings: What follows from it.
    """
    data = _present(_data(machine, memory, comparison))
    sections = _sections(machine)
    overview, links = machine.pictures("overview"), machine.pictures("links")
    compared = pictures(comparison_figures(comparison), folder=COMPARISON_FOLDER, csv_path=lambda _: COMPARISON_CSV)
    shown = [*overview, *links, *compared, *(picture for section in sections for picture in section["pictures"])]
    drawn = draw_all([picture.figure.draw for picture in shown], file_format="svg")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        title=title,
        machine=machine,
        overview=overview,
        links=links,
        fastest=answered(machine.findings, "study", ["fastest"]),
        discussed=discussed(
            machine.findings, {each.name: each.axis for each in machine.experiments}, has_gpu=machine.has_accelerator
        ),
        decisions=rows.first_of_each(machine.decisions, "group")[:3],
        gain=metric("gain", "gain", "ratio"),
        sections=sections,
        compared=compared,
        comparison_csv=COMPARISON_CSV,
        compared_answers=_answers(comparison_findings),
        answer_word=answer_word,
        svg={
            picture.name: _inline_svg(svg.decode(), number)
            for number, (picture, svg) in enumerate(zip(shown, drawn, strict=True))
        },
        data=data,
        packed=_packed(data),
        css=Markup((_FOLDER / "page.css").read_text("utf-8")),
        script=Markup((_FOLDER / "page.js").read_text("utf-8")),
    )


def _sections(machine: MachineResults) -> list[dict[str, Any]]:
    """The answers by experiment, then by chapter about the machine, each with its figures."""
    experiments = [ExperimentResults(experiment=each, machine=machine) for each in machine.experiments]
    found: list[dict[str, Any]] = [
        {
            "name": each.name,
            "title": each.title,
            "question": each.question,
            "pictures": _pictures_of(each.name, machine),
        }
        for each in experiments
    ]
    found += [
        {"name": name, "title": title, "question": "", "pictures": machine.pictures(*kinds)}
        for name, (title, kinds) in _CHAPTERS.items()
    ]
    sections = [
        {**section, "answers": _answers([each for each in machine.findings if each.experiment == section["name"]])}
        for section in found
    ]
    return [section for section in sections if section["answers"] or section["pictures"]]


def _pictures_of(experiment: str, machine: MachineResults) -> list[Picture]:
    figures = [figure for figure in machine.figures if figure.subject == experiment]
    return pictures(figures, folder=machine.id, csv_path=machine.csv_path)


def _answers(findings: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    """Those that had anything to decide by, under their questions."""
    decided = [each for each in findings if each.verdict != "not measured"]
    questions = dict.fromkeys(each.question for each in decided)
    return [(question, [each for each in decided if each.question == question]) for question in questions]


def _data(machine: MachineResults, memory: Mapping[str, Sequence[Row]], comparison: "pd.DataFrame") -> dict[str, Any]:
    """What page.js draws."""
    tables = machine.tables
    variants = {row["variant"]: row for row in machine.variants}
    frame = labels.with_labels(labels.with_titles(tables.variants, tables.variants))
    names = dict(zip(frame["variant"], labels.full_names(frame), strict=True))
    timelines = _timelines(tables.timelines)
    allocated = _memory(memory)
    kernels = set(tables.top_kernels["variant"])
    profiled = [slug for slug in names if slug in timelines or slug in allocated or slug in kernels]
    scaled_rows = [
        {**variants[row["variant"]], **row}
        for row in rows.on_accelerators(rows_of(tables.scaling_efficiency))
        if not is_bound(variants[row["variant"]]["options"])
    ]
    return {
        "configurations": _table(
            [
                *_CONFIGURATION,
                *map(metric, _METRICS),
                _FLAGS,
                Text("without numbers", words.why_missing_or_skipped, width=0.2),
                _NAME,
            ],
            machine.variants,
        ),
        "names": {slug: names[slug] for slug in profiled},
        "first": next((slug for slug in [*shown_profiles(tables), *profiled] if slug in timelines), ""),
        "timelines": timelines,
        "memory": allocated,
        "kernels": _table(_KERNELS, rows_of(tables.top_kernels)),
        "advice": _table(
            (Text("what was found", "finding", width=0.5), Text("what to try", "advice", width=0.5)),
            rows_of(tables.trace_advice),
        ),
        "roofline": _roofline(tables, names),
        "scaling": _table([*_CONFIGURATION, *_SCALING, _NAME], scaled_rows),
        "comparison": _table(_COMPARISON, rows_of(labels.with_labels_across_machines(comparison))),
        "links": _table(_LINKS, rows_of(tables.links)),
        "colors": {
            "phases": PHASE_COLORS,
            "work": {
                **{american(category): color for category, color in CATEGORY_COLORS.items()},
                "data loading": _DATA_LOADING,
            },
            "others": style.OTHERS,
            "unknown": style.QUIET,
            "allocated": style.BLUE,
            "reserved": style.ORANGE,
            "precisions": PRECISION_COLORS,
        },
    }


def _table(columns: Sequence[Text | Metric], shown: Sequence[Row]) -> dict[str, Any]:
    """Columns that say anything about these rows, and their cells: texts, or pairs of the CSV's value and its text."""
    kept = [column for column in columns if column.is_in(shown)]
    return {
        "columns": [_column(column, shown) for column in kept],
        "rows": [list(cells) for cells in zip(*(_cells(column, shown) for column in kept), strict=True)],
        "variants": [row.get("variant", "") for row in shown],
    }


def _column(column: Text | Metric, shown: Sequence[Row]) -> dict[str, Any]:
    if isinstance(column, Text):
        return {
            "header": column.header,
            "kind": "number" if column.is_number else "name" if column.is_name else "long" if column.width else "text",
            "csv": _csv_column(column),
        }
    meaning = METRICS[column.column].description if column.column in METRICS else ""
    return {
        "header": column.header,
        "unit": column.unit_of(shown),
        "kind": "number",
        "csv": column.column,
        "meaning": meaning,
    }


def _csv_column(column: Text) -> str:
    of = column.of or column.header
    return of if isinstance(of, str) else ""


def _cells(column: Text | Metric, shown: Sequence[Row]) -> list[Any]:
    if isinstance(column, Metric):
        quantities = column.quantities(shown)
        return [
            [row[column.column], each.plain(unit=False)] if each.is_measured else None
            for row, each in zip(shown, quantities, strict=True)
        ]
    if column.is_number:
        return [[row[_csv_column(column)], column.text(row)] for row in shown]
    return [column.text(row) for row in shown]


def _timelines(frame: "pd.DataFrame") -> dict[str, Any]:
    """Each variant's stretches, a list for each column; lanes and categories by their positions in lists of names."""
    found = {}
    for variant, own in groupby(rows_of(frame), key=lambda row: row["variant"]):
        stretches = list(own)
        lanes = list(dict.fromkeys(row["lane"] for row in stretches))
        categories = list(dict.fromkeys(row["category"] for row in stretches))
        found[variant] = {
            "step": stretches[0]["step"],
            "wall": stretches[0]["wall_ms"],
            "lanes": lanes,
            "categories": list(map(american, categories)),
            "lane": [lanes.index(row["lane"]) for row in stretches],
            "category": [categories.index(row["category"]) for row in stretches],
            "begin": [row["begin_ms"] for row in stretches],
            "end": [row["end_ms"] for row in stretches],
            "busy": [row["busy_share"] for row in stretches],
        }
    return found


def _memory(memory: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """The allocator's totals of each variant and device."""
    return {
        variant: [
            {
                "device": device_words(device),
                "at": [row["at_ms"] for row in own],
                "allocated": [row["allocated_mib"] for row in own],
                "reserved": [row["reserved_mib"] for row in own],
            }
            for device in sorted({row["device"] for row in found}, key=lambda device: (device == "cpu", device))
            for own in [[row for row in found if row["device"] == device]]
        ]
        for variant, found in memory.items()
        if found
    }


def _roofline(tables: Tables, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Roofs and points of each device."""
    achieved, share = metric("achieved_flops_per_s"), metric("share_of_peak")
    intensity = metric("intensity", "intensity", "FLOP/B")
    points = rows_of(tables.efficiency.dropna(subset=["intensity", "achieved_flops_per_s"]))
    roofs = rows_of(tables.peaks.dropna(subset=["value"]))
    return [
        {
            "device": device_words(device),
            "roofs": [
                {
                    "precision": row["precision"],
                    "rate": row["value"],
                    "text": scaled(row["value"], row["unit"]).plain(),
                }
                for row in roofs
                if row["device"] == device and row["ceiling"] in ("matrix product", "device copy")
            ],
            "points": [
                {
                    "variant": row["variant"],
                    "name": names[row["variant"]],
                    "precision": row["precision"],
                    "intensity": row["intensity"],
                    "achieved": row["achieved_flops_per_s"],
                    "texts": [
                        achieved.quantity(row).plain(),
                        intensity.quantity(row).plain(),
                        f"{share.quantity(row).plain()} of the peak",
                    ],
                }
                for row in points
                if row["device"] == device
            ],
        }
        for device in sorted(dict.fromkeys(row["device"] for row in points), key=lambda device: device == "cpu")
    ]


def _packed(data: Any) -> str:
    """JSON, compressed, so that the file of a study with several times the timelines is small too."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _present(value: Any) -> Any:
    """The same with null for what is no finite number, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _present(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_present(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_TAG: Final = re.compile(r"<[^>]+>")


def _inline_svg(svg: str, number: int) -> Markup:
    """A figure as a part of the page: in its font, as wide as there is room, and with ids that no other figure has."""

    def shortened(tag: re.Match[str]) -> str:
        text = re.sub(r"(\.\d\d)\d+", r"\1", tag[0])
        text = re.sub(r' id="[\w.]+_\d+"', "", text)  # names of groups, which nothing refers to
        text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>f{number}-", text)
        text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
        return re.sub(r"font-size: ([\d.]+)px", lambda size: f"font-size: {float(size[1]) * _FONT_SCALE:g}px", text)

    drawn = svg[svg.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r' width="[^"]*" height="[^"]*"', "", drawn, count=1)
    drawn = drawn.replace("<svg", '<svg aria-hidden="true"', 1)
    return Markup(re.sub(r"\n\s*", "\n", _TAG.sub(shortened, drawn)))
