"""The page: one HTML file that shows a machine's results in a browser, without a network and
without other files.

results of the machine -> tables and charts as JSON, answers and figures as HTML -> page.html.j2,
page.css and page.js

Its numbers are those of the PDF: the texts come from the one formatter, and each has the CSV's own
value beside it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gpu_report import words
from gpu_report.answers.finding import Finding
from gpu_report.answers.summary import answer_word
from gpu_report.figures import labels
from gpu_report.figures.drawing import draw_all
from gpu_report.figures.machines import comparison_figures
from gpu_report.glossary import Row, device_words, machine_words
from gpu_report.page.shared import COLORS, KERNELS, html_table, inline_svg, rendered, timelines_of
from gpu_report.printing.number_format import scaled
from gpu_report.study.options import is_bound
from gpu_report.tables.bundle import Tables, grouped, rows_of, shown_profiles, with_variants
from gpu_report.tables.marks import MEANINGS
from gpu_report.writing import cards, rows
from gpu_report.writing.experiment import ExperimentResults
from gpu_report.writing.layout import COMPARISON_CSV, COMPARISON_FOLDER, placed
from gpu_report.writing.machine import MachineResults
from gpu_report.writing.table import Text, metric

if TYPE_CHECKING:
    import pandas as pd

_CHAPTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "trace": ("What a step consists of", ("steps", "idle")),
    "transfer": ("Copies between host and GPU", ("transfer",)),
    "sources": ("Results of the sources", ()),
}
"""Of findings about the machine: heading, and the kinds of its figures; the page draws roofline and
timeline itself.
"""
_CONFIGURATION: Final = (
    Text("model", words.model_cell),
    Text("device", words.device_of),
    Text("precision"),
    Text("batch size", "batch_size", is_number=True),
    Text("optimization", if_differs=True),
    Text(
        "parallelism",
        lambda row: words.value_words("parallelism", row["parallelism"]),
        if_differs=True,
    ),
    Text(
        "training length",
        lambda row: labels.length_label(row).replace(" of", "\u00a0of"),  # two lines, not three
        if_differs=True,
    ),
    Text("session", is_number=True, if_differs=True),
)
_FLAGS: Final = Text("quality flags", lambda row: ", ".join(words.flags_of(row)), width=0.2)
_NAME: Final = Text("name", "variant", is_name=True)
_METRICS: Final = (
    *("throughput", "step_time", "epoch_time", "memory", "quality", "data_wait", "preparation"),
    *("utilisation", "power", "energy_per_sample"),
)
_SCALING: Final = tuple(
    metric(column)
    for column in (
        *(
            "throughput_per_s",
            "throughput_per_device_per_s",
            "base_throughput_per_s",
            "base_speedup",
        ),
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
        comparison: The table COMPARISON, with the machines beside it; without rows where there is
            none.
        comparison_findings: What follows from it.
    """
    data = _data(machine, memory, comparison)
    sections = _sections(machine)
    waterfall, links = machine.pictures("waterfall"), machine.pictures("links")
    compared = placed(
        comparison_figures(comparison), folder=COMPARISON_FOLDER, csv_path=lambda _: COMPARISON_CSV
    )
    shown = [
        *waterfall,
        *links,
        *compared,
        *(picture for section in sections for picture in section["pictures"]),
    ]
    drawn = draw_all([picture.draw for picture in shown], file_format="svg")
    return rendered(
        "page.html.j2",
        data,
        title=title,
        machine=machine,
        waterfall=waterfall,
        cards=cards,
        model=Text("model"),
        chain=machine.chains,
        scaled=cards.scaled(machine.tables),
        limits=machine.limit_cards,
        links=links,
        first=cards.first_steps(machine.tables, machine.chains),
        sections=sections,
        compared=compared,
        comparison_csv=COMPARISON_CSV,
        compared_answers=_answers(comparison_findings),
        answer_word=answer_word,
        flags_in=lambda shown: Counter(flag for row in shown for flag in words.flags_of(row)),
        meanings=MEANINGS,
        has_sessions=len({row["session"] for row in machine.variants}) > 1,
        svg={
            picture.name: inline_svg(svg.decode(), number)
            for number, (picture, svg) in enumerate(zip(shown, drawn, strict=True))
        },
    )


def _sections(machine: MachineResults) -> list[dict[str, Any]]:
    """The answers by experiment, then by chapter about the machine, each with its figures."""
    experiments = [
        ExperimentResults(experiment=each, machine=machine)
        for each in (*machine.experiments, *machine.searching)
    ]
    found: list[dict[str, Any]] = [
        {
            "name": each.name,
            "title": each.title,
            "question": each.question,
            "pictures": [figure for figure in machine.drawn if figure.subject == each.name],
        }
        for each in experiments
    ]
    found += [
        {"name": name, "title": title, "question": "", "pictures": machine.pictures(*kinds)}
        for name, (title, kinds) in _CHAPTERS.items()
    ]
    sections = [
        {
            **section,
            "answers": _answers(
                [each for each in machine.findings if each.experiment == section["name"]]
            ),
        }
        for section in found
    ]
    return [section for section in sections if section["answers"] or section["pictures"]]


def _answers(findings: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    """Those that had anything to decide by, under their questions."""
    decided = [each for each in findings if each.verdict != "not measured"]
    return [*grouped(decided, lambda each: each.question).items()]


def _data(
    machine: MachineResults, memory: Mapping[str, Sequence[Row]], comparison: "pd.DataFrame"
) -> dict[str, Any]:
    tables = machine.tables
    variants = {row["variant"]: row for row in machine.variants}
    frame = labels.with_labels(labels.with_titles(tables.variants, tables.variants))
    names = dict(zip(frame["variant"], labels.full_names(frame), strict=True))
    timelines = timelines_of(rows_of(tables.timelines))
    allocated = {
        variant: [
            {
                "device": device_words(device),
                "at": [row["at_ms"] for row in own],
                "allocated": [row["allocated_mib"] for row in own],
                "reserved": [row["reserved_mib"] for row in own],
            }
            for device, own in sorted(
                grouped(found, lambda row: str(row["device"])).items(),
                key=lambda item: (item[0] == "cpu", item[0]),
            )
        ]
        for variant, found in memory.items()
        if found
    }
    kernels = set(tables.top_kernels["variant"])
    profiled = [slug for slug in names if slug in timelines or slug in allocated or slug in kernels]
    shared = with_variants(tables.scaling_efficiency, variants)
    scaled_rows = [row for row in rows.on_accelerators(shared) if not is_bound(row["options"])]
    return {
        "configurations": html_table(
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
        "first": next(
            (slug for slug in [*shown_profiles(tables), *profiled] if slug in timelines), ""
        ),
        "timelines": timelines,
        "memory": allocated,
        "kernels": html_table(KERNELS, rows_of(tables.top_kernels)),
        "advice": html_table(
            (
                Text("what was found", "finding", width=0.5),
                Text("what to try", "advice", width=0.5),
            ),
            rows_of(tables.trace_advice),
        ),
        "roofline": _roofline(tables, names),
        "scaling": html_table([*_CONFIGURATION, *_SCALING, _NAME], scaled_rows),
        "comparison": html_table(
            _COMPARISON, rows_of(labels.with_labels_across_machines(comparison))
        ),
        "links": html_table(_LINKS, rows_of(tables.links)),
        "colors": COLORS,
    }


def _roofline(tables: Tables, names: Mapping[str, str]) -> list[dict[str, Any]]:
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
        for device in sorted(
            dict.fromkeys(row["device"] for row in points), key=lambda device: device == "cpu"
        )
    ]
