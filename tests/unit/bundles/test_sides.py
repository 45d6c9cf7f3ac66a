"""The two sets of results that a configuration names: where they are, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from gpu_report.bundles.shown_machines import Shown, ShownMachine
from gpu_report.bundles.sides import choose_sides
from gpu_report.errors import ConfigError
from gpu_report.records.record import RECORD_FILE
from gpu_report.study.study import Study
from tests.factories import make_record, make_study

SLUG = "cnn-medium-cpu-b16-w0-fp32-e3"


@pytest.fixture(scope="module")
def study() -> Study:
    return make_study(devices=["cpu"])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in use, with one set of results."""
    monkeypatch.chdir(tmp_path)
    RECORD_FILE.write(make_record(SLUG), tmp_path / "old/runs" / SLUG / "record.json")
    return tmp_path


def named(before: str = "old", after: str = "old") -> dict[str, Any]:
    return {"before_after": {"before": before, "after": after}}


def shown(study: Study, *, bundle: Path | None = None) -> Shown:
    return Shown(machines=(ShownMachine(id="xeon-2c", study=study, bundle=bundle),), notes=())


def test_without_the_key_nothing_is_compared(study: Study) -> None:
    assert choose_sides({}, shown(study)) is None


@pytest.mark.parametrize("path", ["missing.tar.xz", "empty"])
def test_a_path_without_results_is_refused_by_its_key(
    project: Path, study: Study, path: str
) -> None:
    (project / "empty").mkdir()

    with pytest.raises(ConfigError, match=rf"^before_after\.after: .*{path}") as caught:
        choose_sides(named(after=path), shown(study))

    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("project")
def test_the_folder_that_this_run_measures_into_may_be_missing_yet(study: Study) -> None:
    sides = choose_sides(named(after="results/machines/xeon-2c/"), shown(study))

    assert sides is not None
    assert sides.by_name == {"before": Path("old"), "after": Path("results/machines/xeon-2c")}


@pytest.mark.usefixtures("project")
def test_a_folder_that_this_run_unpacks_is_read_from_its_bundle(study: Study) -> None:
    bundle = Path("old")  # in place of a bundle's file: any path that is there

    sides = choose_sides(named(after="results/imported/xeon-2c"), shown(study, bundle=bundle))

    assert sides is not None
    assert sides.after == bundle
