"""The page of a profile: what limits one training step, in a browser, without a network and without
other files.

card, blocks, parts, suggestions and trace tables -> profile.html.j2 in the frame, style and script
of every page
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gpu_report import words
from gpu_report.figures.blocks import blocks_figure
from gpu_report.figures.drawing import draw_all
from gpu_report.figures.style import report_style
from gpu_report.glossary import Row, device_words
from gpu_report.page.shared import COLORS, KERNELS, html_table, inline_svg, rendered, timelines_of
from gpu_report.tables.statistics import FEWEST_FOR_INTERVAL, Summary
from gpu_report.tables.traces import top_kernels, trusted_timeline
from gpu_report.traces.operations import OPERATIONS
from gpu_report.traces.quality import Gate
from gpu_report.traces.trace import HOST
from gpu_report.writing.table import Text, metric

_MOST_OPERATIONS: Final = 50
"""Of each device."""
_BLOCKS: Final = (
    Text("block", is_number=True),
    metric("time_ms", "time per step", "ms"),
    metric("data_wait_share", "waiting for data", "share"),
    metric("in_use_mib", "memory in use", "memory alone"),
)
_PARTS: Final = (Text("part"), metric("share", "share of the step", "share"))
_SUGGESTIONS: Final = (
    Text("what was found", "finding", width=0.4),
    Text("what to try", "remedy", width=0.4),
    metric("at_stake", "share of the step at stake", "share"),
    metric("gain", "times as fast, at most", "ratio"),
)
_OPERATIONS: Final = (
    Text("operation", "name", is_name=True),
    Text("runs on", lambda row: device_words(row["device"])),
    Text("category", words.category_words),
    Text("calls", is_number=True),
    metric("self_ms", "own time", "ms"),
    metric("self_share", "share of the device's time", "share"),
    metric("total_ms", "with what it calls", "ms"),
    metric("median_us", "median call", "µs"),
)


def render_profile(
    *,
    card: str,
    facts: Mapping[str, str],
    blocks: Sequence[Row],
    time_ms: Summary,
    parts: Sequence[Row],
    suggestions: Sequence[Row],
    gate: Gate,
) -> str:
    """The text of the file.

    Args:
        card: What limits the step, as it is printed.
        facts: Under which name and value to say what was profiled, and where.
        blocks: Of each timed block `block`, `time_ms`, `data_wait_share` and `in_use_mib`.
        time_ms: Their mean time with its interval.
        parts: Of each part of a step its name as `part`, and its `share`.
        suggestions: Of each `finding`, `remedy`, `at_stake`, and `gain`; the last two NaN where no
            time is at stake.
        gate: The trace tables, of which the page shows what their checks let through.
    """
    operations = gate.rows(OPERATIONS)
    operations.sort(key=lambda row: (row["device"] == HOST, row["device"], -row["self_ms"]))
    of_device: dict[str, list[Row]] = {}
    for row in operations:
        of_device.setdefault(row["device"], []).append(row)
    figures = []
    if len(blocks) >= FEWEST_FOR_INTERVAL:
        with report_style():
            drawn = blocks_figure(
                [row["time_ms"] for row in blocks],
                [row["in_use_mib"] for row in blocks],
                mean_ms=time_ms,
            )
            figures = [*draw_all([lambda: drawn], file_format="svg")]
    data = {
        "names": {},
        "first": "",
        "timelines": timelines_of({"variant": "", **row} for row in trusted_timeline(gate)),
        "operations": html_table(
            _OPERATIONS, [row for own in of_device.values() for row in own[:_MOST_OPERATIONS]]
        ),
        "kernels": html_table(KERNELS, [*top_kernels(gate)]),
        "colors": COLORS,
    }
    return rendered(
        "profile.html.j2",
        data,
        card=card,
        facts=facts,
        figure=inline_svg(figures[0].decode(), 0) if figures else "",
        blocks=html_table(_BLOCKS, blocks),
        parts=html_table(_PARTS, parts),
        suggestions=html_table(_SUGGESTIONS, suggestions),
        doubts=[*dict.fromkeys(check["text"] for check in gate.failed)],
    )
