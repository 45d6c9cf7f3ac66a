"""The points of sentinels travel in a bundle; one without any is as good as before."""

from pathlib import Path

import pytest

from gpu_report.bundles.unpacking import unpack
from gpu_report.errors import BundleError
from gpu_report.records.record import POINT_FILE, Attempt, SentinelPoint, read_points
from tests.factories import make_record, make_study
from tests.machine_results import write_results

from .test_refusals import MACHINE, SLUG
from .test_searches import packed

NAME = f"sentinels/20260504T100000Z-{SLUG}.json"


def make_point(*, machine: str = MACHINE, is_dirty: bool = False) -> SentinelPoint:
    record = make_record(SLUG, machine=machine)
    provenance = record.provenance.model_copy(update={"git_dirty": is_dirty})
    fields = {name: getattr(record, name) for name in Attempt.model_fields}
    return SentinelPoint(**{**fields, "provenance": provenance}, throughputs_per_s=[1.5, 2.5])


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = write_results(tmp_path / "machines", make_study(), machine=MACHINE, variants=[SLUG])
    POINT_FILE.write(make_point(), folder / NAME)
    return folder


def test_a_point_comes_out_of_a_bundle_as_it_went_in(results: Path, tmp_path: Path) -> None:
    packed(results)

    unpack(tmp_path / "machines/bundle.tar.xz", tmp_path / "other")

    assert read_points(tmp_path / "other" / MACHINE) == [make_point()]


def test_a_bundle_without_points_leaves_an_empty_folder(results: Path, tmp_path: Path) -> None:
    (results / NAME).unlink()
    packed(results)

    unpack(tmp_path / "machines/bundle.tar.xz", tmp_path / "other")

    assert list((tmp_path / "other" / MACHINE / "sentinels").iterdir()) == []


def test_a_point_by_code_that_no_commit_holds_is_packed_only_when_allowed(results: Path) -> None:
    POINT_FILE.write(make_point(is_dirty=True), results / NAME)

    assert NAME not in [entry.path for entry in packed(results)[0].files]
    assert NAME in [entry.path for entry in packed(results, allow_dirty=True)[0].files]


def test_a_point_of_another_machine_is_not_packed(results: Path) -> None:
    POINT_FILE.write(make_point(machine="laptop-8c"), results / NAME)

    with pytest.raises(BundleError, match=f"is of {SLUG} on laptop-8c; take it out"):
        packed(results)


def test_a_damaged_point_is_left_out_and_named(results: Path) -> None:
    (results / NAME).write_text("{", "utf-8")

    assert "is not whole JSON" in packed(results)[1][Path(NAME).stem]
