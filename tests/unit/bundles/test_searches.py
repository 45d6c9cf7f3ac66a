"""Batch-size searches travel in a bundle beside the records; a bundle without any is as good as
before.
"""

import json
from pathlib import Path

import pytest

from gpu_report.bundles.manifest import Manifest
from gpu_report.bundles.packing import pack
from gpu_report.bundles.unpacking import unpack
from gpu_report.errors import BundleError
from gpu_report.records.batch_sizes import SEARCH_FILE, SearchRecord
from tests.factories import make_study
from tests.machine_results import write_results
from tests.searches import CONFIG, make_search

from .test_refusals import MACHINE, SLUG, replace_file

SEARCHES = make_study(config=CONFIG).searches
NAME = f"batch_sizes/{SEARCHES[0].slug}.json"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = write_results(tmp_path / "machines", make_study(), machine=MACHINE, variants=[SLUG])
    SEARCH_FILE.write(make_search(SEARCHES[0], machine=MACHINE), folder / NAME)
    return folder


def packed(results: Path, *, allow_dirty: bool = False) -> tuple[Manifest, dict[str, str]]:
    target = results.parent / "bundle.tar.xz"
    return pack(
        results,
        target,
        machine=MACHINE,
        study="default",
        with_traces=False,
        allow_dirty=allow_dirty,
    )


def dirty(record: SearchRecord) -> SearchRecord:
    return record.model_copy(
        update={"provenance": record.provenance.model_copy(update={"git_dirty": True})}
    )


def test_a_search_comes_out_of_a_bundle_as_it_went_in(results: Path, tmp_path: Path) -> None:
    packed(results)

    unpack(tmp_path / "machines/bundle.tar.xz", tmp_path / "other")

    assert (tmp_path / "other" / MACHINE / NAME).read_bytes() == (results / NAME).read_bytes()


def test_a_search_that_is_there_already_stays_as_it_is(results: Path, tmp_path: Path) -> None:
    packed(results)
    mine = tmp_path / "other" / MACHINE / NAME
    SEARCH_FILE.write(make_search(SEARCHES[0], machine=MACHINE, is_resolved=False), mine)
    before = mine.read_bytes()

    unpack(tmp_path / "machines/bundle.tar.xz", tmp_path / "other")

    assert mine.read_bytes() == before


def test_a_bundle_without_searches_leaves_an_empty_folder_so_that_the_workflow_has_its_output(
    results: Path, tmp_path: Path
) -> None:
    (results / NAME).unlink()
    packed(results)

    unpack(tmp_path / "machines/bundle.tar.xz", tmp_path / "other")

    assert list((tmp_path / "other" / MACHINE / "batch_sizes").iterdir()) == []


def test_a_search_by_code_that_no_commit_holds_is_packed_only_when_allowed(results: Path) -> None:
    SEARCH_FILE.write(dirty(make_search(SEARCHES[0], machine=MACHINE)), results / NAME)

    with pytest.raises(BundleError, match=f"such as {SEARCHES[0].slug}"):
        packed(results)
    assert NAME in [entry.path for entry in packed(results, allow_dirty=True)[0].files]


def test_a_search_under_the_name_of_another_is_refused_on_unpacking(
    results: Path, tmp_path: Path
) -> None:
    packed(results)
    bundle = tmp_path / "machines/bundle.tar.xz"
    replace_file(
        bundle, NAME, json.dumps(make_search(SEARCHES[1], machine=MACHINE).model_dump()).encode()
    )

    with pytest.raises(BundleError, match=f"is of {SEARCHES[1].slug} on {MACHINE}"):
        unpack(bundle, tmp_path / "other")
    assert not (tmp_path / "other" / MACHINE).exists()


def test_a_search_of_another_machine_is_not_packed(results: Path) -> None:
    SEARCH_FILE.write(make_search(SEARCHES[0], machine="laptop-8c"), results / NAME)

    with pytest.raises(BundleError, match=f"is of {SEARCHES[0].slug} on laptop-8c; take it out"):
        packed(results)


def test_a_damaged_search_is_left_out_and_named(results: Path) -> None:
    (results / NAME).write_text("{", "utf-8")

    assert "is not whole JSON" in packed(results)[1][SEARCHES[0].slug]
