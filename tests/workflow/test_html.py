"""Snakemake's HTML report shows the files that the PDF is made of, by machine and experiment."""

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.made_once import made_once

from .conftest import Project

pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Html:
    """The report as text, and what its script shows: results by path, and category -> subcategory -> paths."""

    project: Project
    text: str
    results: dict[str, Any]
    categories: dict[str, dict[str, list[str]]]

    def holds(self, path: Path) -> bool:
        """Whether it has the file, byte for byte."""
        entry = self.results.get(path.relative_to(self.project.folder).as_posix())
        return entry is not None and base64.b64decode(entry["data_uri"].partition("base64,")[2]) == path.read_bytes()

    def words_about(self, path: str) -> set[str]:
        return {*re.findall(r"[A-Za-z]{4,}", re.sub(r"<[^>]*>", "", self.results[path]["caption"]))}


def embedded(text: str, script: str) -> Any:
    """What the page's script of this id gives its variable."""
    begin = re.search(rf'<script id="{script}">\s*var \w+ = ', text)
    assert begin is not None
    return json.JSONDecoder().raw_decode(text, begin.end())[0]


@pytest.fixture(scope="module")
def html(built_tiny: Project, tmp_path_factory: pytest.TempPathFactory) -> Html:
    def make(folder: Path) -> None:
        # As the README and `make html` write it, without --cores.
        project = built_tiny.copy_to(folder)
        made = project.run("snakemake", "--report", "report/gpu_report.html", "--configfile", project.configfile)
        assert made.returncode == 0, made.stdout + made.stderr

    folder = made_once(tmp_path_factory, "html", make)
    text = (folder / "report/gpu_report.html").read_text("utf-8")
    project = Project(folder=folder, configfile=built_tiny.configfile)
    return Html(project=project, text=text, results=embedded(text, "results"), categories=embedded(text, "categories"))


def floats(html: Html, kind: str) -> list[Path]:
    return sorted((html.project.folder / "report/floats" / kind).rglob("*.tex"))


def figure_of(html: Html, tex: Path) -> Path:
    """The picture of a figure's float."""
    folder = html.project.folder / "report"
    return folder / "figures" / tex.relative_to(folder / "floats/fig").with_suffix(".pdf")


def test_every_figure_of_the_pdf_is_in_it_as_the_same_file(html: Html) -> None:
    figures = [figure_of(html, tex) for tex in floats(html, "fig")]

    assert len(figures) > 5
    assert [figure.name for figure in figures if not html.holds(figure)] == []


def test_every_table_of_the_pdf_is_in_it_as_the_same_file_and_with_the_csv_behind(html: Html) -> None:
    tables = floats(html, "tab")
    machine = html.project.records()[0].parents[2]

    assert len(tables) > 5
    assert [table.name for table in tables if not html.holds(table)] == []
    assert [path.name for path in (machine / "tables").iterdir() if not html.holds(path)] == []


def test_the_pdf_its_numbers_and_its_findings_are_in_it(html: Html) -> None:
    machine = html.project.records()[0].parents[2]

    assert html.holds(html.project.folder / "report/gpu_report.pdf")
    assert html.holds(html.project.folder / "report/numbers.csv")
    assert html.holds(machine / "findings.csv")


def test_results_are_under_their_machine_and_experiment(html: Html) -> None:
    machine = html.project.records()[0].parents[2].name

    assert set(html.categories[machine]) == {"device", "batch_size", "all experiments"}
    assert set(html.categories[machine]["batch_size"]) >= {
        f"report/figures/{machine}/batch_size_throughput.pdf",
        f"report/floats/tab/{machine}/batch_size.tex",
        f"results/machines/{machine}/tables/batch_size.csv",
    }
    assert all(Path(path).name.startswith("device") for path in html.categories[machine]["device"] if "figures" in path)


def test_no_two_results_of_a_list_have_the_same_name_which_would_hide_one(html: Html) -> None:
    for subcategories in html.categories.values():
        for paths in subcategories.values():
            names = [html.results[path]["labels"]["file"] for path in paths]
            assert len(names) == len(set(names))


def test_a_figure_is_described_in_the_words_of_its_caption_in_the_pdf(html: Html) -> None:
    for tex in floats(html, "fig"):
        path = figure_of(html, tex).relative_to(html.project.folder).as_posix()

        words = html.words_about(path)

        assert len(words) > 5
        assert words - {"words"} <= {*re.findall(r"[A-Za-z]{4,}", tex.read_text("utf-8"))}, path


def test_it_begins_with_the_studys_title_and_headline(html: Html) -> None:
    described = embedded(html.text, "workflow-desc")

    assert ">A tiny study</h1>" in described
    for line in (html.project.folder / "report/headline.txt").read_text("utf-8").splitlines():
        assert line in described


def test_it_loads_nothing_from_elsewhere(html: Html) -> None:
    page = re.sub(r"<script.*?</script>", "", html.text, flags=re.DOTALL)

    assert not re.search(r"<(?:script|link|img)\b[^>]*(?:src|href)=", page)
    assert not re.search(r"<script[^>]*src=", html.text)
