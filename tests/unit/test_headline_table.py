"""The README's table of numbers says what the published bundle holds."""

from pathlib import Path

import pytest

from gpu_report.notebook import read_bundle
from gpu_report.writing.machine import MachineResults
from scripts.headline_table import BEGIN, BUNDLE, END, STUDY, ReadmeError, headline, with_headline

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def published() -> MachineResults:
    return read_bundle(PROJECT / BUNDLE, study=PROJECT / STUDY)


def test_the_readme_says_what_the_published_bundle_holds(published: MachineResults) -> None:
    readme = (PROJECT / "README.md").read_text("utf-8")

    assert with_headline(readme, headline(published)) == readme  # make readme writes it anew


def test_a_row_has_a_cell_for_each_heading_and_a_dash_where_nothing_was_measured(
    published: MachineResults,
) -> None:
    heading, _, *rows = headline(published).splitlines()[2:]

    assert {row.count("|") for row in rows} == {heading.count("|")}
    assert any("| – |" in row for row in rows)
    assert not any("measured" in row or "nan" in row for row in rows)


@pytest.mark.parametrize("text", ["", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"])
def test_a_readme_without_the_two_markers_in_order_is_refused(text: str) -> None:
    with pytest.raises(ReadmeError, match="once each"):
        with_headline(text, "table")
