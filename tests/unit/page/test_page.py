"""The page has what the tables and findings have, and nothing in it can be taken for markup."""

import gzip
import json
import re
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from gpu_report.answers.machines import derive_comparison
from gpu_report.page.page import render_page
from gpu_report.tables.bundle import rows_of
from gpu_report.tables.marks import MEANINGS
from gpu_report.traces.memory import MEMORY
from gpu_report.writing import cards
from gpu_report.writing.machine import MachineResults
from tests.browser import browser, needs_chromium
from tests.factories import SCALING, make_record, make_study, make_tables, with_tables
from tests.report.synthetic import comparison_of, results_of, results_on
from tests.trace_frames import make_trace_tables
from tests.unit.figures.drawn import study_of

HOSTILE = "</script><b onclick='x'>\"&lt;"


def page(machine: MachineResults, *others: MachineResults, title: str = "t") -> str:
    """The page of a machine, beside others."""
    comparison = comparison_of([machine, *others])
    return render_page(
        title=title,
        machine=machine,
        memory={
            record.variant: make_trace_tables(record.variant).get(MEMORY, [])
            for record in machine.records
        },
        comparison=comparison,
        comparison_findings=derive_comparison(comparison),
    )


@cache
def page_of(*devices: str) -> str:
    return page(results_on(*devices))


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/gzip" id="data">(.*?)</script>', page)
    assert found is not None
    data: dict[str, Any] = json.loads(gzip.decompress(b64decode(found[1])))
    return data


def csv_values(table: dict[str, Any]) -> list[dict[str, float | None]]:
    """The rows of a table of the page by column of the CSV, of those that are numbers."""
    columns = [column["csv"] for column in table["columns"]]
    numbers = [
        position for position, column in enumerate(table["columns"]) if column["kind"] == "number"
    ]
    return [{columns[at]: row[at] and row[at][0] for at in numbers} for row in table["rows"]]


@pytest.mark.parametrize("table", ["configurations", "kernels"])
def test_the_numbers_of_a_table_are_those_of_the_csv(table: str) -> None:
    tables = results_on("cpu", "cuda").tables
    rows = rows_of({"configurations": tables.variants, "kernels": tables.top_kernels}[table])

    shown = csv_values(data_of(page_of("cpu", "cuda"))[table])

    assert len(shown) == len(rows) > 0
    for values, row in zip(shown, rows, strict=True):
        assert {column: row[column] for column, value in values.items() if value is not None} == {
            column: value for column, value in values.items() if value is not None
        }


def test_every_answer_is_there_with_its_evidence() -> None:
    text = unescape(page_of("cpu", "cuda"))
    decided = [
        each for each in results_on("cpu", "cuda").findings if each.verdict != "not measured"
    ]

    assert len(decided) > 20
    for finding in decided:
        assert finding.question in text
        assert finding.statement in text
        assert all(evidence.value in text for evidence in finding.evidence)


def test_what_to_do_is_there_in_order_with_gains_and_their_intervals() -> None:
    rows = results_on("cpu", "cuda").decisions
    gains = [cards.DECISIONS[-1].quantity(row) for row in rows]
    expected = [
        [row["symptom"], row["action"], gain.plain() if gain.is_measured else ""]
        for row, gain in zip(rows, gains, strict=True)
    ]

    section = page_of("cpu", "cuda").partition('<section id="decisions">')[2]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", section.partition("</section>")[0])

    assert any(gain.has_interval for gain in gains)
    assert [*map(unescape, cells)] == [cell for row in expected for cell in row]


def test_an_answer_has_the_flags_of_the_configurations_behind_it_with_their_meaning() -> None:
    tables = results_on("cpu", "cuda").tables
    device = tables.experiments["device"]
    marked = device.assign(marks=["other session", *device["marks"][1:]])
    flagged = replace(tables, experiments={**tables.experiments, "device": marked})

    text = page(results_of(make_study(devices=("cpu", "cuda")), tables=flagged))

    section = text.partition('<section id="answers-device">')[2].partition("</section>")[0]
    answers = re.findall(r"<p>((?:(?!</p>).)*)</p>\s*<details>(.*?)</details>", section, re.DOTALL)
    behind = [device["variant"][0] in evidence for _, evidence in answers]
    assert MEANINGS["other session"] in unescape(section)
    assert ["other session" in answer for answer, _ in answers] == behind
    assert {*behind} == {True, False}


def test_configurations_that_differ_in_the_length_of_the_training_alone_are_told_apart() -> None:
    table = data_of(page_of("cpu", "cuda"))["configurations"]
    headers = [column["header"] for column in table["columns"]]

    told = Counter(json.dumps(row[: headers.index("throughput")]) for row in table["rows"])

    assert len(told) == len(table["rows"])


def test_sessions_are_a_column_where_there_are_several() -> None:
    study = study_of(scaling=SCALING)
    tables = make_tables(study)
    several = [1, *[2] * (len(tables.variants) - 1)]

    one, two = (
        data_of(page(results_of(study, tables=each)))["configurations"]["columns"]
        for each in (
            tables,
            with_tables(tables, variants=tables.variants.assign(session=several)),
        )
    )

    assert [sum(column["header"] == "session" for column in each) for each in (one, two)] == [0, 1]


@needs_chromium
def test_on_a_phone_neither_a_table_of_the_first_pages_nor_a_figure_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of("cpu", "cuda"), "utf-8")
    cut = """
        const first = "#summary .scroll, #decisions .scroll, .paper";
        const shown = [...document.querySelectorAll(first)];
        const wider = shown.filter((each) => each.scrollWidth > each.clientWidth);
        return [shown.length, wider.length, document.documentElement.scrollWidth];
    """

    with browser(tmp_path / "chromium") as tab:
        tab.become_a_phone()
        tab.open(file)
        shown, wider, width = tab.run(cut)

        assert tab.complaints == []
    assert shown > 3
    assert (wider, width) == (0, 400)


def test_a_name_is_shown_and_not_taken_for_markup() -> None:
    study = study_of(scaling=SCALING)
    tables = make_tables(study)
    named = with_tables(
        tables, variants=tables.variants.assign(workload_title=HOSTILE, size=HOSTILE)
    )

    text = page(results_of(study, tables=named), title=HOSTILE)

    assert HOSTILE in unescape(text.partition("<h1>")[2].partition("</h1>")[0])
    assert HOSTILE.capitalize() in data_of(text)["configurations"]["rows"][0][0]
    assert "<b onclick" not in text
    assert text.count("</script>") == 2


def test_ids_are_unique_and_figures_refer_to_their_own() -> None:
    text = page_of("cpu", "cuda")
    ids = Counter(re.findall(r'\sid="([^"]+)"', text))
    referred = {*re.findall(r'href="#([^"]+)"', text), *re.findall(r"url\(#([^)]+)\)", text)}

    assert [name for name, count in ids.items() if count > 1] == []
    assert referred - set(ids) == set()


def test_ranks_that_share_a_cpu_and_bounds_are_no_scaling() -> None:
    study = study_of(scaling=SCALING)
    tables = make_tables(study)
    on_cpu = tables.scaling_efficiency.assign(device="cpu")

    text = page(results_of(study, tables=with_tables(tables, scaling_efficiency=on_cpu)))

    assert data_of(text)["scaling"]["rows"] == []


def test_a_study_of_which_nothing_was_measured_has_a_page_that_says_so() -> None:
    study = study_of(scaling=SCALING)
    failed = [make_record(variant.slug, status="failed") for variant in study.variants]

    text = page(results_of(study, records=failed))

    assert "No configuration was measured." in text
    assert 'id="step"' not in text
    assert data_of(text)["roofline"] == []
