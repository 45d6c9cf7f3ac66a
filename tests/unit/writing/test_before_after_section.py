"""The section on two sets of results: there where the configuration names them, and nowhere
else.
"""

import re
from functools import cache

from gpu_report.findings.before_after import derive_before_after
from gpu_report.glossary import Row
from gpu_report.records.record import Record
from gpu_report.tables.before_after import NO_CHANGE, TIME, side_of, tabulate_before_after
from gpu_report.writing.rows import changes_not_shown, remarkable_changes
from tests.factories import make_records, make_study
from tests.report.synthetic import render_machines, render_study, results_of, section_with_floats

STUDY = make_study()


@cache
def rows() -> list[Row]:
    """Every configuration of the default study, of which one got slower and one fails
    afterwards.
    """
    before = [record for record in make_records(STUDY, noise=0.001) if record.status == "ok"]
    after: list[Record] = [
        *before[:-2],
        *make_records(
            STUDY, variants=[before[-2].variant], noise=0.001, faster={"cpu": 0.8, "cuda": 0.8}
        ),
        *make_records(STUDY, variants=[before[-1].variant], status="failed"),
    ]
    pairs = zip(before, after, strict=True)
    return tabulate_before_after(
        {one.variant: (side_of(one), side_of(other)) for one, other in pairs}, in_turns=False
    )


@cache
def files() -> dict[str, str]:
    found = derive_before_after(
        rows(), machine="xeon-2c", sides="Before: a. After: b", remarks=[], differences=[]
    )
    return render_machines(
        STUDY, [results_of(STUDY)], before_after=rows(), before_after_findings=found
    )


def test_the_section_has_what_changed_first_and_the_answers() -> None:
    text = (
        section_with_floats(files(), "before_after")
        .replace(r"\gpurepbreak{}", "")
        .replace(r"\_", "_")
    )
    names = re.findall(r"\\gpurepname\{([^}]+)\}", text)

    assert {row["configuration"] for row in rows() if row["verdict"] in ("slower", "fails")} <= {
        *names
    }
    assert r"\gpurepfinding{" in text
    assert "before_after" in files()["gpu_report.tex"]


def test_without_two_sets_of_results_nothing_of_it_is_in_the_report() -> None:
    assert not [name for name, text in render_study(STUDY).items() if "before_after" in name + text]


def test_the_table_fits_a_page_and_counts_the_rest() -> None:
    shown = remarkable_changes(rows())
    (note,) = changes_not_shown(rows(), shown)

    assert len(shown) == 25 < len(rows())
    assert len(shown) + sum(map(int, re.findall(r" in (\d+)", note))) == len(rows())


def test_of_all_but_times_only_what_changed_is_shown() -> None:
    assert all(
        row["compared"] == TIME or row["verdict"] != NO_CHANGE for row in remarkable_changes(rows())
    )


def test_where_all_are_shown_nothing_is_counted() -> None:
    few = [row for row in rows() if row["compared"] == TIME][:3]

    assert changes_not_shown(few, remarkable_changes(few)) == []
