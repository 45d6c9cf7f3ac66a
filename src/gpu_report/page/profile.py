"""The page of a profile: what limits one training step, in a browser, without a network and without
other files.

card, blocks, parts, suggestions and trace tables -> profile.html.j2 in the frame, style and script
of every page
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gpu_report import words
from gpu_report.glossary import Row, device_words
from gpu_report.page.shared import COLORS, KERNELS, html_table, rendered, timelines_of
from gpu_report.tables.bundle import grouped
from gpu_report.tables.traces import top_kernels, trusted_timeline
from gpu_report.traces.operations import OPERATIONS
from gpu_report.traces.quality import Gate
from gpu_report.traces.ranges import MODULES, RANGES
from gpu_report.traces.shapes import SHAPES
from gpu_report.traces.trace import HOST
from gpu_report.writing.table import Text, metric

_MOST_OPERATIONS: Final = 50
"""Of each device; of ranges, modules and shapes too."""
_LONGEST_SHAPES: Final = 80
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
_HOST_AND_DEVICE: Final = (
    Text("calls", is_number=True),
    metric("host_ms", "on the host", "ms"),
    metric("host_share", "of the steps", "share"),
    metric("device_ms", "on the GPU", "ms"),
    metric("device_share", "of the GPU's time", "share"),
    metric("kernels", "kernels"),
)
_RANGES: Final = (Text("range", "name", is_name=True), *_HOST_AND_DEVICE)
_MODULES: Final = (
    Text("module", "name", is_name=True),
    *_HOST_AND_DEVICE,
    metric("own_device_ms", "by itself", "ms"),
    metric("backward_ms", "backward", "ms"),
)
_SHAPES: Final = (
    Text("operation", "name", is_name=True),
    Text("shapes", lambda row: words.shorten(row["shapes"], _LONGEST_SHAPES), is_name=True),
    Text("types", lambda row: words.shorten(row["types"], _LONGEST_SHAPES), is_name=True),
    Text("calls", is_number=True),
    metric("host_ms", "on the host", "ms"),
    metric("device_ms", "on the GPU", "ms"),
    metric("tflop_per_s", "TFLOP/s"),
    metric("flop_share", "of the data-sheet peak", "share"),
    metric("tb_per_s", "TB/s, at least"),
    metric("bandwidth_share", "of the data-sheet bandwidth", "share"),
)


def render_profile(
    *,
    card: str,
    facts: Mapping[str, str],
    parts: Sequence[Row],
    suggestions: Sequence[Row],
    gate: Gate,
    blocks: Sequence[Row] = (),
) -> str:
    """The text of the file.

    Args:
        card: What limits the step, as it is printed.
        facts: Under which name and value to say what was profiled, and where.
        parts: Of each part of a step its name as `part`, and its `share`.
        suggestions: Of each `finding`, `remedy`, `at_stake`, and `gain`; the last two NaN where no
            time is at stake.
        gate: The trace tables, of which the page shows what their checks let through.
        blocks: Of each timed block `block`, `time_ms`, `data_wait_share` and `in_use_mib`; none of
            a trace that is read from a file.
    """
    operations = sorted(
        gate.rows(OPERATIONS),
        key=lambda row: (row["device"] == HOST, row["device"], -row["self_ms"]),
    )
    of_device = grouped(operations, lambda row: row["device"])
    data = {
        "names": {},
        "first": "",
        "timelines": timelines_of({"variant": "", **row} for row in trusted_timeline(gate)),
        "operations": html_table(
            _OPERATIONS, [row for own in of_device.values() for row in own[:_MOST_OPERATIONS]]
        ),
        "kernels": html_table(KERNELS, [*top_kernels(gate)]),
        **{
            name: html_table(
                [
                    each
                    for each in columns
                    if isinstance(each, Text) or gate.trusts(table, each.column)
                ],
                table.checked(gate.rows(table, "name"))[:_MOST_OPERATIONS],
            )
            for name, columns, table in (
                ("ranges", _RANGES, RANGES),
                ("modules", _MODULES, MODULES),
                ("shapes", _SHAPES, SHAPES),
            )
        },
        "colors": COLORS,
    }
    return rendered(
        "profile.html.j2",
        data,
        card=card,
        facts=facts,
        blocks=html_table(_BLOCKS, blocks),
        parts=html_table(_PARTS, parts),
        suggestions=html_table(_SUGGESTIONS, suggestions),
        doubts=[*dict.fromkeys(check["text"] for check in gate.failed)],
    )
