"""The two sets of results of a report: what is written of them, and what is refused before anything
is measured.
"""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_report.bundles.shown_machines import ShownMachine
from gpu_report.bundles.sides import Sides
from gpu_report.commands.comparing import check_sides, compare_sides
from gpu_report.errors import ConfigError
from gpu_report.findings.finding import Finding, read_findings
from gpu_report.records.provenance import code_digest
from gpu_report.records.record import RECORD_FILE
from gpu_report.study.study import Study
from gpu_report.tables.before_after import BEFORE_AFTER, TIME
from tests.factories import make_records, make_study

MACHINE = "xeon-2c"
STUDY = make_study(devices=["cpu"])
SLUGS = [variant.slug for variant in STUDY.variants][:3]


def write_side(folder: Path, *, study: Study = STUDY, **options: Any) -> Path:
    """Results of three configurations, measured by today's code."""
    options = {
        "machine": MACHINE,
        "throughput_per_s": 100.0,
        "noise": 0.001,
        "code_digest": code_digest(),
        **options,
    }
    for record in make_records(study, variants=SLUGS, **options):
        RECORD_FILE.write(record, folder / "runs" / record.variant / "record.json")
    return folder


def compared(tmp_path: Path, before: Path, after: Path) -> tuple[list[Any], dict[str, Finding]]:
    table = tmp_path / "compared/before_after.csv"
    compare_sides(Namespace(before=before, after=after, table=table))
    findings = read_findings(table.with_name("findings.json"))
    return BEFORE_AFTER.read_rows(table), {finding.rule: finding for finding in findings}


def here(study: Study = STUDY) -> ShownMachine:
    return ShownMachine(id=MACHINE, study=study, bundle=None)


@pytest.fixture
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_got_slower_is_in_the_table_and_in_the_answers(tmp_path: Path) -> None:
    before, after = (
        write_side(tmp_path / "before"),
        write_side(tmp_path / "after", throughput_per_s=80.0),
    )

    rows, answers = compared(tmp_path, before, after)

    assert [row["verdict"] for row in rows if row["compared"] == TIME] == ["slower"] * len(SLUGS)
    assert answers["slower"].verdict == "yes"
    assert {each.variant for each in answers["slower"].evidence} == {*SLUGS}
    assert answers["memory"].verdict == answers["quality"].verdict == "no"
    assert (tmp_path / "compared/findings.csv").exists()


def test_what_else_differs_is_among_the_answers(tmp_path: Path) -> None:
    usual = make_records(STUDY, variants=SLUGS)[0].environment
    before = write_side(tmp_path / "before", environment=usual)
    after = write_side(tmp_path / "after", environment={**usual, "torch": "9.9.9"})
    (after / "runs" / SLUGS[0] / "record.json").unlink()

    _, answers = compared(tmp_path, before, after)

    assert "9.9.9" in answers["differences"].statement
    assert "1 configuration before alone" in answers["differences"].statement


def test_results_of_two_machines_are_refused_by_the_key(tmp_path: Path) -> None:
    before, after = (
        write_side(tmp_path / "before"),
        write_side(tmp_path / "after", machine="ryzen-8c"),
    )

    with pytest.raises(ConfigError, match=r"^before_after: .*xeon-2c before, ryzen-8c after"):
        compared(tmp_path, before, after)
    with pytest.raises(ConfigError, match=r"^before_after: .*xeon-2c before, ryzen-8c after"):
        check_sides(Sides(before=before, after=after), [])


def test_a_damaged_side_is_refused_by_its_key(tmp_path: Path) -> None:
    before, after = write_side(tmp_path / "before"), tmp_path / "after.tar.xz"
    after.write_bytes(b"no bundle")

    with pytest.raises(ConfigError, match=r"^before_after\.after: "):
        check_sides(Sides(before=before, after=after), [])


@pytest.mark.usefixtures("_in_folder")
def test_what_is_to_be_measured_alike_is_not_refused(tmp_path: Path) -> None:
    check_sides(Sides(before=write_side(tmp_path / "before"), after=here().results), [here()])


@pytest.mark.usefixtures("_in_folder")
@pytest.mark.parametrize(
    ("measured_before", "names"),
    [
        ({"machine": "ryzen-8c"}, "machine: ryzen-8c before, xeon-2c after"),
        ({"code_digest": "0" * 64}, "measuring code"),
        (
            {"study": replace(STUDY, protocol=replace(STUDY.protocol, timed_epochs=9))},
            "protocol.timed_epochs",
        ),
    ],
)
def test_what_is_to_be_measured_otherwise_is_refused_before_it_is(
    tmp_path: Path, measured_before: dict[str, Any], names: str
) -> None:
    before = write_side(tmp_path / "before", **measured_before)

    with pytest.raises(ConfigError, match=rf"^before_after: .*{names}"):
        check_sides(Sides(before=before, after=here().results), [here()])


@pytest.mark.usefixtures("_in_folder")
def test_a_record_that_is_not_measured_again_keeps_the_code_that_measured_it(
    tmp_path: Path,
) -> None:
    before = write_side(tmp_path / "before", code_digest="0" * 64)
    write_side(here().results, code_digest="0" * 64)

    check_sides(Sides(before=before, after=here().results), [here()])


@pytest.mark.usefixtures("_in_folder")
def test_a_study_without_any_of_the_configurations_is_refused(tmp_path: Path) -> None:
    before = write_side(tmp_path / "before")
    others = STUDY.restricted_to({variant.slug for variant in STUDY.variants} - {*SLUGS})

    with pytest.raises(ConfigError, match=r"^before_after: "):
        check_sides(Sides(before=before, after=here().results), [here(others)])
