"""The study file that the stages read, and where they find what they read."""

from pathlib import Path

import pytest

from gpu_report.commands.results_folder import STUDY_FILE, ResolvedStudy, ResultsFolder
from gpu_report.errors import ConfigError
from gpu_report.study.config import read_config
from gpu_report.study.study import Study, load_study
from tests.factories import make_study

CONFIGS = Path(__file__).parents[3] / "config"


@pytest.mark.parametrize("name", ["study", "ci"])
def test_a_study_is_read_back_as_it_was_written(tmp_path: Path, name: str) -> None:
    study = load_study(read_config(CONFIGS / f"{name}.yaml"), devices=["cpu", "cuda"])
    written = ResolvedStudy.of("machine", study)
    written.write(tmp_path)

    found = STUDY_FILE.read(tmp_path / "study.json")

    assert found == written
    assert found.digest == written.digest
    for variant in study.variants:
        assert found.study.measurement(variant.slug) == study.measurement(variant.slug)


def written(study: Study, folder: Path) -> Path:
    ResolvedStudy.of("machine", study).write(folder)
    return folder / "study.json"


def test_an_experiment_alone_has_its_own_variants_and_a_folder_apart_beside_the_machines_records(
    tmp_path: Path,
) -> None:
    study = make_study(devices=["cpu"])
    whole, alone = (
        ResultsFolder.of(written(study, tmp_path), experiment=experiment)
        for experiment in ("", "batch_size")
    )

    assert alone.study == study.alone("batch_size")
    assert (whole.folder, alone.folder) == (tmp_path, tmp_path / "experiments/batch_size")
    assert whole.record_file("any") == alone.record_file("any")


def test_another_question_about_one_experiment_leaves_what_is_asked_of_the_others() -> None:
    def digests(**changes: object) -> dict[str, str]:
        config = read_config(CONFIGS / "study.yaml")
        config["experiments"]["complexity"] |= changes
        study = load_study(config, devices=["cpu"])
        return {
            name: ResolvedStudy.of("m", study.alone(name)).digest
            for name in ("complexity", "batch_size")
        }

    before, after = digests(), digests(question="Why?")

    assert {name for name in before if before[name] != after[name]} == {"complexity"}


@pytest.mark.parametrize("text", [None, "{", '{"schema_version": 1}'])
def test_a_study_file_that_is_missing_or_damaged_is_one_line(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "study.json").write_text(text, "utf-8")

    with pytest.raises(ConfigError, match=r"study\.json.*snakemake writes it") as caught:
        ResultsFolder.of(tmp_path / "study.json")

    assert "\n" not in str(caught.value)
