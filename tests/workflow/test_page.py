"""The page of a published bundle, made as a user makes it, opened in a browser, and held against
the CSV files.
"""

import csv
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from gpu_report.glossary import METRICS
from gpu_report.tables.efficiency import EFFICIENCY
from gpu_report.tables.variants import VARIANTS
from tests.browser import browser, needs_chromium
from tests.made_once import made_once

from .conftest import PAGE, Project, copy_of_the_project

MACHINE = "h200-140gb-x1-xeon-16c"
STUDY = "config/study.yaml"
MOST_BYTES = 2_000_000
USED = (Path(__file__).parent / "page_use.js").read_text("utf-8")
WIDTH = (
    "await new Promise((drawn) => setTimeout(drawn, 300)); return "
    "document.documentElement.scrollWidth"
)
ADDRESS = (
    "?configurations.words=u-net+graphs&configurations.precision=bf16&configurations.order=-8"
    "&step=unet-128px-cuda-b16-w0-fp32-e3"
)
ASKED_FOR = """
while (!document.querySelector("#roofline-chart svg path"))
  await new Promise((done) => requestAnimationFrame(done));
const field = document.querySelector("#configurations-table input");
const sorted = document.querySelector("#configurations-table [aria-sort=descending] button");
const seen = [field.value, sorted.textContent, document.querySelector("#profiled").value];
const rows = [...document.querySelectorAll("#configurations-table tbody tr")];
seen.push(rows.map((row) => row.lastChild.textContent));
document.querySelector("#configurations-table [type=reset]").click();
for (let tries = 0; tries < 100 && location.search.includes("words"); tries++)
  await new Promise((done) => setTimeout(done, 20));
return [...seen, location.search];
"""
BACKGROUND = "return getComputedStyle(document.body).backgroundColor"


@dataclass(frozen=True, kw_only=True)
class Built:
    project: Project

    @property
    def page(self) -> Path:
        return self.project.folder / PAGE

    @property
    def results(self) -> Path:
        return self.project.folder / "results/imported" / MACHINE

    def rows(self, table: str) -> list[dict[str, str]]:
        with (self.results / table).open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    @cached_property
    def variants(self) -> dict[str, dict[str, str]]:
        return {row["variant"]: row for row in self.rows("tables/variants.csv")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    def make(folder: Path) -> None:
        project = copy_of_the_project(folder, STUDY)
        made = project.snakemake("--config", "machines=[published]", "--", PAGE)
        assert made.returncode == 0, made.stdout + made.stderr

    folder = made_once(tmp_path_factory, "page", make)
    return Built(project=Project(folder=folder, configfile=STUDY))


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What page_use.js returned, what the console said, and which addresses were asked for."""

    seen: dict[str, Any]
    complaints: list[dict[str, Any]]
    requests: list[str]


@pytest.fixture(scope="module")
def opened(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    with browser(tmp_path_factory.mktemp("chromium")) as tab:
        tab.open(built.page)
        seen = tab.run(USED)
        light = tab.run(BACKGROUND)
        tab.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark"}],
        )
        seen["backgrounds"] = [light, tab.run(BACKGROUND)]
        tab.become_a_phone()
        seen["width"] = tab.run(WIDTH)
        tab.open(built.page, ADDRESS)
        seen["asked for"] = tab.run(ASKED_FOR)
        return Opened(seen=seen, complaints=tab.complaints, requests=tab.requests)


@pytest.mark.slow
def test_it_is_small_and_asks_for_nothing_from_elsewhere(built: Built) -> None:
    text = built.page.read_text("utf-8")

    assert built.page.stat().st_size <= MOST_BYTES
    assert "default-src 'none'" in text
    assert re.findall(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=", text) == []


def numbers_of(row: dict[str, str], *columns: str) -> list[float]:
    return [float(row[column]) for column in columns]


def numbers_in(lines: list[str]) -> list[float]:
    return [float(number) for number in re.findall(r"\d[\d.e-]*", " ".join(lines))]


@pytest.mark.slow
@needs_chromium
def test_the_browser_loads_one_file_and_has_nothing_to_complain_about(
    opened: Opened, built: Built
) -> None:
    assert opened.complaints == []
    assert {each.partition("?")[0] for each in opened.requests} == {built.page.as_uri()}


@pytest.mark.slow
@needs_chromium
def test_every_number_of_the_configurations_is_that_of_the_csv_and_written_as_in_the_pdf(
    opened: Opened, built: Built
) -> None:
    rows = opened.seen["configurations"]
    typed = {
        row["variant"]: row for row in VARIANTS.read_rows(built.results / "tables/variants.csv")
    }
    checked = 0

    assert [row[-1][0] for row in rows] == list(built.variants)
    for row in rows:
        for text, title in row:
            if not title:
                continue
            column, _, value = title.partition(" = ")
            variant = typed[row[-1][0]]
            assert float(value) == float(built.variants[row[-1][0]][column])
            if column in METRICS and column != "batch_size":
                metric = METRICS[column]
                shown = dict(zip(typed, metric.quantities(list(typed.values())), strict=True))
                assert text == shown[variant["variant"]].plain(unit=False)
                checked += 1
    assert checked > 400


@pytest.mark.slow
@needs_chromium
def test_the_filter_leaves_what_has_every_word(opened: Opened, built: Built) -> None:
    seen = opened.seen
    wanted = [
        name
        for name, row in built.variants.items()
        if (row["workload"], row["precision"]) == ("unet", "bf16") and "graphs" in row["options"]
    ]

    assert len(wanted) > 1
    assert seen["filtered"] == wanted
    assert seen["count"] == f"{len(wanted)} of {len(built.variants)} shown"


@pytest.mark.slow
@needs_chromium
def test_a_header_sorts_by_the_value_with_the_missing_last(opened: Opened) -> None:
    (first, falling), (second, rising) = opened.seen["sorted"]
    numbers = [float(each.partition(" = ")[2]) for each in falling if each]

    assert (first, second) == ("descending", "ascending")
    assert numbers == sorted(numbers, reverse=True)
    assert [float(each.partition(" = ")[2]) for each in rising if each] == numbers[::-1]
    assert falling[-1] == rising[-1] == ""


@pytest.mark.slow
@needs_chromium
def test_a_name_opens_its_step_with_the_numbers_of_the_csv_files(
    opened: Opened, built: Built
) -> None:
    seen = opened.seen
    variant = seen["step"]["variant"]
    stretches, kernels = (
        [row for row in built.rows(f"tables/{table}.csv") if row["variant"] == variant]
        for table in ("timelines", "top_kernels")
    )
    moments = built.rows(f"runs/{variant}/trace_tables/memory.csv")

    assert variant == "unet-128px-cuda-b16-w0-fp32-e3"
    assert seen["bars"] == len(stretches)
    known = [
        [
            *(round(time, 3) for time in numbers_of(row, "begin_ms", "end_ms")),
            float(row["busy_share"]),
        ]
        for row in stretches
    ]
    assert [lines for lines in seen["stretches"] if numbers_in(lines[1:]) not in known] == []
    known = [
        numbers_of(row, "at_ms", "allocated_mib", "reserved_mib")
        for row in moments
        if row["device"] == "cuda"
    ]
    assert [lines for lines in seen["memory"] if numbers_in(lines) not in known] == []
    values = [
        [title.partition(" = ")[2] for _, title in row if title] for row in seen["step"]["kernels"]
    ]
    columns = ("rank", "calls", "total_ms", "share", "median_us")
    assert [list(map(float, row)) for row in values] == [
        numbers_of(row, *columns) for row in kernels
    ]
    assert [row[1][0] for row in seen["step"]["kernels"]] == [row["name"] for row in kernels]


@pytest.mark.slow
@needs_chromium
def test_the_timeline_zooms_in_and_back_out(opened: Opened, built: Built) -> None:
    seen = opened.seen
    bars, words = seen["zoomed"]
    wall_ms = next(
        float(row["wall_ms"])
        for row in built.rows("tables/timelines.csv")
        if row["variant"] == seen["step"]["variant"]
    )

    assert 0 < bars < seen["bars"]
    assert words.endswith(f" of {round(wall_ms, 3)} ms")
    assert seen["whole"] == seen["bars"]


@pytest.mark.slow
@needs_chromium
def test_a_point_of_the_roofline_says_what_it_is(opened: Opened, built: Built) -> None:
    metric = METRICS["achieved_flops_per_s"]
    rows = EFFICIENCY.read_rows(built.results / "tables/efficiency.csv")
    name, achieved, intensity, share = opened.seen["roofline"]

    assert name
    assert achieved in {metric.quantity(row).plain() for row in rows if row["device"] == "cuda"}
    assert intensity.endswith(" FLOP/B")
    assert share.endswith("of the peak")


@pytest.mark.slow
@needs_chromium
def test_it_is_dark_where_that_is_asked_for_and_as_wide_as_a_phone_on_one(opened: Opened) -> None:
    light, dark = opened.seen["backgrounds"]

    assert light == "rgb(255, 255, 255)"
    assert dark == "rgb(20, 20, 20)"
    assert opened.seen["width"] == 400


def test_the_page_of_this_machine_has_what_was_measured(built_tiny: Project) -> None:
    text = (built_tiny.folder / PAGE).read_text("utf-8")

    assert "<h1>A tiny study</h1>" in text
    assert all(record.parent.name in text for record in built_tiny.records())


@pytest.mark.slow
def test_the_page_follows_its_files(tiny: Project) -> None:
    assert tiny.planned(PAGE) == {}
    style = tiny.folder / "src/gpu_report/page/page.css"
    style.write_text(style.read_text("utf-8") + "\n", "utf-8")
    assert tiny.planned(PAGE) == {"write_page": 1}


@pytest.mark.slow
@needs_chromium
def test_the_address_keeps_what_the_reader_chose(opened: Opened) -> None:
    words, column, step, rows, after = opened.seen["asked for"]

    assert (words, column, step) == ("u-net graphs", "throughput", "unet-128px-cuda-b16-w0-fp32-e3")
    assert rows
    assert all("bf16" in row and "graphs" in row for row in rows)
    assert after == "?configurations.order=-8&step=unet-128px-cuda-b16-w0-fp32-e3"
