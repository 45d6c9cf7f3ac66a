"""What the pages are made of: the template with style and script, tables and timelines as JSON,
figures as SVG.

data and words -> template, page.css, page.js -> one HTML file that needs no network and no other
file
"""

import gzip
import json
import math
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from gpu_report import words
from gpu_report.errors import FileWriteError
from gpu_report.figures import palette
from gpu_report.glossary import METRICS, Metric, Row, american
from gpu_report.printing.terminal import clean
from gpu_report.storage.files import write_errors, write_text_atomically
from gpu_report.writing.table import Text, metric

_FOLDER: Final = Path(__file__).parent
_DATA_LOADING: Final = "#8C6239"
"""In figures it is hatched."""
COLORS: Final = {
    "phases": palette.PHASE_COLORS,
    "work": {
        **{american(category): color for category, color in palette.CATEGORY_COLORS.items()},
        "data loading": _DATA_LOADING,
    },
    "others": palette.OTHERS,
    "unknown": palette.QUIET,
    "allocated": palette.BLUE,
    "reserved": palette.ORANGE,
    "precisions": palette.PRECISION_COLORS,
}
KERNELS: Final = (
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
_FONT_SCALE: Final = 0.9
"""The page's font is wider by so much than the one that figures are laid out in."""
_MADE_BY: Final = b"<footer><p>Made by gpu-report"
_TAG: Final = re.compile(r"<[^>]+>")


def rendered(template: str, data: Mapping[str, Any], **printed: Any) -> str:
    """The text of a page: a template, with what page.js draws as `data` and everything else that it
    prints.

    Names from the trained code could otherwise reverse the order of the text after them.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # JSON, compressed, so that the file of a study with several times the timelines is small too.
    text = json.dumps(_present(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    page = environment.get_template(template).render(
        data=data,
        packed=b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
        css=Markup((_FOLDER / "page.css").read_text("utf-8")),
        script=Markup((_FOLDER / "page.js").read_text("utf-8")),
        **printed,
    )
    return clean(page)


def write_page(path: Path, text: str) -> None:
    """Write a page; one that is there is replaced.

    Raises:
        FileWriteError: the file cannot be written, or is there and gpu-report did not make it.
    """
    with write_errors(path):
        if path.is_file() and _MADE_BY not in path.read_bytes():
            raise FileWriteError(
                f"cannot write {path}: gpu-report did not make what is there; name another "
                "file, or delete it"
            )
    write_text_atomically(path, text)


def html_table(columns: Sequence[Text | Metric], shown: Sequence[Row]) -> dict[str, Any]:
    """Columns that say anything about these rows, and their cells: texts, or pairs of the CSV's
    value and its text.
    """
    kept = [column for column in columns if column.is_in(shown)]
    return {
        "columns": [_column(column, shown) for column in kept],
        "rows": [
            list(cells) for cells in zip(*(_cells(column, shown) for column in kept), strict=True)
        ],
        "variants": [row.get("variant", "") for row in shown],
    }


def _column(column: Text | Metric, shown: Sequence[Row]) -> dict[str, Any]:
    if isinstance(column, Text):
        return {
            "header": column.header,
            "kind": "number"
            if column.is_number
            else "name"
            if column.is_name
            else "long"
            if column.width
            else "text",
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
    return "" if callable(column.of) else column.of or column.header


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


def timelines_of(rows: Iterable[Row]) -> dict[str, Any]:
    """Of rows of TIMELINES each variant's stretches, a list for each column.

    Lanes and categories are by their positions in lists of names.
    """
    found = {}
    for variant, own in groupby(rows, key=lambda row: row["variant"]):
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


def _present(value: Any) -> Any:
    """The same with null for what is no finite number, which JSON does not have, and with texts as
    they are shown.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {_present(key): _present(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_present(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def inline_svg(svg: str, number: int) -> Markup:
    """A figure as a part of the page: in its font, as wide as there is room, and with ids that no
    other figure has.
    """

    def shortened(tag: re.Match[str]) -> str:
        text = re.sub(r"(\.\d\d)\d+", r"\1", tag[0])
        text = re.sub(r' id="[\w.]+_\d+"', "", text)  # names of groups, which nothing refers to
        text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>f{number}-", text)
        text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
        return re.sub(
            r"font-size: ([\d.]+)px",
            lambda size: f"font-size: {float(size[1]) * _FONT_SCALE:g}px",
            text,
        )

    drawn = svg[svg.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r' width="[^"]*" height="[^"]*"', "", drawn, count=1)
    drawn = drawn.replace("<svg", '<svg aria-hidden="true"', 1)
    return Markup(re.sub(r"\n\s*", "\n", _TAG.sub(shortened, drawn)))
