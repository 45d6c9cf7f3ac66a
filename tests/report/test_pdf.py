"""The PDF as an archive, a screen reader and a file manager see it."""

import re
from pathlib import Path

import pytest

from gpu_report.writing.latex import compile_report
from tests.report.conftest import Compiled
from tests.report.pdf_reading import (
    alternative_texts,
    fonts_not_embedded,
    pdf_information,
    pdf_metadata,
    pdf_objects,
    said_by,
)
from tests.report.synthetic import DATED, TWO_MACHINES, results_on, write_project

ENGINES = ("pdflatex", "lualatex")
FORBIDDEN = (
    b"/JavaScript",
    b"/Launch",
    b"/Encrypt",
    b"/LZWDecode",
    b"/DeviceCMYK",
    b"/EmbeddedFile",
    b"/PTEX.",
)


@pytest.fixture(scope="module", params=ENGINES)
def pdf(request: pytest.FixtureRequest, compiled: Compiled) -> Path:
    """The report on one CPU, its data where the report says that they lie."""
    return compiled("cpu", engine=request.param)


def first_pages(pdf: Path) -> tuple[str, str]:
    """The page that has the summary and the contents, and the one that follows."""
    first, second, *_ = said_by("pdftotext", pdf, "-").split("\f")
    return first, second


@pytest.mark.slow
def test_the_pdf_says_that_it_is_pdf_a_2b_and_what_its_information_says(pdf: Path) -> None:
    metadata, information = pdf_metadata(pdf), pdf_information(pdf)

    assert (metadata["pdfaid:part"], metadata["pdfaid:conformance"]) == ("2", "B")
    same = {
        "dc:title": "Title",
        "dc:creator": "Author",
        "dc:description": "Subject",
        "pdf:Keywords": "Keywords",
        "pdf:Producer": "Producer",
        "xmp:CreatorTool": "Creator",
        "xmp:CreateDate": "CreationDate",
        "xmp:ModifyDate": "ModDate",
    }
    assert {name: metadata[name] for name in same} == {
        name: information[told] for name, told in same.items()
    }
    assert metadata["xmp:CreateDate"] == "2026-05-04T10:00:00Z"


@pytest.mark.slow
def test_the_pdf_has_what_an_archive_demands_and_nothing_that_it_forbids(pdf: Path) -> None:
    objects = pdf_objects(pdf)
    links = re.findall(rb"/Subtype\s*/Link.*?>>\s*(?=endobj|\d+ \d+ obj|<<|$)", objects, re.DOTALL)

    assert fonts_not_embedded(pdf) == []
    assert [word for word in FORBIDDEN if word in objects] == []
    assert re.search(rb"/OutputIntents\s*\[\s*<<[^>]*/DestOutputProfile", objects)
    assert b"acsp" in objects, "the colour profile itself"
    assert re.search(rb"/ID\s*\[\s*<[0-9A-Fa-f]{32}>\s*<[0-9A-Fa-f]{32}>\s*\]", objects)
    assert objects.startswith(b"%PDF-1.")
    assert b"/CharSet" not in objects
    assert b"/CIDSet" not in objects
    assert len(links) > 20
    assert objects.count(b"/F 4") >= len(links)


@pytest.mark.slow
def test_every_figure_has_words_for_those_who_cannot_see_it(pdf: Path) -> None:
    figures = [figure.alt for figure in results_on("cpu").figures]

    said = alternative_texts(pdf)

    assert figures
    assert [alt for alt in figures if " ".join(alt.split()) not in said] == []


@pytest.mark.slow
def test_the_id_of_the_file_follows_the_numbers_and_no_color_profile_claims_nothing(
    tmp_path: Path, compiled: Compiled
) -> None:
    folder = write_project(tmp_path, "cpu")
    with (folder / "numbers.tex").open("a", encoding="utf-8") as numbers:
        numbers.write("% another\n")
    document = folder / "gpu_report.tex"
    document.write_text(
        document.read_text("utf-8").replace("sRGB.icc", "no such profile.icc"), encoding="utf-8"
    )

    pdf = compile_report(folder, dated=DATED)

    one, other = (
        re.findall(rb"/ID\s*\[\s*<(\w+)>", path.read_bytes()) for path in (compiled("cpu"), pdf)
    )
    assert one != other
    assert pdf_metadata(pdf) == {}
    assert b"/OutputIntents" not in pdf_objects(pdf)


@pytest.mark.slow
def test_on_a_cpu_alone_the_first_page_is_the_summary_and_what_limits(pdf: Path) -> None:
    first, second = first_pages(pdf)

    assert "How sure is this" in first
    assert "What limits each model, eager" in first
    assert "Machine and method" in second


@pytest.mark.parametrize(
    "shown", [("cpu", "cuda"), pytest.param((TWO_MACHINES,), marks=pytest.mark.slow)]
)
def test_the_first_page_is_the_summary_and_the_second_what_limits_each_model(
    compiled: Compiled, shown: tuple[str, ...]
) -> None:
    first, second = first_pages(compiled(*shown))

    assert "How sure is this" in first
    assert "References" in first
    assert second.lstrip().startswith("2\n")
    assert "What limits each model" in second


def test_what_to_do_is_in_its_section_though_its_table_fits_no_begun_page(tmp_path: Path) -> None:
    folder = write_project(tmp_path, "cpu")
    (table,) = folder.glob("floats/tab/*/decisions.tex")
    tall = "\\begin{gpureptable}\\vspace*{0.6\\textheight}"
    table.write_text(table.read_text("utf-8").replace("\\begin{gpureptable}", tall), "utf-8")

    text = said_by("pdftotext", compile_report(folder, dated=DATED), "-")

    places = [text.rindex(head) for head in ("What to do, by symptom", "Networks and data\n")]
    assert places == sorted(places)
