"""The section of an experiment that searches batch sizes: there where anything was searched, and
nowhere else.
"""

from functools import cache

from gpu_report.page.page import _sections
from gpu_report.study.study import Study
from gpu_report.writing.machine import MachineResults
from tests.factories import make_records, make_study, make_tables
from tests.report.synthetic import render_machines, results_of, section_with_floats
from tests.searches import make_failed_search, make_search


@cache
def searched() -> tuple[Study, MachineResults]:
    """The default study, whose search of the LSTM found nothing that fits."""
    study = make_study()
    *found, last = study.searches
    records = make_records(study)
    searches = [*map(make_search, found), make_failed_search(last)]
    return study, results_of(
        study, records=records, tables=make_tables(study, records, searches=searches)
    )


@cache
def files() -> dict[str, str]:
    study, machine = searched()
    return render_machines(study, [machine])


def test_the_section_has_a_row_for_each_search_and_its_answers() -> None:
    text = section_with_floats(files(), "batch_search")

    assert text.count(r"U-Net 128px & ") == 2
    assert "out of memory" in text
    assert "592.2 to 607.8" in text
    assert "batch_search" in files()["gpu_report.tex"]


def test_the_answers_are_numbers_that_a_document_can_quote() -> None:
    keys = [line.partition(",")[0] for line in files()["numbers.csv"].splitlines()]

    answers = {
        f"xeon-2c/batch_search/U-Net-128px/bf16/{of}_samples"
        for of in ("largest", "fastest", "near")
    }
    assert answers <= set(keys)


def test_the_page_has_the_answers_too() -> None:
    _, machine = searched()

    assert "batch_search" in [section["name"] for section in _sections(machine)]


def test_without_searches_the_section_is_left_out_of_report_and_page() -> None:
    study = make_study()
    machine = results_of(study, tables=make_tables(study))
    document = render_machines(study, [machine])["gpu_report.tex"]

    assert "batch_search" not in document
    assert "batch_search" not in [section["name"] for section in _sections(machine)]
